// SHA-256 (OpenSSL). Digests are written as "sha256:" and 64 lower-case hexadecimal digits, the
// form in which contracts, traces and summaries name each other.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace kcc {

// Incremental; Finish() may be called once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  std::string Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Of(std::string_view bytes);

// True for "sha256:" followed by exactly 64 lower-case hexadecimal digits.
bool IsSha256(std::string_view text);

}  // namespace kcc
