#include "kcc/monitorlog/unread_line.h"

#include <iterator>
#include <utility>

#include "kcc/base/sha256.h"
#include "kcc/format/json.h"
#include "kcc/monitorlog/observation_json.h"

namespace kcc {
namespace {

// Of UTF-8, at most so many bytes and no part of a character.
std::string Shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

// The kernel that the line names; empty where it is no object, or names none or several.
std::string KernelNamedBy(std::string_view line) {
  json::parser parser{kObservationLineBytesMax};
  const auto root = ParseJson(parser, line);
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) return {};
  std::string kernel;
  int times = 0;
  for (const auto [key, value] : object) {
    if (key != "kernel") continue;
    ++times;
    kernel = JsonText(value);
  }
  return times == 1 ? kernel : std::string();
}

}  // namespace

UnreadLine UnreadLineOf(std::optional<std::string_view> line, const Error& error,
                        const MonitorPolicy& policy) {
  UnreadLine unread;
  unread.reason = Shortened(error.message(), kUnreadReasonBytesMax);
  unread.column = error.place().column;
  if (!line) return unread;
  unread.bytes = static_cast<int64_t>(line->size());
  unread.digest = Sha256Of(*line);
  if (line->size() > kObservationLineBytesMax) return unread;
  std::string kernel = KernelNamedBy(*line);
  if (policy.FindKernel(kernel) != nullptr) unread.kernel = std::move(kernel);
  return unread;
}

MonitorDecision DecideUnread(const UnreadLine& line, Monitor* monitor) {
  MonitorDecision all = monitor->ObserveUnread(line.kernel);
  for (int64_t i = 1; i < line.lines; ++i) {
    MonitorDecision next = monitor->ObserveUnread(line.kernel);
    all.number = next.number;
    all.serves = std::move(next.serves);
    std::move(next.changes.begin(), next.changes.end(), std::back_inserter(all.changes));
  }
  return all;
}

void WriteUnread(const UnreadLine& line, JsonWriter* writer) {
  writer->BeginObject().Field("reason", line.reason);
  if (!line.kernel.empty()) writer->Field("kernel", line.kernel);
  if (line.column != 0) writer->Field("column", line.column);
  if (line.bytes != 0) writer->Field("bytes", line.bytes);
  if (!line.digest.empty()) writer->Field("digest", line.digest);
  if (line.lines != 1) writer->Field("lines", line.lines);
  writer->EndObject();
}

Result<UnreadLine> ReadUnread(std::string_view text) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("'unread' must be an object");
  UnreadLine line;
  const auto count = [&](std::string_view key, int64_t* value) {
    const auto member = JsonMember(object, key);
    if (member) *value = JsonInteger(*member).value_or(-1);
    return *value >= 0;
  };
  line.reason = JsonText(JsonMember(object, "reason"));
  line.kernel = JsonText(JsonMember(object, "kernel"));
  line.digest = JsonText(JsonMember(object, "digest"));
  if (line.reason.empty()) return InvalidError("'unread' does not say why");
  if (!count("column", &line.column) || !count("bytes", &line.bytes)) {
    return InvalidError("'unread' has a column or a number of bytes that cannot be");
  }
  if (const auto lines = JsonMember(object, "lines")) {
    line.lines = JsonInteger(*lines).value_or(0);
    if (line.lines < 2 || line.lines > kUnreadLinesMax) {
      return InvalidError("'unread' stands for a number of lines that cannot be");
    }
  }
  if (!line.digest.empty() && !IsSha256(line.digest)) {
    return InvalidError("'unread' has a digest that is none");
  }
  return line;
}

}  // namespace kcc
