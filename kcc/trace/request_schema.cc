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
    RequestField{"asked_batch", kCount, "number of the batch in which it was asked"},
    RequestField{"audit_points", kText, "its audit points, \"POINT=DIGEST DIGEST …\""},
    RequestField{"failed", kFlag, "the request ended in an error"},
    RequestField{"frequency_penalty", kNumber, "of its sampling"},
    RequestField{"kernel_fingerprint", kText, "the kernel that answered, by its answer's own word"},
    RequestField{"kernel_fingerprint_filled", kText, "what the kernel declared, put here by kcc"},
    RequestField{"kl_to_reference", kNumber, "KL of the rollout to the reference policy", 0},
    RequestField{"kv_cache_mb", kNumber, "size of the KV cache", 0},
    RequestField{"latency_ms", kNumber, "time from arrival to the last token", 0},
    RequestField{"min_p", kNumber, "of its sampling"},
    RequestField{"ordinal", kNumber, "place in the order of arrival"},
    RequestField{"output_tokens", kCount, "tokens of the answer"},
    RequestField{"output_tokens_max", kCount, "most tokens that were asked for"},
    RequestField{"parsed", kFlag, "the answer had the form that was asked for"},
    RequestField{"peak_memory_mb", kNumber, "largest memory while it was served", 0},
    RequestField{"presence_penalty", kNumber, "of its sampling"},
    RequestField{"prompt_tokens", kCount, "tokens of the prompt"},
    RequestField{"refused", kFlag, "the answer was a refusal"},
    RequestField{"repetition_penalty", kNumber, "of its sampling"},
    RequestField{"replay_group", kText, "requests of one group repeat one another"},
    RequestField{"replay_signature", kText, "digest of what a replay must reproduce"},
    RequestField{"replica", kText, "which replica answered"},
    RequestField{"reward", kNumber, "the reward that the answer was given"},
    RequestField{"sampling_seed", kNumberOrText, "seed of the run that sampled it"},
    RequestField{"seed", kNumberOrText, "seed of the sampler"},
    RequestField{"started_at_ms", kNumber, "arrival, milliseconds since the epoch"},
    RequestField{"tags", kTexts, "labels of the request"},
    RequestField{"timed_out", kFlag, "the request was given up"},
    RequestField{"token_texts", kTexts, "one text for each output token"},
    RequestField{"top_k", kNumber, "of its sampling"},
    RequestField{"top_p", kNumber, "of its sampling"},
    RequestField{"ttft_ms", kNumber, "time from arrival to the first token", 0},
    RequestField{"typical_p", kNumber, "of its sampling"},
};
// clang-format on

const RequestField* FindField(std::string_view name) {
  const auto* found =
      std::lower_bound(kFields.begin(), kFields.end(), name,
                       [](const RequestField& row, std::string_view key) { return row.name < key; });
  return found == kFields.end() || found->name != name ? nullptr : found;
}

bool Keeps(const RequestField& row, const RequestValue& value) {
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

std::string_view MustBe(const RequestField& row) {
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

std::span<const RequestField> RequestFields() { return kFields; }

std::optional<std::string> SchemaFault(const Request& request) {
  for (const auto& [name, value] : request.fields) {
    const RequestField* const row = FindField(name);
    if (row == nullptr || Keeps(*row, value)) continue;
    return "'" + name + "' must be " + std::string(MustBe(*row));
  }
  return std::nullopt;
}

}  // namespace kcc
