#include "kcc/experiment/gradient_bias.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/bounds/sequence.h"
#include "kcc/lab/sampler.h"

namespace kcc {
namespace {

constexpr int kWorstRounds = 100;  // a local maximum takes a handful

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double Length(const std::vector<double>& a) { return std::sqrt(Dot(a, a)); }

std::vector<double> Difference(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

// phi of every token, [continuation][token].
Result<std::vector<double>> WeightsOf(const EnumerableProblem& p, const GradientCorrection& c) {
  const std::vector<double> train = TokenLogs(p, p.train);
  const std::vector<double> rollout = TokenLogs(p, p.rollout);
  std::vector<double> phi(train.size());
  if (c.ppo.has_value()) {
    for (size_t i = 0; i < phi.size(); ++i) {
      const double log_ratio = train[i] - rollout[i];
      phi[i] = std::exp(log_ratio) -
               WeightGap(log_ratio, Correction::kPpo, *c.ppo, p.advantages[i / p.length]);
    }
    return phi;
  }
  if (c.correction.weight.batch_normalize) {
    return InvalidError("weights that a batch normalises have no expectation by continuation");
  }
  RlBatch batch;
  batch.rows = static_cast<int64_t>(p.continuations());
  batch.columns = static_cast<int64_t>(p.length);
  batch.train = {train.data(), RlType::kF64, batch.columns};
  batch.rollout = {rollout.data(), RlType::kF64, batch.columns};
  RlCorrectOutput output;
  output.weights_double = phi;
  KCC_TRY_VOID(CorrectRl(batch, c.correction, output));
  return phi;
}

// sum_t E_Q|W - phi_t|, and E_Q|W - phi| where every continuation has one weight.
struct Gaps {
  double tokens = 0;
  std::optional<double> whole = 0.0;
};
Gaps GapsOf(const EnumerableProblem& p, const std::vector<double>& phi) {
  const std::vector<double> mass = Masses(p, p.rollout);
  const std::vector<double> ratio = Ratios(p);
  Gaps gaps;
  for (size_t y = 0; y < p.continuations(); ++y) {
    const double first = phi[y * p.length];
    for (size_t t = 0; t < p.length; ++t) {
      const double weight = phi[y * p.length + t];
      gaps.tokens += mass[y] * std::fabs(ratio[y] - weight);
      if (weight != first) gaps.whole.reset();
    }
    if (gaps.whole) *gaps.whole += mass[y] * std::fabs(ratio[y] - first);
  }
  return gaps;
}

// The correction as a function of one ratio, of a token or of the whole, where it is one that
// kcc/bounds knows the supremum of.
struct RatioRule {
  Correction kind = Correction::kNone;
  CorrectionRange range;
  bool whole = false;
};
std::optional<RatioRule> RuleOf(const GradientCorrection& c) {
  if (c.ppo.has_value()) return RatioRule{Correction::kPpo, *c.ppo, false};
  const RlWeightRule& weight = c.correction.weight;
  if (c.correction.veto.has_value() || c.correction.reject.size() > 1) return std::nullopt;
  if (weight.mode == RlWeightMode::kOff) {
    if (c.correction.reject.empty()) return RatioRule{Correction::kNone, {}, true};
    const RlRejectRule& reject = c.correction.reject[0];
    const bool whole = reject.aggregate == RlAggregate::kSequenceSum;
    if (reject.statistic != RlStatistic::kRatio ||
        (!whole && reject.aggregate != RlAggregate::kTokenwise)) {
      return std::nullopt;
    }
    return RatioRule{Correction::kFilter, {reject.low, reject.high}, whole};
  }
  const bool whole = weight.level == RlLevel::kSequence;
  if (!c.correction.reject.empty() || (!whole && weight.level != RlLevel::kToken)) {
    return std::nullopt;
  }
  const CorrectionRange range{weight.low, weight.high};
  switch (weight.mode) {
    case RlWeightMode::kFull:
      return RatioRule{Correction::kFull, {}, whole};
    case RlWeightMode::kTruncate:
      return RatioRule{Correction::kTruncate, {1, weight.high}, whole};
    case RlWeightMode::kClip:
      return RatioRule{Correction::kClip, range, whole};
    case RlWeightMode::kMask:
      return RatioRule{Correction::kMask, range, whole};
    case RlWeightMode::kOff:
      break;
  }
  return std::nullopt;
}

// A.7 at the worst laws with these spans. Of token weights |W - phi_t| <= |W - w_t| + |w_t -
// phi_t|: w_t is the density of a law that differs from P in the other steps alone.
std::optional<double> SpanBound(const EnumerableLaws& laws, const GradientCorrection& c) {
  const std::optional<RatioRule> rule = RuleOf(c);
  if (!rule || rule->range.low > 1 || rule->range.high < 1) return std::nullopt;
  CorrectionRange range = rule->range;
  range.low = std::max(range.low, std::numeric_limits<double>::min());
  if (rule->kind == Correction::kNone)
    return 2 * laws.advantage_max * laws.score_sum_max * SequenceTvOfSpans(laws.spans);
  if (rule->whole) {
    double span = 0;  // of log W
    for (const double step : laws.spans) span += step;
    return laws.advantage_max * laws.score_sum_max * WeightGapOfSpan(span, rule->kind, range);
  }
  double gap = 0;
  for (size_t t = 0; t < laws.spans.size(); ++t) {
    std::vector<double> others = laws.spans;
    others.erase(others.begin() + static_cast<ptrdiff_t>(t));
    gap += 2 * SequenceTvOfSpans(others) + WeightGapOfSpan(laws.spans[t], rule->kind, range);
  }
  return laws.advantage_max * laws.score_max * gap;
}

// A sample of continuations, as the share that each has of it.
std::vector<double> Drawn(const std::vector<double>& mass, size_t samples, uint64_t seed) {
  std::vector<double> share(mass.size());
  for (size_t i = 0; i < samples; ++i) {
    double left = UniformAt(seed, i);
    size_t y = 0;
    while (y + 1 < mass.size() && left >= mass[y]) left -= mass[y++];
    share[y] += 1 / static_cast<double>(samples);
  }
  return share;
}

// The summed variance, over the parameters, of the mean over a sample with these shares.
double VarianceOfMean(const EnumerableProblem& p, const std::vector<double>& share,
                      const std::vector<double>& phi, const std::vector<double>& mean,
                      size_t samples) {
  double squares = 0;
  for (size_t y = 0; y < p.continuations(); ++y) {
    for (size_t t = 0; t < p.length; ++t) {  // steps push other tables, and so are orthogonal
      const double push = p.advantages[y] * phi[y * p.length + t];
      squares += share[y] * push * push * ScoreSquare(p, p.PrefixAt(y, t), p.TokenAt(y, t));
    }
  }
  return std::max(0.0, squares - Dot(mean, mean)) / static_cast<double>(samples - 1);
}

}  // namespace

Result<GradientBias> BiasOf(const EnumerableProblem& p, const GradientCorrection& c) {
  const EnumerableLaws laws = LawsOf(p);
  KCC_TRY(const std::vector<double> phi, WeightsOf(p, c));
  const std::vector<double> mass = Masses(p, p.rollout);
  const std::vector<double> estimator = MeanGradient(p, mass, phi);
  GradientBias made;
  made.name = c.name;
  made.bias = Length(Difference(estimator, laws.gradient));
  const double length = laws.gradient_length();
  const double product = length * Length(estimator);
  made.relative = length > 0 ? made.bias / length : 0;
  made.cosine = product > 0 ? Dot(estimator, laws.gradient) / product : 0;
  const Gaps gaps = GapsOf(p, phi);
  made.bound = laws.advantage_max * laws.score_max * gaps.tokens;
  if (gaps.whole) {
    made.bound = std::min(made.bound, laws.advantage_max * laws.score_sum_max * *gaps.whole);
  }
  made.span_bound = SpanBound(laws, c);
  for (size_t i = 0; i < phi.size(); ++i) {
    const double share = mass[i / p.length] / static_cast<double>(p.length);
    made.kept += phi[i] != 0 ? share : 0;
    made.second_moment += share * phi[i] * phi[i];
  }
  return made;
}

Result<EnumerableProblem> WithWorstAdvantages(EnumerableProblem p, const GradientCorrection& c,
                                              double advantage) {
  const std::vector<double> mass = Masses(p, p.rollout);
  const std::vector<double> ratio = Ratios(p);
  for (double& v : p.advantages) v = v < 0 ? -advantage : advantage;
  // What a continuation would add to the bias along a direction, with the sign that p now has.
  const auto part = [&](size_t y, const std::vector<double>& phi,
                        const std::vector<double>& along) {
    double sum = 0;
    for (size_t t = 0; t < p.length; ++t) {
      const size_t row = p.PrefixAt(y, t) * p.vocabulary;
      double score = along[row + p.TokenAt(y, t)];
      for (size_t v = 0; v < p.vocabulary; ++v)
        score -= std::exp(p.train[row + v]) * along[row + v];
      sum += (phi[y * p.length + t] - ratio[y]) * score;
    }
    return sum;
  };
  std::vector<double> weights;  // W, as a weight of every token: the estimator without a bias
  for (const double w : ratio) weights.insert(weights.end(), p.length, w);
  EnumerableProblem other = p;  // its signs turned, since PPO's weights look at them
  for (int round = 0; round < kWorstRounds; ++round) {
    for (size_t y = 0; y < p.continuations(); ++y) other.advantages[y] = -p.advantages[y];
    KCC_TRY(const std::vector<double> phi, WeightsOf(p, c));
    KCC_TRY(const std::vector<double> turned, WeightsOf(other, c));
    const std::vector<double> bias =
        Difference(MeanGradient(p, mass, phi), MeanGradient(p, mass, weights));
    bool changed = false;
    for (size_t y = 0; y < p.continuations(); ++y) {
      const double as_is = p.advantages[y] * part(y, phi, bias);
      if (-p.advantages[y] * part(y, turned, bias) <= as_is) continue;
      p.advantages[y] = -p.advantages[y];
      changed = true;
    }
    if (!changed) break;
  }
  return p;
}

double SampledBias::bias() const {
  return std::sqrt(std::max(0.0, distance * distance - floor * floor));
}

Result<SampledBias> SampleBias(const EnumerableProblem& p, const GradientCorrection& c,
                               size_t samples, uint64_t seed) {
  KCC_CHECK(samples >= 2);
  KCC_TRY(const std::vector<double> phi, WeightsOf(p, c));
  const std::vector<double> ones(phi.size(), 1.0);
  const std::vector<double> from_rollout = Drawn(Masses(p, p.rollout), samples, 2 * seed);
  const std::vector<double> from_train = Drawn(Masses(p, p.train), samples, 2 * seed + 1);
  const std::vector<double> corrected = MeanGradient(p, from_rollout, phi);
  const std::vector<double> own = MeanGradient(p, from_train, ones);
  return SampledBias{Length(Difference(corrected, own)),
                     std::sqrt(VarianceOfMean(p, from_rollout, phi, corrected, samples) +
                               VarianceOfMean(p, from_train, ones, own, samples))};
}

}  // namespace kcc
