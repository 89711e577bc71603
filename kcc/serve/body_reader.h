// Reads the members of a request body one by one and keeps the first thing that is wrong with them,
// so that a function that reads thirty members needs no check after each. A member that is missing
// or null is none, as OpenAI's API has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/format/json.h"
#include "kcc/serve/api_error.h"

namespace kcc {

class BodyReader {
 public:
  // `path` is put before the names in messages: "stream_options.".
  explicit BodyReader(json::object body, std::string path = "")
      : body_(body), path_(std::move(path)) {}

  std::optional<bool> Bool(std::string_view name);
  std::optional<std::string> Text(std::string_view name);
  // Within [low, high], else an error.
  std::optional<int64_t> Integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> Number(std::string_view name, double low, double high);
  // Token ids of a vocabulary of this size.
  std::optional<std::vector<int32_t>> Tokens(std::string_view name, size_t vocab);
  std::optional<json::object> Object(std::string_view name);
  std::optional<json::element> Any(std::string_view name) const { return JsonMember(body_, name); }
  // An error unless the member is missing, null, or this number: what the server does not do.
  void Unsupported(std::string_view name, std::optional<double> harmless = std::nullopt);

  void Fail(std::string_view name, std::string message, std::string code = "");
  bool failed() const { return error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }
  void Take(const BodyReader& part) {
    if (!error_) error_ = part.error_;
  }

 private:
  void WrongType(std::string_view name, std::string_view wanted, json::element found);

  json::object body_;
  std::string path_;
  std::optional<ApiError> error_;
};

// The ids of a list; none, with the reason in `wrong`, where one of them is no token.
std::optional<std::vector<int32_t>> TokenList(const std::vector<json::element>& list, size_t vocab,
                                              std::string* wrong);

}  // namespace kcc
