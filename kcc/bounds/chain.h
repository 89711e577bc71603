// The whole chain at once: from one number about a drift to everything it implies, and from what is
// tolerated back to thresholds. `kcc bound`, `kcc explain`, the report and `kcc author` read it.
//
// A drift is a ceiling at every context, or (form kAbsLogRatio, and wherever a row says so) a mean
// over contexts: TvOfDrift is concave in each form, so a mean drift bounds the mean total
// variation. Rows carry the tight bound and, where there is one, the textbook's first-order form.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/bounds/consequence.h"
#include "kcc/contract/contract.h"

namespace kcc {

enum class DriftForm : uint8_t { kSpan, kLinf, kL2, kTv, kKl, kAbsLogRatio };
inline constexpr DriftForm kDriftForms[] = {DriftForm::kSpan, DriftForm::kLinf,
                                            DriftForm::kL2,   DriftForm::kTv,
                                            DriftForm::kKl,   DriftForm::kAbsLogRatio};
std::string_view CatalogName(DriftForm form);  // "logit_span"

// What a bound may rest on; a row whose assumption is missing is left out.
struct BoundAssumptions {
  double temperature = 1;  // > 0
  std::optional<double> reward_max;
  RewardRange reward_range = RewardRange::kMinusRToR;
  std::optional<double> advantage_max;
  std::optional<double> score_norm_max;
  std::optional<int64_t> tokens;  // of a continuation, at most
  AdvantageKind advantages = AdvantageKind::kOutcome;
  CorrectionRange weights{0.8, 1.2};

  bool has_bias() const { return advantage_max && score_norm_max; }
};

// Logit drifts reduce to a span; the others have none.
std::optional<double> SpanOfDrift(DriftForm form, double value, double temperature);
// Total variation at a drift of this size; concave and rising in `value`, 0 at 0, at most 1.
double TvOfDrift(DriftForm form, double value, double temperature);
// Of continuations of `tokens` tokens, the drift holding at every step and prefix.
double SequenceTvOfDrift(DriftForm form, double value, double temperature, int64_t tokens);
// The same where only the mean over a continuation's tokens is known and infer chose them. Of kKl
// that is KL(infer || train): only this direction adds up over the prefixes that infer draws.
double SequenceTvOfMeanDrift(DriftForm form, double value, double temperature, int64_t tokens);

struct ChainRow {
  std::string_view name;  // the catalog's where it has one
  std::string_view what;  // in words
  double value = 0;
  std::string_view formula;
  std::optional<double> textbook;
  std::string_view textbook_formula;
};

struct Chain {
  std::vector<ChainRow> rows;
  // Assumptions, by their names in a contract, that would have added rows.
  std::vector<std::string_view> missing;
};

// Precondition: value >= 0.
Chain ForwardChain(DriftForm form, double value, const BoundAssumptions& assumptions);

enum class Tolerated : uint8_t { kRewardDrift, kGradientBias };
std::string_view Name(Tolerated what);  // "reward_drift"

struct ThresholdRow {
  std::string_view quantity;  // the catalog's name
  std::string_view metric;    // the clause that guarantees it: "mean_tv"
  double at_most = 0;         // the largest double that does; +inf: no threshold is needed
  std::string_view formula;
};

// The largest thresholds whose bound still fits the budget, rounding included: each alone
// guarantees it. Fails where the assumptions it needs are missing.
Result<std::vector<ThresholdRow>> BackwardChain(Tolerated what, double budget,
                                                const BoundAssumptions& assumptions);

}  // namespace kcc
