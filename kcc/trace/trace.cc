#include "kcc/trace/trace.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

template <class Enum, size_t kCount>
using Words = std::array<std::pair<Enum, std::string_view>, kCount>;

// clang-format off
constexpr Words<EvidenceLevel, 4> kEvidenceLevels = {{
    {EvidenceLevel::kLogits, "logits"}, {EvidenceLevel::kTopK, "top-k"},
    {EvidenceLevel::kSampledToken, "sampled-token"}, {EvidenceLevel::kNone, "none"}}};
constexpr Words<LogprobSemantics, 3> kSemantics = {{
    {LogprobSemantics::kRaw, "raw"}, {LogprobSemantics::kTemperatureScaled, "temperature-scaled"},
    {LogprobSemantics::kProcessed, "processed"}}};
constexpr Words<TracePath, 2> kPaths = {{
    {TracePath::kPrefill, "prefill"}, {TracePath::kDecode, "decode"}}};
constexpr Words<TraceMode, 2> kModes = {{
    {TraceMode::kScored, "scored"}, {TraceMode::kGenerated, "generated"}}};
constexpr Words<SampledBy, 3> kSides = {{
    {SampledBy::kInfer, "infer"}, {SampledBy::kTrain, "train"}, {SampledBy::kDataset, "dataset"}}};

constexpr std::array<std::string_view, 16> kKeys = {
    "format", "kernelFingerprint", "modelDigest", "vocabSize", "evidence", "semantics",
    "path", "temperature", "mode", "sampledBy", "requests", "tokens", "notes",
    "samplingTemperature", "samplingAltered", "declares"};  // the last three from format 2 on
constexpr size_t kKeysOfFormat1 = 13;
// clang-format on

template <class Enum, size_t kCount>
std::string_view WordOf(const Words<Enum, kCount>& words, Enum value) {
  for (const auto& [candidate, word] : words) {
    if (candidate == value) return word;
  }
  return "unknown";
}

template <class Enum, size_t kCount>
std::optional<Enum> ValueOf(const Words<Enum, kCount>& words, std::string_view text) {
  for (const auto& [value, word] : words) {
    if (word == text) return value;
  }
  return std::nullopt;
}

template <class Enum, size_t kCount>
Result<Enum> ReadWord(json::object object, std::string_view key, const Words<Enum, kCount>& words) {
  std::vector<std::string_view> known;
  for (const auto& [value, word] : words) known.push_back(word);
  const std::string expected =
      "'" + std::string(key) + "' must be " + JoinWords(known, "or") + " (docs/trace.md)";
  const auto element = JsonMember(object, key);
  std::string_view text;
  if (!element || element->get(text) != simdjson::SUCCESS) return InvalidError(expected);
  const auto value = ValueOf(words, text);
  if (!value) return InvalidError(expected + "; it is '" + std::string(text) + "'");
  return *value;
}

Result<std::string> ReadText(json::object object, std::string_view key) {
  const auto element = JsonMember(object, key);
  if (!element) return std::string();
  std::string_view text;
  if (element->get(text) != simdjson::SUCCESS) {
    return InvalidError("'" + std::string(key) + "' must be a string");
  }
  return std::string(text);
}

Result<std::optional<int64_t>> ReadCount(json::object object, std::string_view key) {
  const auto element = JsonMember(object, key);
  if (!element) return std::optional<int64_t>();
  const auto count = JsonInteger(*element);
  if (!count || *count < 0) {
    return InvalidError("'" + std::string(key) + "' must be a non-negative integer");
  }
  return count;
}

Result<> ReadTexts(json::object object, std::string_view name,
                   std::map<std::string, std::string>* texts) {
  const auto element = JsonMember(object, name);
  if (!element) return {};
  json::object members;
  const std::string quoted = "'" + std::string(name) + "'";
  if (element->get(members) != simdjson::SUCCESS) {
    return InvalidError(quoted + " must be an object");
  }
  for (const auto [key, value] : members) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) {
      return InvalidError(quoted + " may hold strings only; '" + std::string(key) + "' is " +
                          std::string(JsonTypeName(value)));
    }
    texts->insert_or_assign(std::string(key), std::string(text));
  }
  return {};
}

// `greedy`: 0 is allowed.
Result<std::optional<double>> ReadTemperature(json::object object, std::string_view key,
                                              bool greedy) {
  const auto element = JsonMember(object, key);
  if (!element) return std::optional<double>();
  const auto value = JsonNumber(*element);
  if (value && std::isfinite(*value) && (*value > 0 || (greedy && *value == 0))) return value;
  return InvalidError("'" + std::string(key) + "' must be " +
                      (greedy ? "0 (greedy decoding) or a positive number"
                              : "a positive number (greedy decoding is samplingTemperature 0; the "
                                "distribution it picks from is not scaled)"));
}

