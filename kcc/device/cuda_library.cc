#include "kcc/device/cuda_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr const char* kFileName = "libkcc_cuda.so";
constexpr const char* kHowToBuild =
    "; build it with `cmake --preset cuda && cmake --build --preset cuda --target kcc_cuda` "
    "(docs/gpu.md) and give its path";

std::string Beside(const std::filesystem::path& file) {
  return file.has_parent_path() ? (file.parent_path() / kFileName).string() : std::string();
}

std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "the loader does not say why" : text;
}

// Null, and the reasons so far get one more.
void* Open(const std::string& place, std::string* why) {
  std::error_code ignored;
  const bool is_path = place.find('/') != std::string::npos;
  if (is_path && !std::filesystem::exists(place, ignored)) {
    *why += (why->empty() ? "" : "; ") + place + " is not there";
    return nullptr;
  }
  void* const handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) *why += (why->empty() ? "" : "; ") + LoaderError();
  return handle;
}

class Functions {
 public:
  Functions(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  template <class Function>
  Result<> Find(const char* name, Function* to) const {
    *to = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*to != nullptr) return {};
    return IoError(path_ + " lacks the function " + name +
                   ": it is not kcc's CUDA library, or of another version");
  }

 private:
  void* handle_;
  std::string path_;
};

Result<CudaLibrary> Resolve(void* handle, const std::string& path) {
  const Functions functions(handle, path);
  decltype(&kcc_cuda_abi_version) version = nullptr;
  KCC_TRY_VOID(functions.Find("kcc_cuda_abi_version", &version));
  if (version() != KCC_CUDA_ABI_VERSION) {
    return IoError(path + " has version " + std::to_string(version()) +
                   " of the interface, and this kcc needs " + std::to_string(KCC_CUDA_ABI_VERSION) +
                   ": build both from one checkout");
  }
  CudaLibrary library;
  library.path = path;
  KCC_TRY_VOID(functions.Find("kcc_cuda_values", &library.values));
  KCC_TRY_VOID(functions.Find("kcc_cuda_value_name", &library.value_name));
  KCC_TRY_VOID(functions.Find("kcc_cuda_session_new", &library.session_new));
  KCC_TRY_VOID(functions.Find("kcc_cuda_session_free", &library.session_free));
  KCC_TRY_VOID(functions.Find("kcc_cuda_session_begin", &library.session_begin));
  KCC_TRY_VOID(functions.Find("kcc_cuda_session_add", &library.session_add));
  KCC_TRY_VOID(functions.Find("kcc_cuda_session_wait", &library.session_wait));
  KCC_TRY_VOID(functions.Find("kcc_cuda_session_read", &library.session_read));
  return library;
}

}  // namespace

std::vector<std::string> CudaLibraryPlaces() {
  std::vector<std::string> places;
  const auto add = [&](const std::string& place) {
    if (place.empty()) return;
    for (const std::string& known : places) {
      if (known == place) return;
    }
    places.push_back(place);
  };
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&CudaLibraryPlaces), &info) != 0 &&
      info.dli_fname != nullptr) {
    add(Beside(info.dli_fname));
  }
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) add(Beside(program));
  add(kFileName);
  return places;
}

Result<CudaLibrary> LoadCudaLibrary(const std::string& path) {
  const std::vector<std::string> places =
      path.empty() ? CudaLibraryPlaces() : std::vector<std::string>{path};
  std::string why;
  for (const std::string& place : places) {
    void* const handle = Open(place, &why);
    if (handle != nullptr) return Resolve(handle, place);
  }
  return IoError("no CUDA library: " + why + kHowToBuild);
}

}  // namespace kcc
