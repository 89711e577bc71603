// "system_fingerprint" in an answer that is too large to be held, as its bytes pass: found however
// they are cut, as long as key and value together have kFingerprintSpan bytes at most. What is held
// of the answer is no more than that.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kcc {

inline constexpr size_t kFingerprintSpan = 1024;

class FingerprintSearch {
 public:
  // The next bytes. The one that stands last in all so far; empty: none.
  const std::string& Feed(std::string_view bytes);

 private:
  void Take(std::string found);

  std::string tail_;  // the last bytes of what has passed
  std::string found_;
};

}  // namespace kcc