// Format 1 has one temperature, that of sampling; what the distributions are at follows from it.
Result<> ReadTemperatures(json::object object, TraceInfo* info) {
  KCC_TRY(const std::optional<double> temperature, ReadTemperature(object, "temperature", false));
  if (!temperature) return InvalidError("'temperature' is missing");
  if (info->format == 1) {
    SetTemperatures(*temperature, info);
    info->sampling_temperature = *temperature;
    return {};
  }
  info->temperature = *temperature;
  KCC_TRY(info->sampling_temperature, ReadTemperature(object, "samplingTemperature", true));
  if (const auto altered = JsonMember(object, "samplingAltered")) {
    if (altered->get(info->sampling_altered) != simdjson::SUCCESS) {
      return InvalidError("'samplingAltered' must be true or false");
    }
  }
  const bool raw_logprobs =
      info->semantics == LogprobSemantics::kRaw && info->evidence != EvidenceLevel::kLogits;
  if (raw_logprobs && info->temperature != 1) {
    return InvalidError(
        "'temperature' is of the recorded distributions, and raw log-probs are at 1; what the "
        "tokens were sampled at is 'samplingTemperature'");
  }
  return {};
}

Result<> CheckKeys(json::object object, int format) {
  std::array<bool, kKeys.size()> seen{};
  for (const auto [key, value] : object) {
    size_t i = 0;
    while (i < kKeys.size() && kKeys[i] != key) ++i;
    if (format == 1 && i >= kKeysOfFormat1 && i < kKeys.size()) {
      return InvalidError("'" + std::string(key) + "' belongs to format 2; this is format 1");
    }
    if (i == kKeys.size()) {
      const auto nearest = NearestWord(key, kKeys);
      return InvalidError("unknown key '" + std::string(key) + "'" +
                          (nearest ? "; did you mean '" + std::string(*nearest) + "'?" : ""));
    }
    if (seen[i]) return InvalidError("the key '" + std::string(key) + "' stands twice");
    seen[i] = true;
  }
  return {};
}

Result<TraceInfo> ReadInfo(json::element element) {
  json::object object;
  if (element.get(object) != simdjson::SUCCESS) return InvalidError("must hold a JSON object");
  TraceInfo info;
  const auto format = JsonMember(object, "format");
  const auto version = format ? JsonInteger(*format) : std::nullopt;
  if (!version) return InvalidError("'format' is missing: this is not a trace's trace.json");
  if (*version < 1 || *version > kTraceFormat) {
    return InvalidError("format " + std::to_string(*version) +
                        " is not known to this version of kcc, which reads formats 1 and 2");
  }
  info.format = static_cast<int>(*version);
  KCC_TRY_VOID(CheckKeys(object, info.format));
  KCC_TRY(info.kernel_fingerprint, ReadText(object, "kernelFingerprint"));
  if (info.kernel_fingerprint.empty()) {
    return InvalidError("'kernelFingerprint' is missing: name the kernel build that was measured");
  }
  KCC_TRY(info.model_digest, ReadText(object, "modelDigest"));
  const auto vocab = JsonMember(object, "vocabSize");
  const auto vocab_size = vocab ? JsonInteger(*vocab) : std::nullopt;
  if (!vocab_size || *vocab_size < 1 || *vocab_size > kVocabSizeMax) {
    return InvalidError("'vocabSize' must be an integer from 1 to " +
                        std::to_string(kVocabSizeMax));
  }
  info.vocab_size = *vocab_size;
  KCC_TRY(info.evidence, ReadWord(object, "evidence", kEvidenceLevels));
  KCC_TRY(info.semantics, ReadWord(object, "semantics", kSemantics));
  KCC_TRY(info.path, ReadWord(object, "path", kPaths));
  KCC_TRY(info.mode, ReadWord(object, "mode", kModes));
  KCC_TRY(info.sampled_by, ReadWord(object, "sampledBy", kSides));
  KCC_TRY_VOID(ReadTemperatures(object, &info));
  KCC_TRY(info.requests, ReadCount(object, "requests"));
  KCC_TRY(info.tokens, ReadCount(object, "tokens"));
  KCC_TRY_VOID(ReadTexts(object, "declares", &info.declares));
  KCC_TRY_VOID(ReadTexts(object, "notes", &info.notes));
  return info;
}

}  // namespace

