#include "kcc/api/guard.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "kcc/api/version.h"

namespace kcc::api {
namespace {

// Per thread, so that two threads' failures do not mix; a fixed text where memory is out.
thread_local std::string last_error;
thread_local const char* last_error_fixed = nullptr;

}  // namespace

kcc_status Fail(const Error& error) {
  last_error_fixed = nullptr;
  last_error = error.Format();
  switch (error.code()) {
    case ErrorCode::kInvalid:
      return KCC_INVALID;
    case ErrorCode::kIo:
      return KCC_IO;
    case ErrorCode::kBrokenEvidence:
      return KCC_BROKEN;
  }
  return KCC_INTERNAL;
}

kcc_status FailInternal(const char* what) noexcept {
  try {
    last_error = std::string("kcc failed: ") + what;
    last_error_fixed = nullptr;
  } catch (...) {
    last_error_fixed = "kcc failed: out of memory";
  }
  return KCC_INTERNAL;
}

Result<> GiveText(const std::string& text, kcc_text* out) {
  KCC_TRY_VOID(RequirePointer(out, "out"));
  auto* data = static_cast<char*>(std::malloc(text.size() + 1));
  if (data == nullptr) throw std::bad_alloc();
  std::memcpy(data, text.c_str(), text.size() + 1);
  out->data = data;
  out->size = text.size();
  return {};
}

Result<> RequirePointer(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return InvalidError(std::string(name) + " must not be NULL");
}

Result<int> ThreadCount(int threads) {
  if (threads < 0) return InvalidError("threads must not be negative; 0 takes all cores");
  if (threads > 0) return std::min(threads, 1024);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace kcc::api

extern "C" {

int kcc_abi_version(void) { return KCC_ABI_VERSION; }
const char* kcc_version(void) { return kcc::api::Version(); }

const char* kcc_error(void) {
  using namespace kcc::api;
  return last_error_fixed != nullptr ? last_error_fixed : last_error.c_str();
}

void kcc_text_free(kcc_text* text) {
  if (text == nullptr) return;
  std::free(text->data);
  text->data = nullptr;
  text->size = 0;
}

}  // extern "C"
