#include "kcc/gateway/openai_route.h"

#include "kcc/base/json_writer.h"
#include "kcc/gateway/header_rules.h"
#include "kcc/gateway/openai_error.h"

namespace kcc {
namespace {

constexpr OpenAiRoute kRoutes[] = {{"/v1/chat/completions", true}, {"/v1/completions", false}};
constexpr std::string_view kModels = "/v1/models";

void WriteModel(const std::string& name, JsonWriter* json) {
  json->BeginObject().Field("id", name).Field("object", "model").Field("created", 0);
  json->Field("owned_by", "kcc").EndObject();
}

GatewayAnswer WrongMethod(std::string_view allowed) {
  GatewayAnswer answer = ErrorAnswer(405, "this path takes " + std::string(allowed) + " only", "",
                                     "method_not_allowed");
  answer.headers.emplace_back("allow", allowed);
  return answer;
}

GatewayAnswer Models(std::string_view path, const GatewayPool& pool) {
  JsonWriter json(JsonWriter::Style::kCompact);
  GatewayAnswer answer;
  if (path == kModels) {
    json.BeginObject().Field("object", "list").Key("data").BeginArray();
    WriteModel(pool.model, &json);
    json.EndArray().EndObject();
  } else if (path.substr(kModels.size() + 1) == pool.model) {
    WriteModel(pool.model, &json);
  } else {
    return ErrorAnswer(404, "there is no model of this name here", "model", "model_not_found");
  }
  answer.body = json.Take();
  return answer;
}

}  // namespace

const OpenAiRoute* FindOpenAiRoute(const AskHead& head, const GatewayPool& pool,
                                   GatewayAnswer* answer) {
  const std::string_view path = head.target.substr(0, head.target.find('?'));
  if (path == kModels || path.starts_with("/v1/models/")) {
    *answer =
        head.method == "GET" || head.method == "HEAD" ? Models(path, pool) : WrongMethod("GET");
    return nullptr;
  }
  const OpenAiRoute* route = nullptr;
  for (const OpenAiRoute& one : kRoutes) {
    if (one.path == path) route = &one;
  }
  if (route == nullptr) {
    *answer = ErrorAnswer(404, "there is nothing at this path", "", "not_found");
    return nullptr;
  }
  if (head.method != "POST") {
    *answer = WrongMethod("POST");
    return nullptr;
  }
  const auto type = FindHeader(head.headers, "content-type");
  const auto encoding = FindHeader(head.headers, "content-encoding");
  if (!type || !IsMediaType(*type, "application/json")) {
    *answer = ErrorAnswer(415, "send the body with Content-Type: application/json", "",
                          "unsupported_media_type");
    return nullptr;
  }
  if (encoding && !SameHeaderName(*encoding, "identity")) {
    *answer =
        ErrorAnswer(415, "send the body without Content-Encoding", "", "unsupported_media_type");
    return nullptr;
  }
  return route;
}

}  // namespace kcc
