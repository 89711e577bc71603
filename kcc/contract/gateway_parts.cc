#include "kcc/contract/gateway_parts.h"

#include <algorithm>

#include "kcc/contract/gateway_values.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kKibibyte = int64_t{1} << 10;
constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kGibibyte = int64_t{1} << 30;

// Left as it is where the key is absent.
void ReadTime(const MappingReader& mapping, std::string_view key, int64_t low, int64_t high,
              int64_t* ms, Problems* problems) {
  const auto time = mapping.Duration(key);
  if (!time) return;
  *ms = *time;
  if (*time >= low && *time <= high) return;
  problems->Error(
      *mapping.Value(key), "out-of-range",
      std::string(key) + " " + DurationText(*time) + " is out of range",
      "it must be at least " + DurationText(low) + " and at most " + DurationText(high));
}

void ReadBytes(const MappingReader& mapping, std::string_view key, int64_t high, int64_t* bytes,
               Problems* problems) {
  const auto size = mapping.ReadAs(key, ReadSize, "bad-size");
  if (!size) return;
  *bytes = *size;
  if (*size >= kKibibyte && *size <= high) return;
  problems->Error(*mapping.Value(key), "out-of-range",
                  std::string(key) + " " + SizeText(*size) + " is out of range",
                  "it must be at least 1KiB and at most " + SizeText(high));
}

}  // namespace

std::string FilledText(const MappingReader& mapping, std::string_view key, Problems* problems) {
  const auto text = mapping.Text(key);
  if (!text) return "";
  if (text->empty()) {
    problems->Error(*mapping.Value(key), "empty-text", std::string(key) + " is an empty text",
                    "write it, or remove the key");
  }
  const bool lines = std::any_of(text->begin(), text->end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  });
  if (lines) {
    problems->Error(*mapping.Value(key), "control-character",
                    std::string(key) + " holds a line end or another control character",
                    "write it in one line");
  }
  return *text;
}

std::optional<GatewayUrl> ServerUrl(const MappingReader& mapping, std::string_view key,
                                    Problems* problems) {
  const auto read = mapping.ReadAs(key, ReadUrl, "bad-url");
  if (!read) return {};
  std::string_view path = read->path;
  if (path.ends_with('/')) path.remove_suffix(1);
  if (path.empty()) return read->url;
  const std::string remedy = "write '" + UrlText(read->url) + "'";
  if (path == "/v1") {
    problems->Warning(*mapping.Value(key), "path-dropped",
                      std::string(key) + " ends in /v1, which every request has anyway", remedy);
    return read->url;
  }
  problems->Error(
      *mapping.Value(key), "path-in-url",
      std::string(key) + " has the path '" + read->path + "', and requests have paths of their own",
      remedy);
  return {};
}

void ReadDecisionLog(const MappingReader& mapping, GatewayDecisionLog* log, Problems* problems) {
  ReadBytes(mapping, "fileSize", kGibibyte, &log->file_bytes, problems);
  log->files_max = mapping.Integer("files").value_or(log->files_max);
}

void ReadScoring(const MappingReader& mapping, GatewayScoring* scoring, Problems* problems) {
  scoring->top = mapping.Integer("top").value_or(scoring->top);
  ReadTime(mapping, "timeout", 1, kHourMs, &scoring->timeout_ms, problems);
  scoring->in_flight_max = mapping.Integer("inFlight").value_or(scoring->in_flight_max);
  scoring->waiting_max = mapping.Integer("waiting").value_or(scoring->waiting_max);
  scoring->determinism_rate = mapping.Number("determinism").value_or(scoring->determinism_rate);
}

void ReadLimits(const MappingReader& mapping, GatewayLimits* limits, Problems* problems) {
  ReadBytes(mapping, "body", kGibibyte, &limits->body_bytes_max, problems);
  ReadBytes(mapping, "headers", kMebibyte, &limits->header_bytes_max, problems);
  limits->connections_max = mapping.Integer("connections").value_or(limits->connections_max);
  limits->requests_per_second_max =
      mapping.Number("requestsPerSecond").value_or(limits->requests_per_second_max);
  limits->retries_max = mapping.Integer("retries").value_or(limits->retries_max);
  ReadBytes(mapping, "answer", kGibibyte, &limits->answer_bytes_max, problems);
}

void ReadTimes(const MappingReader& mapping, GatewayTimes* times, Problems* problems) {
  const auto read = [&](std::string_view key, int64_t* ms) {
    ReadTime(mapping, key, 1, kDayMs, ms, problems);
  };
  read("idle", &times->idle_ms);
  read("request", &times->request_ms);
  read("connect", &times->connect_ms);
  read("firstByte", &times->first_byte_ms);
  read("between", &times->between_ms);
  read("write", &times->write_ms);
  read("drain", &times->drain_ms);
}

}  // namespace kcc
