#include "kcc/serve/body_reader.h"

#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {

void BodyReader::Fail(std::string_view name, std::string message, std::string code) {
  if (error_) return;
  error_ = ApiError{400, std::move(message), path_ + std::string(name), std::move(code)};
}

void BodyReader::WrongType(std::string_view name, std::string_view wanted, json::element found) {
  Fail(name, "'" + path_ + std::string(name) + "' must be " + std::string(wanted) + ", it is " +
                 std::string(JsonTypeName(found)));
}

std::optional<bool> BodyReader::Bool(std::string_view name) {
  const auto member = JsonMember(body_, name);
  if (!member) return std::nullopt;
  bool value = false;
  if (member->get(value) == simdjson::SUCCESS) return value;
  WrongType(name, "true or false", *member);
  return std::nullopt;
}

std::optional<std::string> BodyReader::Text(std::string_view name) {
  const auto member = JsonMember(body_, name);
  if (!member) return std::nullopt;
  std::string_view value;
  if (member->get(value) == simdjson::SUCCESS) return std::string(value);
  WrongType(name, "a text", *member);
  return std::nullopt;
}

std::optional<int64_t> BodyReader::Integer(std::string_view name, int64_t low, int64_t high) {
  const auto member = JsonMember(body_, name);
  if (!member) return std::nullopt;
  const std::optional<int64_t> value = JsonInteger(*member);
  if (!value) {
    WrongType(name, "an integer", *member);
  } else if (*value < low || *value > high) {
    Fail(name, "'" + path_ + std::string(name) + "' must be from " + std::to_string(low) + " to " +
                   std::to_string(high) + ", it is " + std::to_string(*value));
  }
  return failed() ? std::nullopt : value;
}

std::optional<double> BodyReader::Number(std::string_view name, double low, double high) {
  const auto member = JsonMember(body_, name);
  if (!member) return std::nullopt;
  const std::optional<double> value = JsonNumber(*member);
  if (!value) {
    WrongType(name, "a number", *member);
  } else if (!(*value >= low && *value <= high)) {
    Fail(name, "'" + path_ + std::string(name) + "' must be from " + ShortestNumber(low) + " to " +
                   ShortestNumber(high) + ", it is " + ShortestNumber(*value));
  }
  return failed() ? std::nullopt : value;
}

std::optional<std::vector<int32_t>> BodyReader::Tokens(std::string_view name, size_t vocab) {
  const auto member = JsonMember(body_, name);
  if (!member) return std::nullopt;
  const auto list = JsonList(member);
  if (!list) {
    WrongType(name, "a list of token ids", *member);
    return std::nullopt;
  }
  std::string wrong;
  auto ids = TokenList(*list, vocab, &wrong);
  if (!ids) Fail(name, "'" + path_ + std::string(name) + "' " + wrong);
  return ids;
}

std::optional<json::object> BodyReader::Object(std::string_view name) {
  const auto member = JsonMember(body_, name);
  if (!member) return std::nullopt;
  json::object value;
  if (member->get(value) == simdjson::SUCCESS) return value;
  WrongType(name, "an object", *member);
  return std::nullopt;
}

void BodyReader::Unsupported(std::string_view name, std::optional<double> harmless) {
  const auto member = JsonMember(body_, name);
  if (!member) return;
  const std::optional<double> value = JsonNumber(*member);
  if (value && harmless && *value == *harmless) return;
  Fail(name, "this server does not support '" + path_ + std::string(name) + "'", "unsupported");
}

std::optional<std::vector<int32_t>> TokenList(const std::vector<json::element>& list, size_t vocab,
                                              std::string* wrong) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const json::element item : list) {
    const std::optional<int64_t> id = JsonInteger(item);
    if (!id || *id < 0 || static_cast<uint64_t>(*id) >= vocab) {
      *wrong = "holds " +
               (id ? "token id " + std::to_string(*id) : std::string(JsonTypeName(item))) +
               "; a token of this model is an integer from 0 to " + std::to_string(vocab - 1);
      return std::nullopt;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace kcc
