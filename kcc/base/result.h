// Result<T>: a value or an Error, never dropped and never thrown.
//
// Errors are for what the world can do to us: input, files, network, devices. A mistake of the
// programmer is a KCC_CHECK (base/check.h). The message says what is wrong and what to do; the
// place says where, so that every front end can print `file:line:column: message`.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace kcc {

enum class ErrorCode {
  kInvalid,         // the user's input is wrong; exit code 2
  kIo,              // a file, socket or program failed; exit code 4
  kBrokenEvidence,  // NaN, missing pair, wrong semantics, truncated trace; exit code 4
};

// Where in the user's material an error lies. Lines and columns count from 1; 0 means unknown.
struct Place {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Place&) const = default;
};

class Error {
 public:
  Error(ErrorCode code, std::string message, Place place = {})
      : code_(code), message_(std::move(message)), place_(std::move(place)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const Place& place() const { return place_; }

  // "file:line:column: message", leaving out what is unknown.
  std::string Format() const;

  // The same error, with the place filled in if it had none.
  Error At(Place place) &&;

 private:
  ErrorCode code_;
  std::string message_;
  Place place_;
};

inline Error InvalidError(std::string message, Place place = {}) {
  return Error(ErrorCode::kInvalid, std::move(message), std::move(place));
}
inline Error IoError(std::string message, Place place = {}) {
  return Error(ErrorCode::kIo, std::move(message), std::move(place));
}
inline Error BrokenEvidenceError(std::string message, Place place = {}) {
  return Error(ErrorCode::kBrokenEvidence, std::move(message), std::move(place));
}

template <class T = void>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result() = default;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

#define KCC_CONCAT_(a, b) a##b
#define KCC_CONCAT(a, b) KCC_CONCAT_(a, b)

// KCC_TRY(auto x, F()): x is F's value, or the enclosing function returns F's error.
#define KCC_TRY(declaration, expression) \
  KCC_TRY_(KCC_CONCAT(kcc_result_, __LINE__), declaration, expression)
#define KCC_TRY_(result, declaration, expression)            \
  auto result = (expression);                                \
  if (!result.has_value()) return std::move(result.error()); \
  declaration = std::move(*result)

// KCC_TRY_VOID(F()): the same where F has nothing to return.
#define KCC_TRY_VOID(expression) \
  if (auto kcc_status = (expression); !kcc_status.has_value()) return std::move(kcc_status.error())

}  // namespace kcc
