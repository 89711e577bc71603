// prime-rl token exports (token_exports/step_N/rank_R.jsonl, schema 1 and 2): one packed sequence
// a line with the trainer's and the engine's log-prob of every token, so one export gives either
// side (--side train|infer). Tokens outside loss_mask are kept as not counting.
//
// Both sides are at the sampling temperature. Non-finite numbers are exported as null. Since both
// sides stand in one file, a trainer that is off by one against its engine shows here.

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kcc/base/directory.h"
#include "kcc/base/strings.h"
#include "kcc/trace/import_formats.h"
#include "kcc/trace/import_responses.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

constexpr size_t kShiftTokensMin = 16;

Result<std::vector<double>> Numbers(json::object record, std::string_view key, size_t count) {
  const auto member = JsonMember(record, key);
  json::array list;
  if (!member || member->get(list) != simdjson::SUCCESS) {
    return BrokenEvidenceError("the column '" + std::string(key) + "' is missing");
  }
  if (list.size() != count) {
    return BrokenEvidenceError("the column '" + std::string(key) + "' has " +
                               std::to_string(list.size()) + " entries for " +
                               std::to_string(count) + " tokens");
  }
  std::vector<double> numbers;
  for (const json::element element : list) {
    bool flag = false;
    if (element.get(flag) == simdjson::SUCCESS) {
      numbers.push_back(flag ? 1 : 0);
    } else {
      numbers.push_back(JsonNumber(element).value_or(std::numeric_limits<double>::quiet_NaN()));
    }
  }
  return numbers;
}

// Mean |train[i + by] - infer[i]| where both count.
double MeanGap(const std::vector<double>& train, const std::vector<double>& infer,
               const std::vector<double>& mask, int by, size_t* compared) {
  double sum = 0;
  *compared = 0;
  for (size_t i = 1; i + 1 < infer.size(); ++i) {
    const auto j = static_cast<size_t>(static_cast<int64_t>(i) + by);
    if (mask[i] == 0 || mask[j] == 0 || std::isnan(train[j]) || std::isnan(infer[i])) continue;
    sum += std::fabs(train[j] - infer[i]);
    ++*compared;
  }
  return *compared > 0 ? sum / static_cast<double>(*compared) : 0;
}

Result<> CheckNotShifted(const std::vector<double>& train, const std::vector<double>& infer,
                         const std::vector<double>& mask) {
  size_t compared = 0;
  const double aligned = MeanGap(train, infer, mask, 0, &compared);
  if (compared < kShiftTokensMin) return {};
  for (const int by : {-1, 1}) {
    const double shifted = MeanGap(train, infer, mask, by, &compared);
    if (compared >= kShiftTokensMin && aligned > 0.1 && shifted * 10 < aligned) {
      return BrokenEvidenceError(
          "trainer_logprobs are shifted by one against inference_logprobs: they agree when moved "
          "by one token and not as they stand (logits at index t predict token t + 1)");
    }
  }
  return {};
}

