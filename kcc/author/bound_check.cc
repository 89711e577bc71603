#include "kcc/author/bound_check.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/rank.h"
#include "kcc/bounds/weights.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/measure/trace_source.h"
#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

// What drift kernels may err by, relatively (their tests hold them to less).
constexpr double kMeasuringError = 1e-9;

// The slots that bounds speak of, resolved once.
struct Slots {
  size_t span = TokenSlot("logit_span");
  size_t linf = TokenSlot("logit_linf");
  size_t l2 = TokenSlot("logit_l2");
  size_t kl = TokenSlot("kl");
  size_t reverse_kl = TokenSlot("reverse_kl");
  size_t tv = TokenSlot("tv");
  size_t hellinger = TokenSlot("hellinger");
  size_t chi2 = TokenSlot("chi2");
  size_t reverse_chi2 = TokenSlot("reverse_chi2");
  size_t abs_log_ratio = TokenSlot("abs_log_ratio");
  size_t log_ratio = TokenSlot("log_ratio");
  size_t train_margin = TokenSlot("train_margin");
  size_t top1_overlap = TokenSlot("top1_overlap");
};
const Slots& At() {
  static const Slots slots;
  return slots;
}

// One token's evidence, read at the end that makes a violation certain: what is bounded at its
// low end, what bounds it at its high end.
struct TokenValues {
  const TokenDrift& drift;
  double temperature;

  bool Has(size_t slot) const { return drift.known[slot]; }
  double Low(size_t slot) const { return Has(slot) ? drift.lo[slot] : -kInf; }
  double High(size_t slot) const { return Has(slot) ? drift.hi[slot] : kInf; }
};

struct Rule {
  std::string_view quantity;
  std::string_view statement;
  bool decides;
  double (*measured)(const TokenValues&);  // -inf: not known
  double (*bound)(const TokenValues&);     // +inf: nothing is said
};

template <size_t Slots::*kSlot>
double LowOf(const TokenValues& r) {
  return r.Low(At().*kSlot);
}
double Span(const TokenValues& r) { return r.High(At().span); }

// A bound that decides is a theorem about every token: one violation is a fault of kcc, or evidence
// that is none. The textbook ones are compared for the reader's sake.
// clang-format off
constexpr Rule kRules[] = {
    {"logit_span", "logit_span <= 2 logit_linf/tau", true, LowOf<&Slots::span>,
     [](const TokenValues& r) { return SpanOfLinf(r.High(At().linf), r.temperature); }},
    {"logit_span", "logit_span <= sqrt(2) logit_l2/tau", true, LowOf<&Slots::span>,
     [](const TokenValues& r) { return SpanOfL2(r.High(At().l2), r.temperature); }},
    {"tv", "tv <= tanh(s/4)", true, LowOf<&Slots::tv>,
     [](const TokenValues& r) { return TvOfSpan(Span(r)); }},
    {"tv", "tv <= logit_linf/tau (textbook)", false, LowOf<&Slots::tv>,
     [](const TokenValues& r) { return TvOfLinfTextbook(r.High(At().linf), r.temperature); }},
    {"tv", "tv <= min(sqrt(kl/2), sqrt(1 - e^-kl))", true, LowOf<&Slots::tv>,
     [](const TokenValues& r) { return TvOfKl(std::min(r.High(At().kl), r.High(At().reverse_kl))); }},
    {"kl", "kl <= s/(e^s - 1) - 1 + ln((e^s - 1)/s)", true, LowOf<&Slots::kl>,
     [](const TokenValues& r) { return KlOfSpan(Span(r)); }},
    {"kl", "kl <= s^2/8 (textbook)", false, LowOf<&Slots::kl>,
     [](const TokenValues& r) { return KlOfSpanHoeffding(Span(r)); }},
    {"kl", "kl <= s tv", true, LowOf<&Slots::kl>,
     [](const TokenValues& r) { return KlOfSpanAndTv(Span(r), r.High(At().tv)); }},
    {"reverse_kl", "reverse_kl <= as kl", true, LowOf<&Slots::reverse_kl>,
     [](const TokenValues& r) { return KlOfSpan(Span(r)); }},
    {"kl", "kl + reverse_kl <= s tanh(s/4)", true,
     [](const TokenValues& r) { return r.Low(At().kl) + r.Low(At().reverse_kl); },
     [](const TokenValues& r) { return JeffreysOfSpan(Span(r)); }},
    {"hellinger", "hellinger <= 1 - sech(s/4)", true, LowOf<&Slots::hellinger>,
     [](const TokenValues& r) { return HellingerOfSpan(Span(r)); }},
    {"chi2", "chi2 <= sinh(s/2)^2", true, LowOf<&Slots::chi2>,
     [](const TokenValues& r) { return Chi2OfSpan(Span(r)); }},
    {"reverse_chi2", "reverse_chi2 <= sinh(s/2)^2", true, LowOf<&Slots::reverse_chi2>,
     [](const TokenValues& r) { return Chi2OfSpan(Span(r)); }},
    {"abs_log_ratio", "abs_log_ratio <= s", true, LowOf<&Slots::abs_log_ratio>,
     [](const TokenValues& r) { return LogRatioOfSpan(Span(r)); }},
    {"top1_overlap", "same most likely token where train_margin > tau s", true,
     [](const TokenValues& r) { return r.Has(At().top1_overlap) ? 1 - r.High(At().top1_overlap) : -kInf; },
     [](const TokenValues& r) {
       return OrderCertain(r.Low(At().train_margin), Span(r) * r.temperature) ? 0.0 : 1.0;
     }},
};
// clang-format on

