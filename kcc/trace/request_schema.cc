#include "kcc/trace/request_schema.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kcc {
namespace {

constexpr auto kCount = RecordedAs::kCount;
constexpr auto kNumber = RecordedAs::kNumber;
constexpr auto kNumberOrText = RecordedAs::kNumberOrText;
constexpr auto kFlag = RecordedAs::kFlag;
constexpr auto kText = RecordedAs::kText;
constexpr auto kTexts = RecordedAs::kTexts;

// clang-format off
constexpr std::array kFields = {
    RecordField{"asked_batch", kCount, "number of the batch in which it was asked"},
    RecordField{"audit_points", kText, "its audit points, \"POINT=DIGEST DIGEST …\""},
    RecordField{"failed", kFlag, "the request ended in an error"},
    RecordField{"frequency_penalty", kNumber, "of its sampling"},
    RecordField{"kernel_fingerprint", kText, "the kernel that answered, by its answer's own word"},
    RecordField{"kernel_fingerprint_filled", kText, "what the kernel declared, put here by kcc"},
    RecordField{"kl_to_reference", kNumber, "KL of the rollout to the reference policy", 0},
    RecordField{"kv_cache_mb", kNumber, "size of the KV cache", 0},
    RecordField{"latency_ms", kNumber, "time from arrival to the last token", 0},
    RecordField{"min_p", kNumber, "of its sampling"},
    RecordField{"ordinal", kNumber, "place in the order of arrival"},
    RecordField{"output_tokens", kCount, "tokens of the answer"},
    RecordField{"output_tokens_max", kCount, "most tokens that were asked for"},
    RecordField{"parsed", kFlag, "the answer had the form that was asked for"},
    RecordField{"peak_memory_mb", kNumber, "largest memory while it was served", 0},
    RecordField{"presence_penalty", kNumber, "of its sampling"},
    RecordField{"prompt_tokens", kCount, "tokens of the prompt"},
    RecordField{"refused", kFlag, "the answer was a refusal"},
    RecordField{"repetition_penalty", kNumber, "of its sampling"},
    RecordField{"replay_group", kText, "requests of one group repeat one another"},
    RecordField{"replay_signature", kText, "digest of what a replay must reproduce"},
    RecordField{"replica", kText, "which replica answered"},
    RecordField{"reward", kNumber, "the reward that the answer was given"},
    RecordField{"sampling_seed", kNumberOrText, "seed of the run that sampled it"},
    RecordField{"seed", kNumberOrText, "seed of the sampler"},
    RecordField{"started_at_ms", kNumber, "arrival, milliseconds since the epoch"},
    RecordField{"tags", kTexts, "labels of the request"},
    RecordField{"timed_out", kFlag, "the request was given up"},
    RecordField{"token_texts", kTexts, "one text for each output token"},
    RecordField{"top_k", kNumber, "of its sampling"},
    RecordField{"top_p", kNumber, "of its sampling"},
    RecordField{"ttft_ms", kNumber, "time from arrival to the first token", 0},
    RecordField{"typical_p", kNumber, "of its sampling"},
};
// clang-format on

const RecordField* FindField(std::string_view name) {
  const auto* found =
      std::lower_bound(kFields.begin(), kFields.end(), name,
                       [](const RecordField& row, std::string_view key) { return row.name < key; });
  return found == kFields.end() || found->name != name ? nullptr : found;
}

bool Keeps(const RecordField& row, const RequestValue& value) {
  const double* const number = std::get_if<double>(&value);
  const bool text = std::holds_alternative<std::string>(value);
  switch (row.as) {
    case kCount:
      return number != nullptr && *number >= 0 && *number <= kRecordedCountMax &&
             *number == std::floor(*number);
    case kNumber:
      return number != nullptr && *number >= row.min && *number <= kRecordedNumberMax;
    case kNumberOrText:
      return number != nullptr || text;
    case kFlag:
      return std::holds_alternative<bool>(value);
    case kText:
      return text;
    case kTexts:
      break;
  }
  return std::holds_alternative<std::vector<std::string>>(value);
}

std::string_view MustBe(const RecordField& row) {
  switch (row.as) {
    case kCount:
      return "a whole number from 0 to 2147483647";
    case kNumber:
      return row.min == 0 ? "a number from 0 to 2^53" : "a number from -2^53 to 2^53";
    case kNumberOrText:
      return "a number or a text";
    case kFlag:
      return "true or false";
    case kText:
      return "a text";
    case kTexts:
      break;
  }
  return "a list of texts";
}

}  // namespace

std::span<const RecordField> RecordFields() { return kFields; }

std::optional<std::string> SchemaFault(const Request& request) {
  for (const auto& [name, value] : request.fields) {
    const RecordField* const row = FindField(name);
    if (row == nullptr || Keeps(*row, value)) continue;
    return "'" + name + "' must be " + std::string(MustBe(*row));
  }
  return std::nullopt;
}

}  // namespace kcc
