// KCC_CHECK: an invariant that no input can break. If a test can make it fire from outside, it
// should have been an Error.
#pragma once

namespace kcc {

[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace kcc

#define KCC_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::kcc::CheckFailed(#condition, __FILE__, __LINE__))
