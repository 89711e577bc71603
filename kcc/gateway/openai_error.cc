#include "kcc/gateway/openai_error.h"

#include "kcc/base/json_writer.h"

namespace kcc {
namespace {

std::string_view TypeOf(int status) {
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

}  // namespace

std::string ErrorJson(int status, std::string_view message, std::string_view param,
                      std::string_view code) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Key("error").BeginObject();
  json.Field("message", message).Field("type", TypeOf(status));
  const auto text_or_null = [&](std::string_view key, std::string_view text) {
    json.Key(key);
    if (text.empty()) {
      json.Null();
    } else {
      json.Value(text);
    }
  };
  text_or_null("param", param);
  text_or_null("code", code);
  std::string text = json.EndObject().EndObject().Take();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

GatewayAnswer ErrorAnswer(int status, std::string_view message, std::string_view param,
                          std::string_view code) {
  GatewayAnswer answer;
  answer.status = status;
  answer.body = ErrorJson(status, message, param, code);
  return answer;
}

std::string ErrorEvent(int status, std::string_view message, std::string_view code) {
  return "data: " + ErrorJson(status, message, "", code) + "\n\n";
}

}  // namespace kcc