Result<TraceInfo> ParseTraceInfo(std::string_view text, const std::string& file) {
  json::parser parser;
  auto element = ParseJson(parser, text);
  if (!element.has_value()) return std::move(element.error()).At(Place{file});
  auto info = ReadInfo(*element);
  if (!info.has_value()) return std::move(info.error()).At(Place{file});
  return info;
}

std::string TraceInfoJson(const TraceInfo& info) {
  JsonWriter writer;
  writer.BeginObject();
  writer.Field("format", info.format);
  writer.Field("kernelFingerprint", info.kernel_fingerprint);
  if (!info.model_digest.empty()) writer.Field("modelDigest", info.model_digest);
  writer.Field("vocabSize", info.vocab_size);
  writer.Field("evidence", Name(info.evidence));
  writer.Field("semantics", Name(info.semantics));
  writer.Field("path", Name(info.path));
  const bool old = info.format == 1;
  writer.Field("temperature",
               old ? info.sampling_temperature.value_or(info.temperature) : info.temperature);
  if (!old && info.sampling_temperature) {
    writer.Field("samplingTemperature", *info.sampling_temperature);
  }
  if (!old && info.sampling_altered) writer.Field("samplingAltered", true);
  writer.Field("mode", Name(info.mode));
  writer.Field("sampledBy", Name(info.sampled_by));
  if (info.requests) writer.Field("requests", *info.requests);
  if (info.tokens) writer.Field("tokens", *info.tokens);
  const auto write_texts = [&](std::string_view key,
                               const std::map<std::string, std::string>& texts) {
    if (texts.empty()) return;
    writer.Key(key).BeginObject();
    for (const auto& [name, text] : texts) writer.Field(name, text);
    writer.EndObject();
  };
  if (!old) write_texts("declares", info.declares);
  write_texts("notes", info.notes);
  writer.EndObject();
  return writer.Take();
}

void SetTemperatures(std::optional<double> asked, TraceInfo* info) {
  const bool sampled =
      info->mode == TraceMode::kGenerated || info->sampled_by != SampledBy::kDataset;
  info->sampling_temperature = sampled ? asked : std::nullopt;
  const bool raw_logprobs =
      info->semantics == LogprobSemantics::kRaw && info->evidence != EvidenceLevel::kLogits;
  info->temperature = raw_logprobs || asked == 0.0 ? 1.0 : asked.value_or(1.0);
}

std::string_view Name(EvidenceLevel level) { return WordOf(kEvidenceLevels, level); }
std::string_view Name(LogprobSemantics semantics) { return WordOf(kSemantics, semantics); }
std::string_view Name(TracePath path) { return WordOf(kPaths, path); }
std::string_view Name(TraceMode mode) { return WordOf(kModes, mode); }
std::string_view Name(SampledBy side) { return WordOf(kSides, side); }

std::optional<EvidenceLevel> ParseEvidenceLevel(std::string_view word) {
  return ValueOf(kEvidenceLevels, word);
}
std::optional<LogprobSemantics> ParseLogprobSemantics(std::string_view word) {
  return ValueOf(kSemantics, word);
}
std::optional<TracePath> ParseTracePath(std::string_view word) { return ValueOf(kPaths, word); }
std::optional<SampledBy> ParseSampledBy(std::string_view word) { return ValueOf(kSides, word); }

std::optional<double> Request::Number(std::string_view field) const {
  const auto it = fields.find(field);
  if (it == fields.end()) return std::nullopt;
  const double* number = std::get_if<double>(&it->second);
  return number ? std::optional<double>(*number) : std::nullopt;
}

std::optional<bool> Request::Flag(std::string_view field) const {
  const auto it = fields.find(field);
  if (it == fields.end()) return std::nullopt;
  const bool* flag = std::get_if<bool>(&it->second);
  return flag ? std::optional<bool>(*flag) : std::nullopt;
}

const std::string* Request::Text(std::string_view field) const {
  if (field == "id") return &id;
  const auto it = fields.find(field);
  return it == fields.end() ? nullptr : std::get_if<std::string>(&it->second);
}

FieldValue Request::Field(std::string_view field) const {
  if (field == "id") return std::string_view(id);
  const auto it = fields.find(field);
  if (it == fields.end()) return std::monostate();
  if (const auto* number = std::get_if<double>(&it->second)) return *number;
  if (const auto* flag = std::get_if<bool>(&it->second)) return *flag;
  if (const auto* text = std::get_if<std::string>(&it->second)) return std::string_view(*text);
  return &std::get<std::vector<std::string>>(it->second);
}

}  // namespace kcc
