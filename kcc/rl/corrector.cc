#include "kcc/rl/corrector.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

double LogBound(double bound) { return bound > 0 ? Log(bound) : -kInf; }

// A row is corrected in one of three ways, which agree on what they compute and differ in cost:
//
//   CorrectWhole    one run of tokens, kept or rejected as one: a single vectorised visit
//   CorrectTokens   several runs, or rules that treat tokens of a row differently
//   CorrectFar      ratios beyond a double's range, in WideDouble, token by token
//
// Correct chooses by the row and the normaliser alone, so the bits do not depend on the threads.
//
// The order is fixed: weights, then rejection, then the division by the normaliser.
// RlRowResult::weight is the sum before rejection, from which batch normalisation takes its mean,
// so a rejected row still counts there.

// phi of one unit, w a double or a WideDouble.
template <class T>
T WeightOf(const RlWeightRule& rule, const T& w) {
  switch (rule.mode) {
    case RlWeightMode::kOff:
      return 1;
    case RlWeightMode::kFull:
      return w;
    case RlWeightMode::kTruncate:
      return std::min(w, T(rule.high));
    case RlWeightMode::kClip:
      return std::min(std::max(w, T(rule.low)), T(rule.high));
    case RlWeightMode::kMask:
      return w < T(rule.low) || T(rule.high) < w ? T(0) : w;
  }
  return 1;
}

template <class T>
bool IsOutside(const RlWeightRule& rule, const T& w) {
  switch (rule.mode) {
    case RlWeightMode::kOff:
    case RlWeightMode::kFull:
      return false;
    case RlWeightMode::kTruncate:
      return T(rule.high) < w;
    case RlWeightMode::kClip:
    case RlWeightMode::kMask:
      return w < T(rule.low) || T(rule.high) < w;
  }
  return false;
}

// Ratios are compared in logs: the ratio of a whole sequence may leave a double's range, and a
// bound must not be passed or missed for that. The statistic of one token; bands of ratios are
// bands of it in logs.
double Statistic(RlStatistic statistic, double d) {
  switch (statistic) {
    case RlStatistic::kRatio:
      return d;
    case RlStatistic::kK1:
      return -d;
    case RlStatistic::kK2:
      return d * d / 2;
    case RlStatistic::kK3:
      return ExpResidual(d);
  }
  return 0;
}

double SequenceSum(RlStatistic statistic, const RlRowSums& sums) {
  switch (statistic) {
    case RlStatistic::kRatio:
      return sums.d;
    case RlStatistic::kK1:
      return -sums.d;
    case RlStatistic::kK2:
      return sums.square_d / 2;
    case RlStatistic::kK3:
      return sums.k3;
  }
  return 0;
}

// Whether a statistic keeps its unit.
struct Band {
  double low = -kInf, high = kInf;

  explicit Band(const RlRejectRule& rule) : high(rule.high) {
    if (rule.statistic != RlStatistic::kRatio && rule.statistic != RlStatistic::kK1) return;
    low = LogBound(rule.low);
    high = LogBound(rule.high);
  }
  // False for NaN: what cannot be compared is not kept.
  bool Holds(double x) const { return x >= low && x <= high; }
};

bool IsOfWhole(const RlRejectRule& rule) {
  return rule.aggregate == RlAggregate::kSequenceSum ||
         rule.aggregate == RlAggregate::kSequenceMean;
}

template <class F>
double SumOf(const RlRow::Run& run, F value) {
  double sum = 0;
  for (int64_t i = 0; i < run.length; ++i) sum += value(static_cast<size_t>(run.token + i));
  return sum;
}

// A token's ratio in a row that is corrected in WideDouble.
WideDouble FarRatio(const RlRowTerms& terms, size_t i) {
  return terms.near ? WideDouble(1 + terms.excess[i]) : WideExp(terms.log_ratio[i]);
}

// Zero before and after the runs.
template <class T>
void ClearPadding(const std::vector<RlRow::Run>& runs, int64_t columns, T* to) {
  if (to == nullptr) return;
  int64_t at = 0;
  for (const RlRow::Run& run : runs) {
    std::fill(to + at, to + run.column, T{0});
    at = run.column + run.length;
  }
  std::fill(to + at, to + columns, T{0});
}

template <class T>
T* Offset(T* to, int64_t by) {
  return to == nullptr ? nullptr : to + by;
}