// Sums over the whole pair behind the rows that decide nothing.
struct SampleRows {
  double weight_gap = 0;
  double weight_bound = 0;
  int64_t weighed = 0;
  double rewards[2] = {0, 0};  // train, infer
  double reward_abs_max = 0;
  double sequence_tv = 0;  // of all requests, a sum over their tokens
  int64_t rewarded = 0;
};

CheckedBound SampleRow(std::string_view quantity, std::string_view statement, int64_t count,
                       double measured, double bound) {
  CheckedBound row;
  row.quantity = quantity;
  row.statement = statement;
  row.decides = false;
  row.compared = count;
  row.ratio_max = row.ratio_mean = bound > 0 ? measured / bound : 0;
  row.closest = BoundWitness{"", -1, measured, bound};
  return row;
}

void AddRequest(const PairedTraces& pair, int32_t i, const std::vector<double>& spans,
                SampleRows* sums) {
  const auto train = pair.train_request(i).Number("reward");
  const auto infer = pair.infer_request(i).Number("reward");
  if (!train || !infer || spans.empty()) return;
  sums->rewards[0] += *train;
  sums->rewards[1] += *infer;
  sums->reward_abs_max = std::max({sums->reward_abs_max, std::fabs(*train), std::fabs(*infer)});
  // Spans along one path bound no other path, so only their sum carries over (docs/math.md A.6 b).
  for (const double span : spans) sums->sequence_tv += TvOfSpan(span);
  ++sums->rewarded;
}

void AppendSampleRows(const SampleRows& sums, const BoundAssumptions& assumptions,
                      std::vector<CheckedBound>* rows) {
  if (sums.weighed > 0) {
    const double scale =
        assumptions.advantage_max.value_or(1) * assumptions.score_norm_max.value_or(1);
    const auto n = static_cast<double>(sums.weighed);
    rows->push_back(SampleRow("gradient_bias", "A G mean|w - 1| against 2 A G mean tanh(s/4)",
                              sums.weighed, scale * sums.weight_gap / n,
                              scale * sums.weight_bound / n));
  }
  if (sums.rewarded > 0) {
    const auto n = static_cast<double>(sums.rewarded);
    const double most = assumptions.reward_max.value_or(sums.reward_abs_max);
    rows->push_back(
        SampleRow("reward_drift", "reward_drift against osc(r) times the sum of tanh(s/4)",
                  sums.rewarded, std::fabs(sums.rewards[0] - sums.rewards[1]) / n,
                  RewardDriftOfTv(sums.sequence_tv / n, most, assumptions.reward_range)));
  }
}

// Holds every bound against every token, and those of samples against their sums.
// Rows about rewards and weights are about means of samples. A sample can exceed a bound on its
// mean by chance, so those rows decide nothing.
class BoundVisitor final : public PairVisitor {
 public:
  BoundVisitor(const PairedTraces& pair, const std::function<void(int64_t tokens)>& progress)
      : pair_(pair),
        progress_(progress),
        by_infer_(pair.infer().info().sampled_by == SampledBy::kInfer && !pair.sampling_altered() &&
                  pair.sampling_temperature() == pair.temperature()),
        checker_(pair.temperature().value_or(1.0)) {}

  Result<> BeginRequest(size_t index, const RequestPair& request, const SliceBits&) override {
    request_ = static_cast<int32_t>(index);
    id_ = request.id;
    spans_.clear();
    return {};
  }