Result<> ReadTemperature(json::object record, const std::vector<double>& mask,
                         ImportedSequence* sequence) {
  if (const auto single = JsonMember(record, "temperature")) {
    sequence->temperature = JsonNumber(*single);
    return {};
  }
  if (!JsonMember(record, "temperatures")) return {};
  KCC_TRY(const std::vector<double> all, Numbers(record, "temperatures", mask.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    if (mask[i] == 0) continue;
    if (sequence->temperature && *sequence->temperature != all[i]) {
      return BrokenEvidenceError("mixed temperatures within one sequence");
    }
    sequence->temperature = all[i];
  }
  return {};
}

Result<int64_t> PositionFrom(double value, size_t i) {
  if (value >= 0 && value <= std::numeric_limits<int32_t>::max() && value == std::floor(value)) {
    return static_cast<int64_t>(value);
  }
  return BrokenEvidenceError("entry " + std::to_string(i) + " of 'position_ids' is " +
                             ShortestNumber(value) + ", which is not a position");
}

Result<> ReadTokens(json::object record, const std::vector<int64_t>& ids, ImportSide side,
                    ImportedSequence* sequence) {
  const size_t count = ids.size();
  KCC_TRY(const std::vector<double> mask, Numbers(record, "loss_mask", count));
  KCC_TRY(const std::vector<double> train, Numbers(record, "trainer_logprobs", count));
  KCC_TRY(const std::vector<double> infer, Numbers(record, "inference_logprobs", count));
  KCC_TRY_VOID(CheckNotShifted(train, infer, mask));
  KCC_TRY_VOID(ReadTemperature(record, mask, sequence));
  std::vector<double> positions;
  for (size_t i = 0; i < count; ++i) positions.push_back(static_cast<double>(i));
  if (JsonMember(record, "position_ids")) {
    KCC_TRY(positions, Numbers(record, "position_ids", count));
  }
  std::vector<double> advantages(count, std::numeric_limits<double>::quiet_NaN());
  if (JsonMember(record, "advantages")) {
    KCC_TRY(advantages, Numbers(record, "advantages", count));
  }
  for (size_t i = 0; i < count; ++i) {
    ImportedToken token;
    KCC_TRY(token.position, PositionFrom(positions[i], i));
    token.token = ids[i];
    token.logprob = side == ImportSide::kTrain ? train[i] : infer[i];
    token.advantage = static_cast<float>(advantages[i]);
    token.counts = mask[i] != 0;
    // Prompt tokens carry zeros or junk.
    if (!token.counts) token.logprob = std::numeric_limits<double>::quiet_NaN();
    sequence->tokens.push_back(std::move(token));
  }
  const auto first = std::find_if(mask.begin(), mask.end(), [](double m) { return m != 0; });
  sequence->prompt_tokens = first - mask.begin();
  return {};
}

Result<ImportedSequence> ReadRecord(json::object record, const ImportOptions& options) {
  const auto schema = JsonMember(record, "schema_version");
  const auto version = schema ? JsonInteger(*schema) : std::nullopt;
  if (!version || *version < 1 || *version > 2) {
    return InvalidError("this is not a prime-rl token export of schema 1 or 2");
  }
  ImportedSequence sequence;
  sequence.semantics = options.semantics.value_or(LogprobSemantics::kTemperatureScaled);
  KCC_TRY(const std::vector<int64_t> ids,
          JsonTokenIds(JsonMember(record, "token_ids"), "token_ids"));
  if (ids.empty()) return BrokenEvidenceError("token_ids is missing or empty");
  KCC_TRY_VOID(ReadTokens(record, ids, *options.side, &sequence));
  std::string_view text;
  if (const auto env = JsonMember(record, "env_name"); env && env->get(text) == simdjson::SUCCESS) {
    sequence.fields["env_name"] = std::string(text);
    sequence.fields["tags"] = std::vector<std::string>{std::string(text)};
  }
  for (const std::string_view key : {"step", "rank"}) {
    const auto number = JsonMember(record, key);
    const auto value = number ? JsonNumber(*number) : std::nullopt;
    if (value) sequence.fields[std::string(key)] = *value;
  }
  if (const auto id = JsonMember(record, "sample_id"); id && id->get(text) == simdjson::SUCCESS) {
    sequence.id = text;
  }
  return sequence;
}

// Directories are taken with all their rank files, in order.
Result<std::vector<std::string>> ListFiles(ImportInputs inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    std::error_code failure;
    if (!std::filesystem::is_directory(input, failure)) {
      files.push_back(input);
      continue;
    }
    if (!std::filesystem::exists(input + "/STABLE", failure)) {
      return BrokenEvidenceError("has no STABLE marker: the step is still being written",
                                 Place{input});
    }
    KCC_TRY(const std::vector<std::string> names, ListDirectory(input));
    for (const std::string& name : names) {
      if (!name.starts_with("rank_") || !name.ends_with(".jsonl")) continue;
      const std::filesystem::path path = std::filesystem::path(input) / name;
      if (!std::filesystem::is_regular_file(path, failure)) {
        return InvalidError("is not a regular file", Place{path});
      }
      files.push_back(path.string());
    }
  }
  if (files.empty()) return InvalidError("give at least one rank_R.jsonl or a step directory");
  return files;
}

}  // namespace

Result<ImportReport> ImportPrimeRl(ImportInputs inputs, const std::string& output,
                                   const ImportOptions& options) {
  if (!options.side) {
    return InvalidError("a prime-rl export holds both sides; say which with --side train or infer");
  }
  KCC_TRY(const std::vector<std::string> files, ListFiles(inputs));
  ImportOptions sided = options;
  if (!sided.path && *options.side == ImportSide::kTrain) sided.path = TracePath::kPrefill;
  SequenceWriter writer(output, sided);
  json::parser parser;
  for (const std::string& file : files) {
    const std::filesystem::path path(file);
    const std::string step = path.parent_path().filename().string();
    const std::string stem = (step.starts_with("step_") ? step + "-" : "") + path.stem().string();
    KCC_TRY_VOID(ForEachLine(
        file, kResponseLineBytesMax, [&](std::string_view line, int number) -> Result<> {
          KCC_TRY(const json::element root, ParseJson(parser, line));
          json::object record;
          if (root.get(record) != simdjson::SUCCESS) return InvalidError("a line is not an object");
          KCC_TRY(ImportedSequence sequence, ReadRecord(record, options));
          const std::string id =
              sequence.id.empty() ? stem + "-" + std::to_string(number) : sequence.id;
          return writer.Add(id, std::move(sequence));
        }));
  }
  return writer.Finish();
}

}  // namespace kcc