// All but `weight`, which is a sum from before rejection.
void Take(const RlPhiSums& sums, RlRowResult* out) {
  out->weight_kept = sums.kept;
  out->square = sums.square;
  out->bias_token = sums.bias_token;
  out->bias_sequence = sums.bias_sequence;
}

}  // namespace

RlRowOutput RlRowOutput::Of(const RlBatch& batch, const RlCorrectOutput& output, int64_t row) {
  const int64_t at = batch.packed() ? batch.offsets[static_cast<size_t>(row)] : row * batch.columns;
  RlRowOutput out;
  if (!output.weights.empty()) out.weights = output.weights.data() + at;
  if (!output.weights_double.empty()) out.weights_double = output.weights_double.data() + at;
  if (!output.mask.empty()) out.mask = output.mask.data() + at;
  out.columns = batch.RowLength(row);
  return out;
}

RlCorrector::RlCorrector(const RlCorrection& correction, Target target)
    : correction_(correction), target_(target) {
  by_token_ =
      correction.weight.mode != RlWeightMode::kOff && correction.weight.level == RlLevel::kSegment;
  for (const RlRejectRule& rule : correction.reject) by_token_ |= !IsOfWhole(rule);
}

RlRowResult RlCorrector::Correct(const RlRowTerms& terms, const WideDouble& normalizer,
                                 const RlRowOutput& output) {
  RlRowResult out;
  out.tokens = terms.tokens;
  ClearPadding(terms.runs, output.columns, output.weights);
  ClearPadding(terms.runs, output.columns, output.weights_double);
  ClearPadding(terms.runs, output.columns, output.mask);
  if (IsFar(terms, normalizer)) {
    CorrectFar(terms, normalizer, output, &out);
    return out;
  }
  const double scale = 1 / normalizer.ToDouble();
  if (by_token_ || terms.runs.size() > 1) {
    CorrectTokens(terms, scale, output, &out);
  } else {
    CorrectWhole(terms, scale, output, &out);
  }
  return out;
}

// Whether a weight, a square or a sum of them could leave double's range, or tokens' ratios lose
// their digits beside the 1. Squares of weights and of their quotients by the normaliser are what
// leaves it first; W alone, which the bias is measured by, may be larger, and 0 if it is small.
bool RlCorrector::IsFar(const RlRowTerms& terms, const WideDouble& normalizer) const {
  constexpr double kBoundMax = 1e40, kWeightLogMax = 250, kWholeLogMax = 600;
  const RlWeightRule& rule = correction_.weight;
  const bool weighs = rule.mode != RlWeightMode::kOff;
  if (!terms.near || terms.sums.d > kWholeLogMax) return true;
  const double divisor = normalizer.ToDouble();
  if (!(divisor >= 1 / kBoundMax && divisor <= kBoundMax)) return true;
  if (weighs && rule.mode != RlWeightMode::kFull && rule.high > kBoundMax) return true;
  if (!weighs || terms.sums.abs_d <= kWeightLogMax) return false;
  if (rule.level == RlLevel::kSequence || rule.level == RlLevel::kGeometric) {
    return std::fabs(WholeLogRatio(terms)) > kWeightLogMax;
  }
  return rule.level == RlLevel::kSegment &&
         std::any_of(terms.runs.begin(), terms.runs.end(), [&](const RlRow::Run& run) {
           const double sum = SumOf(run, [&](size_t i) { return terms.log_ratio[i]; });
           return std::fabs(sum) > kWeightLogMax;
         });
}

double RlCorrector::WholeLogRatio(const RlRowTerms& terms) const {
  const auto count = static_cast<double>(std::max<int64_t>(1, terms.tokens));
  return correction_.weight.level == RlLevel::kSequence ? terms.sums.d : terms.sums.d / count;
}

bool RlCorrector::RejectsWhole(const RlRowTerms& terms) const {
  for (const RlRejectRule& rule : correction_.reject) {
    if (!IsOfWhole(rule)) continue;
    double sum = SequenceSum(rule.statistic, terms.sums);
    if (rule.aggregate == RlAggregate::kSequenceMean && terms.tokens > 0) {
      sum /= static_cast<double>(terms.tokens);
    }
    if (!Band(rule).Holds(sum)) return true;
  }
  if (!correction_.veto.has_value() || terms.tokens == 0) return false;
  const RlVeto& veto = *correction_.veto;
  const double high = veto.high > 0 ? LogBound(veto.high) : kInf;
  return terms.sums.min_d < LogBound(veto.low) || terms.sums.max_d > high;
}

