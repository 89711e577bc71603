#include "kcc/predicate/fields.h"

#include <algorithm>
#include <array>

namespace kcc {
namespace {

constexpr auto kNumber = FieldType::kNumber;
constexpr auto kText = FieldType::kText;
constexpr auto kBool = FieldType::kBool;
constexpr auto kTextList = FieldType::kTextList;
constexpr auto kRequest = FieldOrigin::kRequest;
constexpr auto kRows = FieldOrigin::kRows;
constexpr auto kTrain = FieldOrigin::kTrain;
constexpr auto kOutcome = FieldOrigin::kOutcome;

// clang-format off
constexpr std::array kFields = {
    PredicateField{"id", kText, kRequest, "the request's name, unique in its trace"},
    PredicateField{"prompt_tokens", kNumber, kRequest, "tokens of the prompt"},
    PredicateField{"output_tokens", kNumber, kOutcome, "tokens of the answer; where both sides score the same tokens, counted from the rows"},
    PredicateField{"latency_ms", kNumber, kOutcome, "time from arrival to the last token"},
    PredicateField{"ttft_ms", kNumber, kOutcome, "time from arrival to the first token"},
    PredicateField{"started_at_ms", kNumber, kOutcome, "arrival, milliseconds since the epoch"},
    PredicateField{"ordinal", kNumber, kOutcome, "place in the order of arrival"},
    PredicateField{"reward", kNumber, kOutcome, "the reward the answer was given"},
    PredicateField{"seed", kNumber, kRequest, "seed of the sampler"},
    PredicateField{"tags", kTextList, kRequest, "labels of the request, such as 'safety'"},
    PredicateField{"refused", kBool, kOutcome, "the answer was a refusal"},
    PredicateField{"parsed", kBool, kOutcome, "the answer had the form that was asked for"},
    PredicateField{"failed", kBool, kOutcome, "the request ended in an error"},
    PredicateField{"replay_signature", kText, kOutcome, "digest of what a replay must reproduce"},
    PredicateField{"kernel_fingerprint", kText, kOutcome, "digest of the kernels that served it"},
    PredicateField{"token.position", kNumber, kRows, "position of the token in the sequence, from 0"},
    PredicateField{"token.token", kNumber, kRows, "id of the token in the vocabulary"},
    PredicateField{"token.gold", kNumber, kTrain, "id of the label token; absent where there is none"},
    PredicateField{"token.advantage", kNumber, kTrain, "advantage of the token in training"},
    PredicateField{"token.logprob", kNumber, kOutcome, "log-prob of the token; absent if not recorded"},
};
// clang-format on

constexpr std::array<std::string_view, 4> kOriginNames = {"request", "rows", "train", "outcome"};
constexpr std::array<std::string_view, 4> kTypeNames = {"number", "text", "bool", "list of text"};

}  // namespace

std::span<const PredicateField> PredicateFields() { return kFields; }

const PredicateField* FindPredicateField(std::string_view name) {
  const auto* found = std::find_if(kFields.begin(), kFields.end(),
                                   [&](const PredicateField& row) { return row.name == name; });
  return found == kFields.end() ? nullptr : found;
}

FieldOrigin OriginOf(std::string_view name) {
  const PredicateField* field = FindPredicateField(name);
  return field == nullptr ? kRequest : field->origin;
}

std::string_view Name(FieldOrigin origin) { return kOriginNames[static_cast<size_t>(origin)]; }
std::string_view Name(FieldType type) { return kTypeNames[static_cast<size_t>(type)]; }

}  // namespace kcc
