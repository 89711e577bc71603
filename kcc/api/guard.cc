#include "kcc/api/guard.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "kcc/api/version.h"

namespace kcc::api {
namespace {

// The message of this thread's last failure: `fixed` where it is set, else `text`, which malloc
// gave.
//
// Plain pointers in memory that every thread is started with. A thread_local with a destructor, or
// one that is made when it is first used, needs memory at that moment, and the C library ends the
// process where there is none. So the text is freed through a key instead, whose failure is told.
struct LastError {
  char* text;
  const char* fixed;
};
__attribute__((tls_model("initial-exec"))) constinit thread_local LastError last_error = {nullptr,
                                                                                          nullptr};

// Frees a thread's text with the thread; nothing where the system has no key left.
struct TextKey {
  pthread_key_t key = 0;
  bool made = ::pthread_key_create(&key, std::free) == 0;
};

bool Keep(char* text) noexcept {
  static const TextKey key;
  return key.made && ::pthread_setspecific(key.key, text) == 0;
}

// Without memory for the message: one that needs none.
void Remember(std::string_view prefix, std::string_view message) noexcept {
  last_error.fixed = "kcc failed: out of memory";
  const size_t size = prefix.size() + message.size();
  auto* text = static_cast<char*>(std::malloc(size + 1));
  if (text == nullptr) return;
  prefix.copy(text, prefix.size());
  message.copy(text + prefix.size(), message.size());
  text[size] = '\0';
  if (!Keep(text)) {
    std::free(text);
    return;
  }
  std::free(std::exchange(last_error.text, text));
  last_error.fixed = nullptr;
}

}  // namespace

kcc_status Fail(const Error& error) {
  Remember("", error.Format());
  if (last_error.fixed != nullptr) return KCC_INTERNAL;
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
  Remember("kcc failed: ", what);
  return KCC_INTERNAL;
}

kcc_status FailOutOfMemory() noexcept {
  last_error.fixed = "kcc failed: out of memory";
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
  if (last_error.fixed != nullptr) return last_error.fixed;
  return last_error.text != nullptr ? last_error.text : "";
}

void kcc_text_free(kcc_text* text) {
  if (text == nullptr) return;
  std::free(text->data);
  text->data = nullptr;
  text->size = 0;
}

}  // extern "C"
