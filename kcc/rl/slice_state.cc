#include "kcc/rl/slice_state.h"

#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"

namespace kcc {

void RlSum::Add(double value) {
  if (std::isfinite(value)) {
    sum_.Add(value);
  } else {
    ++infinite_;
  }
}

void RlSum::Merge(const RlSum& other) {
  sum_.Merge(other.sum_);
  infinite_ += other.infinite_;
}

double RlSum::Value() const {
  return infinite_ > 0 ? std::numeric_limits<double>::infinity() : sum_.Round();
}

void RlSum::Visit(Archive& archive) {
  archive.Sum(sum_);
  archive.U64(infinite_);
}

void RlLevelState::AddRow(const RlRowSums& sums, int64_t tokens) {
  if (tokens == 0) return;
  units += static_cast<uint64_t>(tokens);
  d.Add(sums.d);
  abs_d.Add(sums.abs_d);
  square_d.Add(sums.square_d);
  e.Add(sums.e);
  abs_e.Add(sums.abs_e);
  square_e.Add(sums.square_e);
  k3.Add(sums.k3);
  k3_reverse.Add(sums.k3_reverse);
  below.Add(sums.below);
  min_d = std::min(min_d, sums.min_d);
  max_d = std::max(max_d, sums.max_d);
}

void RlLevelState::AddUnit(double log_ratio) {
  RlRowSums unit;
  unit.d = unit.min_d = unit.max_d = log_ratio;
  unit.abs_d = std::fabs(log_ratio);
  unit.square_d = log_ratio * log_ratio;
  unit.e = Expm1(log_ratio);
  unit.abs_e = std::fabs(unit.e);
  unit.square_e = unit.e * unit.e;
  unit.k3 = ExpResidual(log_ratio);
  unit.k3_reverse = log_ratio * unit.e - unit.k3;
  if (std::isinf(unit.e)) unit.k3_reverse = unit.e;
  unit.below = std::max(0.0, -unit.e);
  AddRow(unit, 1);
}

void RlLevelState::Merge(const RlLevelState& other) {
  units += other.units;
  d.Merge(other.d);
  abs_d.Merge(other.abs_d);
  square_d.Merge(other.square_d);
  e.Merge(other.e);
  abs_e.Merge(other.abs_e);
  square_e.Merge(other.square_e);
  k3.Merge(other.k3);
  k3_reverse.Merge(other.k3_reverse);
  below.Merge(other.below);
  min_d = std::min(min_d, other.min_d);
  max_d = std::max(max_d, other.max_d);
}

void RlLevelState::Visit(Archive& archive) {
  archive.U64(units);
  for (RlSum* sum : {&d, &abs_d, &square_d, &e, &abs_e, &square_e, &k3, &k3_reverse, &below}) {
    sum->Visit(archive);
  }
  archive.Double(min_d);
  archive.Double(max_d);
}

RlLevelFigures RlLevelState::Figures() const {
  RlLevelFigures out;
  out.units = static_cast<int64_t>(units);
  const auto n = static_cast<double>(units);  // 0: every mean is 0/0, NaN
  const double mean_e = e.Value() / n;
  const double mean_square = square_e.Value() / n;
  out.k1 = 0 - d.Value() / n;
  out.k2 = square_d.Value() / 2 / n;
  out.k3 = k3.Value() / n;
  out.k3_reverse = k3_reverse.Value() / n;
  out.tv = below.Value() / n;
  out.tv_abs = abs_e.Value() / 2 / n;
  out.mean_abs_log_ratio = abs_d.Value() / n;
  out.mean_w = 1 + mean_e;
  // Moments about 1, not about 0: w is near 1, and E w^2 - (E w)^2 would lose what is looked for.
  out.chi2 = mean_square;
  out.sd_w = std::isinf(mean_square) ? mean_square
                                     : std::sqrt(std::max(0.0, mean_square - mean_e * mean_e));
  out.ess = std::isinf(mean_square) ? 0 : out.mean_w * out.mean_w / (1 + 2 * mean_e + mean_square);
  if (units == 0) {
    out.sd_w = out.ess = out.log_ratio_min = out.log_ratio_max =
        std::numeric_limits<double>::quiet_NaN();
  } else {
    out.log_ratio_min = min_d;
    out.log_ratio_max = max_d;
  }
  return out;
}

void RlSkewState::Merge(const RlSkewState& other) {
  tokens += other.tokens;
  tokens_positive += other.tokens_positive;
  tokens_negative += other.tokens_negative;
  positive.Merge(other.positive);
  negative.Merge(other.negative);
  abs_advantage.Merge(other.abs_advantage);
  bound.Merge(other.bound);
}

void RlSkewState::Visit(Archive& archive) {
  for (uint64_t* count : {&tokens, &tokens_positive, &tokens_negative}) archive.U64(*count);
  for (RlSum* sum : {&positive, &negative, &abs_advantage, &bound}) sum->Visit(archive);
}

void RlSliceState::AddBuckets(const std::vector<uint32_t>& counts) {
  if (counts.empty()) return;
  buckets.resize(kRlBuckets);
  for (size_t i = 0; i < counts.size(); ++i) buckets[i] += counts[i];
}

void RlSliceState::Merge(const RlSliceState& other) {
  rows += other.rows;
  empty_rows += other.empty_rows;
  zero_ratio += other.zero_ratio;
  infinite_ratio += other.infinite_ratio;
  bit_equal += other.bit_equal;
  for (size_t l = 0; l < level.size(); ++l) level[l].Merge(other.level[l]);
  train.Merge(other.train);
  rollout.Merge(other.rollout);
  tv_row_count += other.tv_row_count;
  tv_rows.Merge(other.tv_rows);
  tv_rows_square.Merge(other.tv_rows_square);
  skew.Merge(other.skew);
  mismatch.Merge(other.mismatch);
  staleness.Merge(other.staleness);
  if (!other.buckets.empty()) {
    buckets.resize(kRlBuckets);
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  }
}

void RlSliceState::Visit(Archive& archive) {
  for (uint64_t* count :
       {&rows, &empty_rows, &zero_ratio, &infinite_ratio, &bit_equal, &tv_row_count}) {
    archive.U64(*count);
  }
  for (RlLevelState& state : level) state.Visit(archive);
  for (RlSum* sum : {&train, &rollout, &tv_rows, &tv_rows_square}) sum->Visit(archive);
  skew.Visit(archive);
  mismatch.Visit(archive);
  staleness.Visit(archive);
  std::vector<std::pair<uint32_t, uint64_t>> used;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] > 0) used.emplace_back(static_cast<uint32_t>(i), buckets[i]);
  }
  archive.Each(
      used,
      [](Archive& a, std::pair<uint32_t, uint64_t>& entry) {
        a.U32(entry.first);
        a.U64(entry.second);
      },
      2);
  if (!archive.reading()) return;
  if (!used.empty()) buckets.resize(kRlBuckets);
  for (size_t i = 0; i < used.size(); ++i) {
    const auto& [bucket, count] = used[i];
    if (bucket >= kRlBuckets || count == 0 || (i > 0 && bucket <= used[i - 1].first)) {
      archive.Fail("buckets of log-ratios that are not in order");
      return;
    }
    buckets[bucket] = count;
  }
}

}  // namespace kcc
