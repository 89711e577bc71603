// Bounds through the C interface: the options of `kcc bound` as a JSON object.
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "kcc/api/guard.h"
#include "kcc/bounds/chain_json.h"
#include "kcc/format/json.h"

namespace kcc::api {
namespace {

constexpr std::array<std::string_view, 6> kForms = {"span", "linf", "l2",
                                                    "tv",   "kl",   "abs_log_ratio"};

struct Asked {
  std::array<std::optional<double>, kForms.size()> drift;  // by DriftForm
  std::optional<double> reward_drift;
  std::optional<double> gradient_bias;
  BoundAssumptions assumptions;
  int questions = 0;
};

Result<> Take(std::string_view key, double value, Asked* asked) {
  if (!std::isfinite(value) || value < 0) {
    return InvalidError("bound: '" + std::string(key) + "' must be a number of at least 0");
  }
  for (size_t form = 0; form < kForms.size(); ++form) {
    if (key != kForms[form]) continue;
    if (static_cast<DriftForm>(form) == DriftForm::kTv && value > 1) {
      return InvalidError("bound: a total variation is at most 1");
    }
    asked->drift[form] = value;
    ++asked->questions;
    return {};
  }
  BoundAssumptions& given = asked->assumptions;
  if (key == Name(Tolerated::kRewardDrift)) {
    asked->reward_drift = value;
    ++asked->questions;
  } else if (key == Name(Tolerated::kGradientBias)) {
    asked->gradient_bias = value;
    ++asked->questions;
  } else if (key == "temperature") {
    if (value == 0) return InvalidError("bound: temperature must be above 0");
    given.temperature = value;
  } else if (key == "reward_max") {
    given.reward_max = value;
  } else if (key == "advantage_max") {
    given.advantage_max = value;
  } else if (key == "score_norm_max") {
    given.score_norm_max = value;
  } else if (key == "tokens") {
    if (value < 1 || value > 1e15) return InvalidError("bound: tokens must be at least 1");
    given.tokens = static_cast<int64_t>(value);
  } else if (key == "weight_min") {
    if (value < 1e-9 || value > 1) return InvalidError("bound: weight_min must be in [1e-9, 1]");
    given.weights.low = value;
  } else if (key == "weight_max") {
    if (value < 1 || value > 1e9) return InvalidError("bound: weight_max must be in [1, 1e9]");
    given.weights.high = value;
  } else {
    return InvalidError("bound: no option '" + std::string(key) +
                        "'; there are span, linf, l2, tv, kl, abs_log_ratio, reward_drift, "
                        "gradient_bias, temperature, reward_max, rewards_from_zero, advantage_max, "
                        "score_norm_max, advantages, tokens, weight_min, weight_max");
  }
  return {};
}

// The options that are no numbers.
Result<> TakeWord(std::string_view key, simdjson::dom::element value, Asked* asked) {
  BoundAssumptions& given = asked->assumptions;
  if (key == "rewards_from_zero") {
    bool from_zero = false;
    if (value.get(from_zero) != simdjson::SUCCESS) {
      return InvalidError("bound: 'rewards_from_zero' must be true or false");
    }
    given.reward_range = from_zero ? RewardRange::kZeroToR : RewardRange::kMinusRToR;
    return {};
  }
  std::string_view kind;
  for (const AdvantageKind known : {AdvantageKind::kOutcome, AdvantageKind::kToken}) {
    if (value.get(kind) != simdjson::SUCCESS || kind != Name(known)) continue;
    given.advantages = known;
    return {};
  }
  return InvalidError("bound: 'advantages' must be \"outcome\" or \"token\"");
}

Result<Asked> Parse(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const Result<simdjson::dom::element> parsed = ParseJson(parser, text);
  if (!parsed.has_value() || parsed->get(object) != simdjson::SUCCESS) {
    return InvalidError("bound: the options must be a JSON object such as {\"linf\": 0.05}");
  }
  Asked asked;
  for (const auto& [key, value] : object) {
    if (key == "rewards_from_zero" || key == "advantages") {
      KCC_TRY_VOID(TakeWord(key, value, &asked));
      continue;
    }
    double number = 0;
    if (value.get(number) != simdjson::SUCCESS) {
      return InvalidError("bound: '" + std::string(key) + "' must be a number");
    }
    KCC_TRY_VOID(Take(key, number, &asked));
  }
  if (asked.questions == 1) return asked;
  return InvalidError(
      "bound: give one of span, linf, l2, tv, kl, abs_log_ratio (what follows from it), "
      "reward_drift or gradient_bias (what guarantees it)");
}

Result<std::string> Answer(const Asked& asked) {
  if (asked.reward_drift) {
    return BackwardJson(Tolerated::kRewardDrift, *asked.reward_drift, asked.assumptions);
  }
  if (asked.gradient_bias) {
    return BackwardJson(Tolerated::kGradientBias, *asked.gradient_bias, asked.assumptions);
  }
  for (const DriftForm form : kDriftForms) {
    const auto& value = asked.drift[static_cast<size_t>(form)];
    if (value) return ForwardJson(form, *value, asked.assumptions);
  }
  return InvalidError("bound: nothing was asked");
}

}  // namespace
}  // namespace kcc::api

extern "C" kcc_status kcc_bound(const char* options, kcc_text* out) {
  using namespace kcc::api;
  return Guard([&]() -> kcc::Result<> {
    KCC_TRY_VOID(RequirePointer(options, "options"));
    KCC_TRY(const Asked asked, Parse(options));
    KCC_TRY(const std::string text, Answer(asked));
    return GiveText(text, out);
  });
}
