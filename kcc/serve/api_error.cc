#include "kcc/serve/api_error.h"

#include "kcc/base/json_writer.h"

namespace kcc {

std::string ApiError::Type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string ApiError::Json() const {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Key("error").BeginObject();
  json.Field("message", message).Field("type", Type());
  const auto text_or_null = [&](std::string_view key, const std::string& text) {
    json.Key(key);
    if (text.empty()) {
      json.Null();
    } else {
      json.Value(text);
    }
  };
  text_or_null("param", param);
  text_or_null("code", code);
  return json.EndObject().EndObject().Take();
}

}  // namespace kcc
