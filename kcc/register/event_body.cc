#include "kcc/register/event_body.h"

#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

// A body of the log is an object; one that is not has no members.
std::optional<json::element> MemberOf(json::parser& parser, const std::string& body,
                                      std::string_view key) {
  const auto root = ParseJson(parser, body);
  if (!root.has_value() || !root->is_object()) return std::nullopt;
  return JsonMember(root->get_object().value_unsafe(), key);
}

std::string MemberText(json::element object, std::string_view key) {
  if (!object.is_object()) return "";
  return std::string(JsonText(JsonMember(object.get_object().value_unsafe(), key)));
}

void WritePretty(json::element value, JsonWriter* json) {
  if (value.is_object()) {
    const json::object object = value.get_object().value_unsafe();
    json->BeginObject();
    for (const auto field : object) {
      json->Key(field.key);
      WritePretty(field.value, json);
    }
    json->EndObject();
  } else if (value.is_array()) {
    const json::array list = value.get_array().value_unsafe();
    json->BeginArray();
    for (const json::element item : list) WritePretty(item, json);
    json->EndArray();
  } else {
    json->Raw(simdjson::minify(value));
  }
}

}  // namespace

std::string PrettyBody(const std::string& body) {
  json::parser parser;
  const auto root = ParseJson(parser, body);
  if (!root.has_value()) return body + "\n";
  JsonWriter json;
  WritePretty(*root, &json);
  return json.Take();
}

std::string BodyText(const std::string& body, std::string_view key) {
  json::parser parser;
  return std::string(JsonText(MemberOf(parser, body, key)));
}

std::optional<int64_t> BodyInteger(const std::string& body, std::string_view key) {
  json::parser parser;
  const auto member = MemberOf(parser, body, key);
  return member ? JsonInteger(*member) : std::nullopt;
}

std::string BodyJson(const std::string& body, std::string_view key) {
  json::parser parser;
  const auto member = MemberOf(parser, body, key);
  return member ? simdjson::minify(*member) : "";
}

std::vector<std::pair<std::string, std::string>> BodyTexts(const std::string& body,
                                                           std::string_view key) {
  json::parser parser;
  std::vector<std::pair<std::string, std::string>> texts;
  const auto member = MemberOf(parser, body, key);
  if (!member || !member->is_object()) return texts;
  const json::object object = member->get_object().value_unsafe();
  for (const auto field : object) {
    if (field.value.is_string()) texts.emplace_back(field.key, JsonText(field.value));
  }
  return texts;
}

RecordedEvaluation ReadRecordedEvaluation(const std::string& body) {
  json::parser parser;
  RecordedEvaluation read;
  const auto root = ParseJson(parser, body);
  if (!root.has_value() || !root->is_object()) return read;
  const json::object object = root->get_object().value_unsafe();
  read.triple = JsonText(JsonMember(object, "triple"));
  read.stage = JsonText(JsonMember(object, "stage"));
  read.verdict = JsonText(JsonMember(object, "verdict"));
  read.summary = JsonText(JsonMember(object, "summary"));
  read.report = JsonText(JsonMember(object, "report"));
  if (const auto health = JsonMember(object, "health")) read.health = JsonNumber(*health);
  for (const json::element clause :
       JsonList(JsonMember(object, "clauses")).value_or(std::vector<json::element>())) {
    read.clauses.push_back({MemberText(clause, "id"), MemberText(clause, "metric"),
                            MemberText(clause, "level"), MemberText(clause, "verdict")});
  }
  for (const json::element source :
       JsonList(JsonMember(object, "evidence")).value_or(std::vector<json::element>())) {
    for (const char* side : {"train", "infer"}) {
      if (std::string identity = MemberText(source, side); !identity.empty()) {
        read.evidence.push_back(std::move(identity));
      }
    }
  }
  return read;
}

}  // namespace kcc
