#include "kcc/rl/level_state.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

constexpr double kNearMax = 1;  // |d| of a near unit

void VisitWide(Archive& archive, WideSum& sum) {
  int64_t block = sum.block();
  ExactSum top = sum.top(), below = sum.below();
  archive.I64(block);
  archive.Sum(top);
  archive.Sum(below);
  if (archive.reading() && archive.ok() && !sum.Restore(block, top, below)) {
    archive.Fail("a sum of ratios that no ratios have");
  }
}

// In (0, 1] by Cauchy and Schwarz; roundings may carry it a few units of the last place over 1.
double Ess(const WideDouble& sum, const WideDouble& square, double n) {
  const double ess = (sum * sum / (WideDouble(n) * square)).ToDouble();
  return ess > 1 && ess < 1 + 1e-12 ? 1 : ess;
}

}  // namespace

void RlSum::Add(double value) {
  if (std::isfinite(value)) {
    sum_.Add(value);
  } else if (value < 0) {
    ++negative_infinite_;
  } else {
    ++infinite_;
  }
}

void RlSum::AddSquare(double value) {
  // A product's lowest bit must lie within the sum; smaller squares are as good as nothing.
  constexpr double kLeast = 0x1p-400;
  if (std::fabs(value) >= kLeast) {
    sum_.AddProduct(value, value);
  } else {
    sum_.Add(value * value);
  }
}

void RlSum::Merge(const RlSum& other) {
  sum_.Merge(other.sum_);
  infinite_ += other.infinite_;
  negative_infinite_ += other.negative_infinite_;
}

double RlSum::Infinite() const {
  if (infinite_ > 0 && negative_infinite_ > 0) return kNaN;
  return infinite_ > 0 ? kInf : -kInf;
}

double RlSum::Value() const { return IsFinite() ? sum_.Round() : Infinite(); }

double RlSum::Mean(uint64_t count) const {
  const auto n = static_cast<double>(count);
  const double value = Value();  // of nothing: 0/0
  // The sum may be beyond double's range where the mean is not.
  return IsFinite() && std::isinf(value) ? (WideRound(sum_) / n).ToDouble() : value / n;
}

void RlSum::Visit(Archive& archive, int version) {
  archive.Sum(sum_);
  archive.U64(infinite_);
  if (version > 1) archive.U64(negative_infinite_);
}

void RlLevelState::AddRow(const RlRowSums& sums, int64_t tokens) {
  if (tokens == 0) return;
  units += static_cast<uint64_t>(tokens);
  d.Add(sums.d);
  abs_d.Add(sums.abs_d);
  square_d.Add(sums.square_d);
  e.Add(sums.e);
  square_e.Add(sums.square_e);
  k3.Add(sums.k3);
  k3_reverse.Add(sums.k3_reverse);
  below.Add(sums.below);
  min_d = std::min(min_d, sums.min_d);
  max_d = std::max(max_d, sums.max_d);
}

RlUnit::RlUnit(double log_ratio) : d(log_ratio), far(std::fabs(log_ratio) > kNearMax) {
  if (!far) {
    e = Expm1(d);
    const double residual = ExpResidual(d);
    k3 = residual;
    k3_reverse = d * e - residual;
    below = std::max(0.0, -e);
    return;
  }
  w = ExpScaled(d);
  k3 = -1 - d;
  k3_reverse = 1;
  if (d > 0) return;
  const double ratio = WideDouble(w.mantissa, w.exponent).ToDouble();
  k3_reverse = 1 + ratio * (d - 1);
  below = 1 - ratio;
}

void RlLevelState::AddUnit(const RlUnit& unit) {
  ++units;
  d.Add(unit.d);
  abs_d.Add(std::fabs(unit.d));
  square_d.Add(unit.d * unit.d);
  min_d = std::min(min_d, unit.d);
  max_d = std::max(max_d, unit.d);
  k3.Add(unit.k3);
  k3_reverse.Add(unit.k3_reverse);
  below.Add(unit.below);
  if (!unit.far) {
    e.Add(unit.e);
    square_e.AddSquare(unit.e);
    return;
  }
  ++far;
  w.Add(unit.w.mantissa, unit.w.exponent);
  w_square.AddSquare(unit.w.mantissa, unit.w.exponent);
  if (unit.d > 0) w_excess.Add(unit.w.mantissa * (unit.d - 1), unit.w.exponent);
}

void RlLevelState::Merge(const RlLevelState& other) {
  units += other.units;
  far += other.far;
  unsplit += other.unsplit;
  d.Merge(other.d);
  abs_d.Merge(other.abs_d);
  square_d.Merge(other.square_d);
  below.Merge(other.below);
  e.Merge(other.e);
  square_e.Merge(other.square_e);
  k3.Merge(other.k3);
  k3_reverse.Merge(other.k3_reverse);
  w.Merge(other.w);
  w_square.Merge(other.w_square);
  w_excess.Merge(other.w_excess);
  min_d = std::min(min_d, other.min_d);
  max_d = std::max(max_d, other.max_d);
}