// One run, kept or rejected as one: weights in one visit of its exponentials.
void RlCorrector::CorrectWhole(const RlRowTerms& terms, double scale, const RlRowOutput& output,
                               RlRowResult* out) {
  const RlWeightRule& rule = correction_.weight;
  RlPhiInput in;
  in.excess = terms.excess;
  in.count = static_cast<size_t>(terms.tokens);
  in.reject = RejectsWhole(terms);
  in.scale = scale;
  in.sequence_ratio = Exp(terms.sums.d);
  const bool token = rule.mode != RlWeightMode::kOff && rule.level == RlLevel::kToken;
  if (token) {
    const bool below = rule.mode == RlWeightMode::kClip || rule.mode == RlWeightMode::kMask;
    in.low = below ? rule.low : -kInf;
    in.high = rule.mode == RlWeightMode::kFull ? kInf : rule.high;
    in.zero_outside = rule.mode == RlWeightMode::kMask;
    // The row's extremes, with room for the rounding of exponentials.
    // Then the kernel need not compare.
    in.inside = Exp(terms.sums.min_d) * (1 - 1e-12) - 1e-15 >= in.low &&
                Exp(terms.sums.max_d) * (1 + 1e-12) + 1e-15 <= in.high;
  } else {
    const double w = Exp(WholeLogRatio(terms));
    in.low = in.high = WeightOf(rule, w);
    out->sequence_weight = in.high;
    out->outside = terms.tokens > 0 && IsOutside(rule, w);
  }
  const int64_t column = terms.runs.empty() ? 0 : terms.runs[0].column;
  const RlPhiSums sums =
      SumRlPhi(in, Offset(output.weights, column), Offset(output.weights_double, column), target_);
  if (token) out->outside = sums.outside;
  out->weight = sums.weight;
  out->tokens_kept = in.reject ? 0 : terms.tokens;
  Take(sums, out);
  if (output.mask != nullptr) {
    std::fill_n(output.mask + column, terms.tokens, static_cast<uint8_t>(!in.reject));
  }
}

// Everything else, token by token.
void RlCorrector::CorrectTokens(const RlRowTerms& terms, double scale, const RlRowOutput& output,
                                RlRowResult* out) {
  const auto count = static_cast<size_t>(terms.tokens);
  // Room for the kernel's last vector, which reads beyond the last token.
  weight_.assign(count + kRlLanes, 0);
  FillWeights(terms, out);
  RlPhiInput in;
  in.excess = terms.excess;
  in.phi = weight_.data();
  in.count = count;
  in.sequence_ratio = Exp(terms.sums.d);
  out->weight = SumRlPhi(in, nullptr, nullptr, target_).kept;
  FillKeep(terms, out);
  // In place: `in` points at weight_, and the second visit is to see the final weights.
  for (size_t i = 0; i < count; ++i) weight_[i] = keep_[i] != 0 ? weight_[i] * scale : 0;
  Take(SumRlPhi(in, nullptr, nullptr, target_), out);
  WriteTokens(terms, output);
}

// The same in WideDouble.
void RlCorrector::CorrectFar(const RlRowTerms& terms, const WideDouble& normalizer,
                             const RlRowOutput& output, RlRowResult* out) {
  const auto count = static_cast<size_t>(terms.tokens);
  far_weight_.resize(count);
  weight_.resize(count);
  FillFarWeights(terms, out);
  FillKeep(terms, out);
  const WideDouble whole = WideExp(terms.sums.d);
  for (size_t i = 0; i < count; ++i) {
    out->weight += far_weight_[i];
    const WideDouble phi = keep_[i] != 0 ? far_weight_[i] / normalizer : WideDouble();
    weight_[i] = phi.ToDouble();
    out->weight_kept += phi;
    out->square += phi * phi;
    out->bias_token += Abs(FarRatio(terms, i) - phi);
    out->bias_sequence += Abs(whole - phi);
  }
  WriteTokens(terms, output);
}

