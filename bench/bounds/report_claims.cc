#include <cmath>

#include "bench/bounds/claims.h"
#include "kcc/base/check.h"
#include "kcc/bounds/implied.h"
#include "kcc/bounds/rounding.h"
#include "kcc/bounds/sequence.h"

namespace kcc::bench {
namespace {

using C = const ReportCase&;

constexpr double kRewardMax = 0.5;
constexpr double kAdvantageMax = 3;
constexpr double kScoreNormMax = 2;

double Up(Real x) {
  const auto nearest = static_cast<double>(x);
  return nearest < x ? std::nextafter(nearest, HUGE_VAL) : nearest;
}

Metric MetricNamed(Aggregate aggregate, std::string_view quantity) {
  return *ParseMetric(std::string(AggregateName(aggregate)) + "_" + std::string(quantity));
}

// A clause on the quantity that holds with nothing to spare. A soft one is put at the case's cut.
Clause ClauseThatHolds(C c, size_t quantity, bool soft, std::vector<Real>* windows) {
  static const auto metrics = [] {
    std::vector<std::vector<Metric>> table(kReportQuantities.size());
    for (size_t q = 0; q < table.size(); ++q) {
      table[q].resize(static_cast<size_t>(Aggregate::kRate) + 1);
      for (const Aggregate a : Aggregates()) {
        table[q][static_cast<size_t>(a)] = MetricNamed(a, kReportQuantities[q]);
      }
    }
    return table;
  }();
  Clause clause;
  clause.slices = {"all"};
  const Aggregate how = quantity >= kFirstMeanOnly ? Aggregate::kMean : c.aggregate;
  clause.metric = metrics[quantity][static_cast<size_t>(how)];
  if (!soft) {
    clause.threshold = Up(c.Metric(quantity, how));
    return clause;
  }
  for (const ReportCase::Path& path : c.paths) windows->push_back(c.MetricOf(path, quantity, how));
  clause.threshold = Up(c.WindowQuantile(*windows, 1 - static_cast<Real>(c.cut)));
  const Real beyond = c.WindowsBeyond(*windows, clause.threshold);
  clause.exceedance = std::fmin(1.0, std::fmax(1e-9, Up(beyond)));
  return clause;
}

// What a row about tokens speaks of: their mean or all of them, in the population or in the windows
// of the share that it names.
Real TokenTv(C c, const Implication& row) {
  constexpr size_t kTv = 5;
  const Aggregate how = row.every ? Aggregate::kMax : Aggregate::kMean;
  if (row.exceedance == 0) return c.Metric(kTv, how);
  std::vector<Real> windows;
  for (const ReportCase::Path& path : c.paths) windows.push_back(c.MetricOf(path, kTv, how));
  return c.WindowQuantile(windows, row.exceedance);
}

ReportCase::Row Measured(C c, const Implication& row, AdvantageKind kind) {
  const Real tokens = row.quantity == "sequence_reward_drift" || row.quantity == "trajectory_bias"
                          ? 0
                          : TokenTv(c, row);
  constexpr Real kBias = kAdvantageMax * kScoreNormMax;
  if (row.quantity == "tv") return {false, tokens, row.value};
  if (row.quantity == "reward_drift") return {false, 2 * kRewardMax * tokens, row.value};
  if (row.quantity == "gradient_bias") return {false, 2 * kBias * tokens, row.value};
  if (row.quantity == "sequence_reward_drift") {
    return {true, 2 * kRewardMax * c.SequenceTv(row.every), row.value};
  }
  KCC_CHECK(row.quantity == "trajectory_bias");
  return {true, kBias * c.TrajectoryBias(kind, row.every), row.value};
}

const std::vector<ReportCase::Row>& Implied(C c, size_t quantity, bool soft) {
  auto& rows = c.implied[quantity + (soft ? kReportQuantities.size() : 0)];
  if (rows) return *rows;
  rows.emplace();
  std::vector<Real> windows;
  const Clause clause = ClauseThatHolds(c, quantity, soft, &windows);
  Assumptions given;
  given.temperature = c.temperature;
  given.reward_max = kRewardMax;
  given.advantage_max = kAdvantageMax;
  given.score_norm_max = kScoreNormMax;
  given.tokens_max = c.tokens;
  for (const AdvantageKind kind : {AdvantageKind::kOutcome, AdvantageKind::kToken}) {
    given.advantages = kind;
    for (const Implication& row : ImplicationsOf(clause, given, Selection::kAnswers)) {
      if (c.train_draws && row.chosen_by == ChosenBy::kInfer) continue;
      if (kind == AdvantageKind::kToken && row.quantity != "trajectory_bias") continue;
      rows->push_back(Measured(c, row, kind));
    }
  }
  return *rows;
}

Comparison Closest(const std::vector<ReportCase::Row>& rows, bool of_continuations) {
  Comparison closest;
  double most = -1;
  for (const ReportCase::Row& row : rows) {
    if (row.of_continuations != of_continuations) continue;
    const double ratio = Ratio(row.actual, row.bound);
    if (!(ratio <= most)) closest = {row.actual, row.bound};
    most = std::fmax(most, ratio);
  }
  return closest;
}

// What `kcc bound` is given: a ceiling at every token, or the mean over infer's.
double Given(C c, DriftForm form, bool reverse) {
  constexpr size_t kQuantity[] = {0, 1, 3, 5, 6, 8};
  const size_t quantity =
      form == DriftForm::kKl && reverse ? 7 : kQuantity[static_cast<size_t>(form)];
  const bool mean = form == DriftForm::kAbsLogRatio;
  return Up(c.Metric(quantity, mean ? Aggregate::kMean : Aggregate::kMax));
}

Real MeasuredOfContinuations(C c, std::string_view row, bool every, bool reverse,
                             AdvantageKind kind) {
  constexpr Real kBias = kAdvantageMax * kScoreNormMax;
  if (row == "sequence_tv") return c.SequenceTv(every);
  if (row == "sequence_reward_drift") return 2 * kRewardMax * c.SequenceTv(every);
  if (row == "seq_kl") return c.SequenceKl(reverse);
  if (row == "trajectory_bias") return kBias * c.TrajectoryBias(kind, every);
  KCC_CHECK(row == "trajectory_bias_token_weights");
  return kBias * c.TokenWeightBias(kind, every);
}

Comparison Stated(C c, std::string_view name, DriftForm form, bool reverse, AdvantageKind kind) {
  const bool every = form != DriftForm::kAbsLogRatio;
  if (!every && c.train_draws) return {};
  BoundAssumptions given;
  given.temperature = c.temperature;
  given.reward_max = kRewardMax;
  given.advantage_max = kAdvantageMax;
  given.score_norm_max = kScoreNormMax;
  given.tokens = c.tokens;
  given.advantages = kind;
  for (const ChainRow& row : ForwardChain(form, Given(c, form, reverse), given).rows) {
    if (row.name == name) {
      return {MeasuredOfContinuations(c, name, every, reverse, kind), row.value};
    }
  }
  return {HUGE_VAL, 0};  // a row that is expected and not stated
}

// Raw logits carry a shift that does nothing, |log w| is not attained, and KL(train || infer) does
// not add up over infer's prefixes. The others are reached, by drift at one step for example;
// for soft clauses that is asked of the simplest only.
bool Sharp(size_t quantity, bool soft, bool whole) {
  const std::string_view name = kReportQuantities[quantity];
  if (name.starts_with("raw_") || name == "abs_log_ratio") return false;
  return !whole || name == "tv" || (!soft && name != "kl" && name != "w_log_w");
}

void AddClauses(std::vector<Claim<ReportCase>>* claims) {
  for (const bool soft : {false, true}) {
    for (size_t q = 0; q < kReportQuantities.size(); ++q) {
      for (const bool whole : {false, true}) {
        if (soft && q >= (whole ? kFirstMeanOnly : kFirstSampled)) continue;  // nothing is stated
        const std::string clause = std::string(soft ? "soft clause on " : "clause on ") +
                                   std::string(kReportQuantities[q]);
        claims->push_back({clause, whole ? "its rows about continuations" : "its rows about tokens",
                           Sharp(q, soft, whole), nullptr, nullptr,
                           [=](C c) { return Closest(Implied(c, q, soft), whole); }});
      }
    }
  }
}

void AddBounds(std::vector<Claim<ReportCase>>* claims) {
  const auto add = [&](DriftForm form, bool reverse, std::string_view row, AdvantageKind kind,
                       const std::string& statement) {
    // Reached at two tokens, and by equal steps.
    const bool tight = row == "seq_kl" || row == "trajectory_bias_token_weights";
    claims->push_back({"kcc bound, " + std::string(reverse ? "reverse_kl" : CatalogName(form)),
                       statement, tight, nullptr, nullptr,
                       [=](C c) { return Stated(c, row, form, reverse, kind); }});
  };
  for (const DriftForm form : kDriftForms) {
    const bool span = form <= DriftForm::kL2;
    for (const bool reverse : {false, true}) {
      if (reverse && form != DriftForm::kKl) continue;
      for (const std::string_view row : {"sequence_tv", "sequence_reward_drift", "seq_kl"}) {
        if (row == "seq_kl" && !span && form != DriftForm::kKl) continue;
        add(form, reverse, row, AdvantageKind::kOutcome, std::string(row));
      }
    }
    if (!span) continue;
    for (const AdvantageKind kind : {AdvantageKind::kOutcome, AdvantageKind::kToken}) {
      for (const std::string_view row : {"trajectory_bias", "trajectory_bias_token_weights"}) {
        add(form, false, row, kind, std::string(row) + ", advantages: " + std::string(Name(kind)));
      }
    }
  }
}

}  // namespace

const std::vector<Claim<ReportCase>>& ReportClaims() {
  static const std::vector<Claim<ReportCase>> claims = [] {
    std::vector<Claim<ReportCase>> rows;
    AddClauses(&rows);
    AddBounds(&rows);
    return rows;
  }();
  return claims;
}

const std::vector<Claim<ReportCase>>& FalseReportClaims() {
  static const std::vector<Claim<ReportCase>> claims = {
      {"soft clause as if windows were tokens", "mean tv <= (1 - eps) tv(threshold) + eps", false,
       nullptr, nullptr,
       [](C c) -> Comparison {
         std::vector<Real> windows;
         const Clause clause = ClauseThatHolds(c, 6, true, &windows);
         if (c.aggregate != Aggregate::kMean) return {};
         const double tv = TvOfDrift(DriftForm::kKl, clause.threshold, c.temperature);
         return {c.Metric(5, Aggregate::kMean),
                 RoundUpToOne((1 - clause.exceedance) * tv + clause.exceedance)};
       }},
      {"kl over infer's prefixes", "sequence tv <= Pinsker(T mean_kl)", false, nullptr, nullptr,
       [](C c) -> Comparison {
         if (c.train_draws) return {};
         const double kl = Up(c.Metric(6, Aggregate::kMean));
         return {c.SequenceTv(false),
                 SequenceTvOfMeanDrift(DriftForm::kKl, kl, c.temperature, c.tokens)};
       }},
      {"token weights, outcome advantages", "bias <= 2 A G sum_(t<T) tv(first t tokens)", false,
       nullptr, nullptr,
       [](C c) -> Comparison {
         return {c.TokenWeightBias(AdvantageKind::kOutcome, true),
                 TrajectoryBiasWithTokenWeights(c.widest, c.tokens, 1, 1)};
       }},
      {"uncorrected, outcome advantages", "bias <= 2 A G sum_t tv(first t tokens)", false, nullptr,
       nullptr,
       [](C c) -> Comparison {
         return {c.TrajectoryBias(AdvantageKind::kOutcome, true),
                 TrajectoryBiasOfSpan(c.widest, c.tokens, 1, 1)};
       }},
  };
  return claims;
}

}  // namespace kcc::bench
