// What every function of the C interface shares: errors become codes and a message per thread,
// exceptions stop here, texts change owner.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "include/kcc.h"
#include "kcc/base/result.h"

namespace kcc::api {

// Remembers the message for kcc_error() and gives the code that says the same.
kcc_status Fail(const Error& error);
kcc_status FailInternal(const char* what) noexcept;
// Allocates nothing.
kcc_status FailOutOfMemory() noexcept;

Result<> GiveText(const std::string& text, kcc_text* out);

// Runs `body`, a callable that returns Result<>, and turns what goes wrong into a status.
template <class Body>
kcc_status Guard(Body&& body) noexcept {
  try {
    const Result<> done = std::forward<Body>(body)();
    return done.has_value() ? KCC_OK : Fail(done.error());
  } catch (const std::bad_alloc&) {
    return FailOutOfMemory();
  } catch (const std::exception& error) {
    return FailInternal(error.what());
  } catch (...) {
    return FailInternal("unknown exception");
  }
}

// Every pointer that must be there; the error names the argument.
Result<> RequirePointer(const void* pointer, const char* name);

// 0: all cores.
Result<int> ThreadCount(int threads);

}  // namespace kcc::api
