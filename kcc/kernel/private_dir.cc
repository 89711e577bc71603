#include "kcc/kernel/private_dir.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace kcc {

Result<PrivateDir> PrivateDir::Make(const std::string& parent) {
  std::string path = (std::filesystem::path(parent) / "kcc-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    return IoError(std::string("cannot make a private directory here: ") + std::strerror(errno),
                   Place{parent});
  }
  return PrivateDir(std::move(path));
}

PrivateDir::PrivateDir(PrivateDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PrivateDir::~PrivateDir() {
  if (path_.empty()) return;
  std::error_code ignored;  // nobody is left to tell
  std::filesystem::remove_all(path_, ignored);
}

Result<> RemoveTree(const std::string& path) {
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  if (failed) return IoError("cannot remove: " + failed.message(), Place{path});
  return {};
}

}  // namespace kcc