void RlLevelState::Visit(Archive& archive, int version) {
  archive.U64(units);
  RlSum abs_e;  // of version 1; e + 2 below says the same
  for (RlSum* sum : {&d, &abs_d, &square_d, &e}) sum->Visit(archive, version);
  if (version == 1) abs_e.Visit(archive, version);
  for (RlSum* sum : {&square_e, &k3, &k3_reverse, &below}) sum->Visit(archive, version);
  archive.Double(min_d);
  archive.Double(max_d);
  if (version == 1) {
    if (units > 0 && !(min_d >= -kNearMax && max_d <= kRlNearRowMax)) unsplit = units;
    return;
  }
  archive.U64(far);
  archive.U64(unsplit);
  for (WideSum* sum : {&w, &w_square, &w_excess}) VisitWide(archive, *sum);
  if (!archive.reading() || !archive.ok()) return;
  if (far > units || unsplit > units || (far > 0) == w.empty() || w.empty() != w_square.empty()) {
    archive.Fail("a count of far ratios that their sums contradict");
  }
  if (unsplit == 0 && Overflowed()) archive.Fail("a sum that overflowed where none does");
}

RlLevelMetrics RlLevelState::Metrics() const {
  RlLevelMetrics out;
  out.units = static_cast<int64_t>(units);
  out.k1 = 0 - d.Mean(units);
  out.k2 = square_d.Mean(units) / 2;
  out.tv = below.Mean(units);
  out.mean_abs_log_ratio = abs_d.Mean(units);
  if (far == 0) {
    FillNear(&out);
  } else {
    FillFar(&out);
  }
  if (units == 0) {
    out.sd_w = out.ess = out.log_ratio_min = out.log_ratio_max = kNaN;
    return out;
  }
  out.log_ratio_min = min_d;
  out.log_ratio_max = max_d;
  if (unsplit > 0) LeaveOutTheLost(&out);
  return out;
}

bool RlLevelState::Overflowed() const {
  for (const RlSum* sum : {&d, &abs_d, &square_d, &below, &e, &square_e, &k3, &k3_reverse}) {
    if (!sum->IsFinite()) return true;
  }
  return false;
}

// What version 1 summed about 1 is lost where it overflowed, and where little was left of w beside
// the 1: there metrics of w would be noise.
void RlLevelState::LeaveOutTheLost(RlLevelMetrics* out) const {
  const bool overflowed = Overflowed();
  if (overflowed) out->k3 = out->k3_reverse = out->tv_abs = out->chi2 = kNaN;
  if (overflowed || !(out->mean_w >= 1e-3)) out->mean_w = out->sd_w = out->ess = kNaN;
}

void RlLevelState::FillNear(RlLevelMetrics* out) const {
  const auto n = static_cast<double>(units);
  const double mean_e = e.Mean(units);
  out->k3 = k3.Mean(units);
  out->k3_reverse = k3_reverse.Mean(units);
  out->tv_abs = (e.Value() + 2 * below.Value()) / 2 / n;
  out->mean_w = 1 + mean_e;
  out->chi2 = square_e.Mean(units);
  // Moments about 1, not about 0: w is near 1, and E w^2 - (E w)^2 would lose what is looked for.
  WideTotal sum(0), square(0);
  sum.Add(e.sum());
  square.Add(square_e.sum());
  out->sd_w = (Sqrt(SpreadOf(units, sum, square)) / n).ToDouble();
  out->ess = Ess(out->mean_w, 1 + 2 * mean_e + out->chi2, 1);
}

void RlLevelState::FillFar(RlLevelMetrics* out) const {
  const auto n = static_cast<double>(units), far_count = static_cast<double>(far);
  const auto near_count = static_cast<double>(units - far);
  const int64_t lead = w.LeadingExponent();
  const auto total = [&](int64_t unit, std::initializer_list<const ExactSum*> sums) {
    WideTotal out_of(unit);
    for (const ExactSum* sum : sums) out_of.Add(*sum);
    return out_of;
  };
  const auto mean = [&](const WideTotal& sum) { return (sum.Value() / n).ToDouble(); };

  WideTotal k3_sum = total(std::max<int64_t>(0, lead), {&k3.sum()});
  k3_sum.Add(w);
  out->k3 = mean(k3_sum);
  WideTotal reverse = total(std::max<int64_t>(0, w_excess.LeadingExponent()), {&k3_reverse.sum()});
  reverse.Add(w_excess);
  out->k3_reverse = mean(reverse);
  // |w - 1| = (w - 1) + 2 (1 - w)+
  WideTotal size = total(std::max<int64_t>(0, lead), {&e.sum(), &below.sum(), &below.sum()});
  size.Add(w);
  size.Add(-far_count);
  out->tv_abs = (size.Value() / (2 * n)).ToDouble();
  // (w - 1)^2 = w^2 - 2 w + 1
  WideTotal chi2 = total(std::max<int64_t>(0, 2 * lead), {&square_e.sum()});
  chi2.Add(w_square);
  chi2.Add(w, -2);
  chi2.Add(far_count);
  out->chi2 = mean(chi2);

  // Moments about 0: w of the near is 1 + e, its square 1 + 2 e + e^2.
  const int64_t unit = near_count > 0 ? std::max<int64_t>(0, lead) : lead;
  WideTotal sum = total(unit, {&e.sum()});
  sum.Add(near_count);
  sum.Add(w);
  WideTotal square = total(2 * unit, {&e.sum(), &e.sum(), &square_e.sum()});
  square.Add(near_count);
  square.Add(w_square);
  out->mean_w = mean(sum);
  out->sd_w = (Sqrt(SpreadOf(units, sum, square)) / n).ToDouble();
  out->ess = Ess(sum.Value(), square.Value(), n);
}

}  // namespace kcc