void RlCorrector::FillFarWeights(const RlRowTerms& terms, RlRowResult* out) {
  const RlWeightRule& rule = correction_.weight;
  const auto count = static_cast<size_t>(terms.tokens);
  if (rule.mode != RlWeightMode::kOff && rule.level == RlLevel::kToken) {
    for (size_t i = 0; i < count; ++i) {
      const WideDouble w = FarRatio(terms, i);
      out->outside += IsOutside(rule, w);
      far_weight_[i] = WeightOf(rule, w);
    }
    return;
  }
  if (rule.mode != RlWeightMode::kOff && rule.level == RlLevel::kSegment) {
    for (const RlRow::Run& run : terms.runs) {
      const WideDouble w = WideExp(SumOf(run, [&](size_t i) { return terms.log_ratio[i]; }));
      out->outside += IsOutside(rule, w);
      std::fill_n(far_weight_.begin() + run.token, run.length, WeightOf(rule, w));
    }
    return;
  }
  const WideDouble w = WideExp(WholeLogRatio(terms));
  if (count > 0) out->outside += IsOutside(rule, w);
  out->sequence_weight = WeightOf(rule, w);
  std::fill(far_weight_.begin(), far_weight_.end(), out->sequence_weight);
}

// Which tokens no rule rejects.
void RlCorrector::FillKeep(const RlRowTerms& terms, RlRowResult* out) {
  keep_.assign(static_cast<size_t>(terms.tokens), static_cast<uint8_t>(!RejectsWhole(terms)));
  for (const RlRejectRule& rule : correction_.reject) {
    if (!IsOfWhole(rule)) Reject(rule, terms);
  }
  for (const uint8_t keep : keep_) out->tokens_kept += keep;
}

void RlCorrector::WriteTokens(const RlRowTerms& terms, const RlRowOutput& output) const {
  for (const RlRow::Run& run : terms.runs) {
    const double* from = weight_.data() + run.token;
    for (int64_t i = 0; i < run.length && output.weights != nullptr; ++i) {
      output.weights[run.column + i] = static_cast<float>(from[i]);
    }
    if (output.weights_double != nullptr) {
      std::copy_n(from, run.length, output.weights_double + run.column);
    }
    if (output.mask != nullptr) {
      std::copy_n(keep_.data() + run.token, run.length, output.mask + run.column);
    }
  }
}

void RlCorrector::FillWeights(const RlRowTerms& terms, RlRowResult* out) {
  const RlWeightRule& rule = correction_.weight;
  const auto count = static_cast<size_t>(terms.tokens);
  if (rule.mode != RlWeightMode::kOff && rule.level == RlLevel::kToken) {
    for (size_t i = 0; i < count; ++i) {
      const double w = 1 + terms.excess[i];
      out->outside += IsOutside(rule, w);
      weight_[i] = WeightOf(rule, w);
    }
    return;
  }
  if (rule.mode != RlWeightMode::kOff && rule.level == RlLevel::kSegment) {
    for (const RlRow::Run& run : terms.runs) {
      const double w = Exp(SumOf(run, [&](size_t i) { return terms.log_ratio[i]; }));
      out->outside += IsOutside(rule, w);
      std::fill_n(weight_.begin() + run.token, run.length, WeightOf(rule, w));
    }
    return;
  }
  const double w = Exp(WholeLogRatio(terms));
  const double weight = WeightOf(rule, w);
  if (count > 0) out->outside += IsOutside(rule, w);
  out->sequence_weight = weight;
  std::fill_n(weight_.begin(), terms.tokens, weight);
}

void RlCorrector::Reject(const RlRejectRule& rule, const RlRowTerms& terms) {
  const Band band(rule);
  const auto value = [&](size_t i) { return Statistic(rule.statistic, terms.log_ratio[i]); };
  if (rule.aggregate == RlAggregate::kTokenwise) {
    for (size_t i = 0; i < keep_.size(); ++i) {
      keep_[i] &= static_cast<uint8_t>(band.Holds(value(i)));
    }
  } else if (rule.aggregate == RlAggregate::kSegmentSum) {
    for (const RlRow::Run& run : terms.runs) {
      if (!band.Holds(SumOf(run, value))) {
        std::fill_n(keep_.begin() + run.token, run.length, uint8_t{0});
      }
    }
  } else {
    bool all = true;
    for (size_t i = 0; i < keep_.size(); ++i) all &= band.Holds(value(i));
    if (!all) std::fill(keep_.begin(), keep_.end(), uint8_t{0});
  }
}

}  // namespace kcc
