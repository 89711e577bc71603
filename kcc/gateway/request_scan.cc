#include "kcc/gateway/request_scan.h"

#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/gateway/openai_error.h"

namespace kcc {
namespace {

GatewayAnswer BadBody(std::string_view message, std::string_view param = {}) {
  return ErrorAnswer(400, message, param, "");
}

// The name of a member that is there twice. Few members are compared pair by pair; more of them are
// sorted, so that no body makes this slow.
std::optional<std::string> Duplicate(const std::vector<JsonPart>& members) {
  const bool escaped = std::any_of(members.begin(), members.end(), [](const JsonPart& part) {
    return part.key.find('\\') != std::string_view::npos;
  });
  constexpr size_t kFew = 24;
  if (!escaped && members.size() <= kFew) {
    for (size_t i = 1; i < members.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (members[i].key == members[k].key) return std::string(members[i].key);
      }
    }
    return std::nullopt;
  }
  std::vector<std::string> keys;
  keys.reserve(members.size());
  for (const JsonPart& part : members) keys.push_back(UnescapeJson(part.key));
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return std::nullopt;
  return *twice;
}

bool IsAbove(const RequestScan& scan, std::string_view name, double most) {
  const auto value = scan.Find(name);
  return value && JsonNumberOf(*value).value_or(0) > most;
}

// A text, ids, or a list of one of these.
bool IsOnePrompt(std::string_view prompt) {
  if (IsJsonText(prompt)) return true;
  JsonParts parts(prompt);
  JsonPart part;
  if (parts.object() || !parts.Next(&part)) return false;
  if (JsonIntegerOf(part.value)) return true;
  return !parts.Next(&part) && parts.good();
}

bool AreTexts(std::string_view messages) {
  JsonParts list(messages);
  JsonPart message;
  while (list.Next(&message)) {
    const auto content = JsonMemberOf(message.value, "content");
    if (!content || !content->starts_with('[')) continue;
    JsonParts parts(*content);
    JsonPart part;
    while (parts.Next(&part)) {
      const auto type = JsonMemberOf(part.value, "type");
      if (!type || (*type != "\"text\"" && *type != "\"refusal\"")) return false;
    }
  }
  return true;
}

}  // namespace

const JsonPart* RequestScan::FindPart(std::string_view name) const {
  for (const JsonPart& part : members) {
    if (KeyIs(part.key, name)) return &part;
  }
  return nullptr;
}

std::optional<std::string_view> RequestScan::Find(std::string_view name) const {
  const JsonPart* const part = FindPart(name);
  if (part == nullptr) return std::nullopt;
  return part->value;
}

bool RequestScan::Asks(std::string_view name) const {
  const auto value = Find(name);
  return value && *value != "null" && *value != "false";
}

std::optional<GatewayAnswer> ScanRequest(std::string_view body, RequestScan* scan) {
  scan->members.clear();
  JsonParts parts(body);
  if (!parts.object()) {
    return BadBody(IsWholeJson(body) ? "the body must be a JSON object"
                                     : "the body is not valid JSON");
  }
  scan->members.reserve(16);
  JsonPart part;
  while (parts.Next(&part)) {
    if (scan->members.size() == kRequestMembersMax) {
      return BadBody("the body has too many members");
    }
    scan->members.push_back(part);
  }
  if (!parts.good()) return BadBody("the body is not valid JSON");
  scan->close = static_cast<size_t>(parts.close() - body.data());
  if (body.find_first_not_of(" \t\r\n", scan->close + 1) != std::string_view::npos) {
    return BadBody("the body has something after its JSON object");
  }
  if (const auto name = Duplicate(scan->members)) {
    return BadBody("the body has a member twice", *name);
  }
  return std::nullopt;
}

std::optional<std::string> ReadSource(const AskSource& source, const RequestScan& scan,
                                      std::span<const HeaderField> headers) {
  if (source.header) {
    const auto value = FindHeader(headers, source.name);
    if (!value || value->empty()) return std::nullopt;
    return JsonQuote(*value);
  }
  // A member may itself have a point in its name.
  std::optional<std::string_view> value = scan.Find(source.name);
  if (!value) {
    const std::string_view path = source.name;
    size_t at = path.find('.');
    value = scan.Find(path.substr(0, at));
    while (value && at != std::string_view::npos) {
      const size_t next = path.find('.', at + 1);
      value = JsonMemberOf(*value, path.substr(at + 1, next - at - 1));
      at = next;
    }
  }
  if (!value || *value == "null") return std::nullopt;
  return std::string(*value);
}

std::optional<std::string> ReadSessionKey(const AskSource& source, const RequestScan& scan,
                                          std::span<const HeaderField> headers) {
  std::optional<std::string> value = ReadSource(source, scan, headers);
  if (!value) return std::nullopt;
  std::optional<std::string> text = JsonTextOf(*value);
  if (!text) return value;
  if (text->empty()) return std::nullopt;
  return text;
}

bool IsAuditable(const RequestScan& scan, bool chat) {
  if (IsAbove(scan, "best_of", 1) || scan.Asks("use_beam_search") || scan.Asks("echo")) {
    return false;
  }
  if (chat) {
    const auto messages = scan.Find("messages");
    return messages && AreTexts(*messages) && !scan.Asks("audio");
  }
  const auto prompt = scan.Find("prompt");
  const auto suffix = scan.Find("suffix");
  return prompt && IsOnePrompt(*prompt) && !scan.Asks("prompt_embeds") &&
         (!suffix || *suffix == "null" || *suffix == "\"\"");
}

}  // namespace kcc