  Result<> Add(const MeasuredToken& token) override {
    const TokenDrift& drift = token.reading.drift;
    checker_.Add(drift, id_, token.position);
    ++check_.tokens;
    // Without a finite span there is no bound to set the sums below against.
    if (!drift.known[At().span] || std::isinf(drift.hi[At().span])) return {};
    spans_.push_back(drift.hi[At().span]);
    if (!by_infer_ || !drift.known[At().log_ratio]) return {};
    sums_.weight_gap += WeightGap(drift.lo[At().log_ratio], Correction::kNone, {}, 0);
    sums_.weight_bound += 2 * TvOfSpan(spans_.back());
    ++sums_.weighed;
    return {};
  }

  Result<> EndRequest() override {
    AddRequest(pair_, request_, spans_, &sums_);
    ++check_.requests;
    if (progress_) progress_(check_.tokens);
    return {};
  }

  BoundCheck Finish(const BoundAssumptions& assumptions) {
    check_.rows = checker_.Rows();
    AppendSampleRows(sums_, assumptions, &check_.rows);
    return std::move(check_);
  }

 private:
  const PairedTraces& pair_;
  const std::function<void(int64_t tokens)>& progress_;
  const bool by_infer_;  // the tokens are a sample of the compared infer distribution
  BoundChecker checker_;
  BoundCheck check_;
  SampleRows sums_;
  int32_t request_ = 0;
  std::string_view id_;
  std::vector<double> spans_;
};

}  // namespace

BoundChecker::BoundChecker(double temperature) : temperature_(temperature) {
  for (const Rule& rule : kRules) {
    CheckedBound row;
    row.quantity = rule.quantity;
    row.statement = rule.statement;
    row.decides = rule.decides;
    rows_.push_back(row);
  }
  sums_.resize(rows_.size());
}

SlotSet BoundChecker::Slots() {
  SlotSet slots;
  // All that any rule reads, on-demand quantities such as hellinger included: a slot that is not
  // asked for is unknown, and its rules would compare nothing.
  for (const size_t slot : {At().span, At().linf, At().l2, At().kl, At().reverse_kl, At().tv,
                            At().hellinger, At().chi2, At().reverse_chi2, At().abs_log_ratio,
                            At().log_ratio, At().train_margin, At().top1_overlap}) {
    slots.set(slot);
  }
  return slots;
}

void BoundChecker::Add(const TokenDrift& drift, std::string_view request, int32_t position) {
  const TokenValues reading{drift, temperature_};
  for (size_t i = 0; i < rows_.size(); ++i) {
    const double measured = kRules[i].measured(reading);
    const double bound = kRules[i].bound(reading);
    // Unknown on either side: not compared, and not counted as compared.
    if (measured == -kInf || bound == kInf || std::isnan(measured) || std::isnan(bound)) continue;
    CheckedBound& row = rows_[i];
    ++row.compared;
    const bool violated = measured > bound * (1 + kMeasuringError);
    // Within the error of measuring a bound that is attained is not violated.
    row.violations += violated && row.decides ? 1 : 0;
    // 0 of 0 is attained and says nothing about how sharp the bound is.
    if (bound == 0 && !violated) continue;
    const double ratio = bound == 0 ? kInf : measured / bound;
    if (!row.closest || ratio > row.ratio_max) {
      row.ratio_max = ratio;
      row.closest = BoundWitness{std::string(request), position, measured, bound};
    }
    sums_[i].ratios += ratio;
    ++sums_[i].count;
  }
}

std::vector<CheckedBound> BoundChecker::Rows() const {
  std::vector<CheckedBound> rows = rows_;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (sums_[i].count > 0) {
      rows[i].ratio_mean = sums_[i].ratios / static_cast<double>(sums_[i].count);
    }
  }
  return rows;
}

int64_t BoundCheck::compared() const {
  int64_t sum = 0;
  for (const CheckedBound& row : rows) sum += row.decides ? row.compared : 0;
  return sum;
}

const CheckedBound* BoundCheck::violated() const {
  for (const CheckedBound& row : rows) {
    if (row.violations > 0) return &row;
  }
  return nullptr;
}

Result<BoundCheck> CheckBounds(const PairedTraces& pair, const BoundAssumptions& assumptions,
                               const std::function<void(int64_t tokens)>& progress) {
  BoundVisitor visitor(pair, progress);
  KCC_TRY(const SliceEvaluator no_slices, SliceEvaluator::Make({}));
  WalkOptions options;
  options.wanted = BoundChecker::Slots();
  const std::vector<int32_t> order = pair.Order();
  PairVisitor* const visitors[] = {&visitor};
  KCC_TRY_VOID(WalkPairs(TraceSource(pair), order, no_slices, options, visitors));
  return visitor.Finish(assumptions);
}

}  // namespace kcc
