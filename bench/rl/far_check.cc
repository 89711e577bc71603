// The definitions, in long double with an exponent beside it, and the comparison.
//
// Tolerances are what the arithmetic may lose. log W is a sum of T doubles in lanes, each addition
// off by half a unit of the partial sum's last place: at most T 2^-53 sum |d|, by which W is off
// relatively. Sums of tokens' w - 1 lose T 2^-53 of them, of d (w - 1) - k3 so much of the former.
// Everything else is a few roundings.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <random>
#include <sstream>

#include "bench/rl/far_case.h"
#include "bench/rl/far_real.h"

namespace kcc::bench {
namespace {

struct Unit {
  long double d = 0;
  long double slack = 0;  // of d
};

// The figures of one level's units.
struct Level {
  Real k3, k3_reverse, product, tv_abs, chi2, mean, square, variance, ess;
  long double tv = 0, slack = 0;

  explicit Level(const std::vector<Unit>& units) {
    const Real n(static_cast<long double>(units.size()));
    for (const Unit& u : units) {
      const Real w = ExpOf(u.d), residual = ResidualOf(u.d), excess = residual + Real(u.d);
      k3 += residual;
      k3_reverse += Real(u.d) * excess - residual;
      product += Real(u.d) * excess;
      tv_abs += excess.Size();
      chi2 += excess * excess;
      mean += w;
      square += w * w;
      tv += u.d < 0 ? -expm1l(u.d) : 0;
      slack = std::max(slack, u.slack);
    }
    for (Real* sum : {&k3, &k3_reverse, &product, &tv_abs, &chi2, &mean, &square}) *sum = *sum / n;
    tv_abs = tv_abs / Real(2);
    tv /= static_cast<long double>(units.size());
    // About 1 plus the mean excess: w near 1 would cancel.
    Real mean_excess;
    for (const Unit& u : units) mean_excess += (ResidualOf(u.d) + Real(u.d)) / n;
    for (const Unit& u : units) {
      const Real gap = ResidualOf(u.d) + Real(u.d) - mean_excess;
      variance += gap * gap / n;
    }
    ess = mean * mean / square;
  }
};

class Checker {
 public:
  std::string Faults() const { return faults_.str(); }

  void Fail(const std::string& what) { faults_ << what << "\n"; }

  // |got - want| <= slack, where both may be beyond double's range.
  void Near(const std::string& what, double got, const Real& want, const Real& slack) {
    const double low = (want - slack).Double(), high = (want + slack).Double();
    const double least = 5e-324;  // roundings of subnormals
    if (got >= low - least && got <= high + least) return;
    faults_ << std::setprecision(17) << what << " is " << got << ", not " << want.Double() << " +- "
            << slack.Double() << "\n";
  }

  void Check(const std::string& name, const RlLevelMetrics& got, const std::vector<Unit>& units,
             long double rounding) {
    if (got.units != static_cast<int64_t>(units.size())) return Fail(name + ".units");
    if (units.empty()) return;
    const Level want(units);
    if (!(got.ess > 0 && got.ess <= 1)) Fail(name + ".ess is outside (0, 1]");
    const Real slack(want.slack + rounding);
    const auto relative = [&](const char* figure, double value, const Real& exact,
                              const Real& more) {
      Near(name + "." + figure, value, exact, slack * exact.Size() * Real(4) + more);
    };
    // d (w - 1), d^2 and d move by the slack of d too.
    const Real moved = Real(want.slack) * (Real(1) + want.mean);
    relative("mean_w", got.mean_w, want.mean, Real());
    relative("ess", got.ess, want.ess, Real());
    relative("k3", got.k3, want.k3, moved);
    relative("tv_abs", got.tv_abs, want.tv_abs, moved);
    relative(
        "k3_reverse", got.k3_reverse, want.k3_reverse,
        Real(want.slack) * Reach(units) * (Real(1) + want.mean) + Real(rounding) * want.product);
    relative("chi2", got.chi2, want.chi2, Real(4 * want.slack) * (Real(1) + want.square));
    Near(name + ".sd_w^2", 0, Real(got.sd_w) * Real(got.sd_w) - want.variance,
         std::isinf(got.sd_w)
             ? Real(1, 1 << 30)
             : Real(6) * Real(rounding) * want.chi2 + Real(8) * slack * want.variance +
                   Real(4 * want.slack) * want.square + Real(1e-28L) * want.square +
                   Real(1, -2100));
    if (std::isinf(got.sd_w)) Near(name + ".sd_w", got.sd_w, Root(want.variance), Real());
  }

 private:
  static Real Root(const Real& x) {
    const int64_t odd = x.e & 1;
    return {sqrtl(odd != 0 ? 2 * x.m : x.m), (x.e - odd) / 2};
  }
  static Real Reach(const std::vector<Unit>& units) {
    long double reach = 1;
    for (const Unit& u : units) reach = std::max(reach, fabsl(u.d));
    return reach;
  }

  std::ostringstream faults_;
};

// A row's counted tokens.
struct Row {
  std::vector<double> d;
  std::vector<size_t> place;                        // of each in the case's arrays
  std::vector<std::pair<size_t, size_t>> segments;  // [begin, end) of d
  long double sum = 0, slack = 0;

  Row(const FarCase& of, size_t row) {
    bool open = false;
    for (auto i = static_cast<size_t>(of.offsets[row]);
         i < static_cast<size_t>(of.offsets[row + 1]); ++i) {
      const bool counts = of.mask.empty() || of.mask[i] != 0;
      if (counts) {
        if (!open) segments.emplace_back(d.size(), d.size());
        place.push_back(i);
        d.push_back(of.train_float.empty()
                        ? of.train[i] - of.rollout[i]
                        : static_cast<double>(of.train_float[i]) - of.rollout_float[i]);
        segments.back().second = d.size();
      }
      open = counts;
    }
    sum = Sum(0, d.size());
    slack = Slack(0, d.size());
  }
  long double Sum(size_t begin, size_t end) const {
    long double out = 0;
    for (size_t i = begin; i < end; ++i) out += d[i];
    return out;
  }
  long double Slack(size_t begin, size_t end) const {
    long double size = 0;
    for (size_t i = begin; i < end; ++i) size += fabsl(d[i]);
    return size * static_cast<long double>(end - begin) * 0x1p-53L;
  }
};

void CheckFigures(const std::vector<Row>& rows, const FarCase& of, const RlMetrics& got,
                  Checker* checker) {
  std::vector<Unit> token, sequence, geometric, segment;
  long double longest = 1;
  Real skew[2], bound;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (row.d.empty()) continue;
    const auto count = static_cast<long double>(row.d.size());
    longest = std::max(longest, count);
    for (const double d : row.d) {
      token.push_back({d, 0});
      if (of.advantages.empty()) continue;
      const Real part = -(ResidualOf(d) + Real(d)) * Real(of.advantages[r]);
      skew[of.advantages[r] > 0 ? 0 : 1] += part;
      bound += part.Size();
    }
    sequence.push_back({row.sum, row.slack});
    geometric.push_back({row.sum / count, row.slack / count});
    for (const auto& [begin, end] : row.segments) {
      segment.push_back({row.Sum(begin, end), row.Slack(begin, end)});
    }
  }
  // Near rows have a mean w of 0.1 at least, beside which sums of w - 1 are rounded.
  checker->Check("token", got.at(RlLevel::kToken), token, 1e-14L + 20 * longest * 0x1p-53L);
  checker->Check("sequence", got.at(RlLevel::kSequence), sequence, 1e-14L);
  checker->Check("geometric", got.at(RlLevel::kGeometric), geometric, 1e-14L);
  checker->Check("segment", got.at(RlLevel::kSegment), segment, 1e-14L);
  if (of.advantages.empty() || token.empty()) return;
  const Real n(static_cast<long double>(token.size()));
  const Real slack = bound / n * Real(1e-14L + 4 * longest * 0x1p-53L);
  checker->Near("skew.positive", got.skew.positive, skew[0] / n, slack);
  checker->Near("skew.negative", got.skew.negative, skew[1] / n, slack);
  checker->Near("skew.bias_bound", got.skew.bias_bound, bound / n, slack);
}

Real WeightOf(const RlWeightRule& rule, const Real& w) {
  const Real low(rule.low), high(rule.high);
  const Real below = high < w ? high : w;
  switch (rule.mode) {
    case RlWeightMode::kOff:
      return Real(1);
    case RlWeightMode::kFull:
      return w;
    case RlWeightMode::kTruncate:
      return below;
    case RlWeightMode::kClip:
      return below < low ? low : below;
    case RlWeightMode::kMask:
      return w < low || high < w ? Real() : w;
  }
  return Real(1);
}

// What a correction makes of the case, or nothing where a ratio lies so near to a bound that
// roundings decide.
class Corrected {
 public:
  Corrected(const std::vector<Row>& rows, const RlCorrection& correction)
      : rows_(rows), correction_(correction) {
    for (const Row& row : rows) AddRow(row);
    Normalise();
  }
  bool decided() const { return decided_; }

  void Check(const RlCorrectionMetrics& got, const std::vector<double>& weights,
             Checker* checker) const {
    Real sum, square, bias_token, bias_sequence, before;
    long double n = 0, kept = 0, longest = 1;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Real whole = ExpOf(rows_[r].sum);
      longest = std::max(longest, static_cast<long double>(rows_[r].d.size()));
      for (size_t i = 0; i < rows_[r].d.size(); ++i) {
        const Real phi = keep_[r] ? phi_[r][i] / normalizer_ : Real();
        n += 1;
        kept += keep_[r];
        before += phi_[r][i];
        sum += phi;
        square += phi * phi;
        bias_token += (ExpOf(rows_[r].d[i]) - phi).Size();
        bias_sequence += (whole - phi).Size();
        size_token_ += ExpOf(rows_[r].d[i]) + phi;
        size_sequence_ += whole + phi;
        checker->Near("a weight", weights[rows_[r].place[i]], phi,
                      phi * Real(4) * Real(slack_ + 1e-13L) + Real(1e-15L) / normalizer_);
      }
    }
    if (n == 0) return;
    const Real slack(4 * slack_ + 1e-13L + 20 * longest * 0x1p-53L);
    const auto near = [&](const char* what, double value, const Real& exact, const Real& size) {
      checker->Near(what, value, exact, slack * size);
    };
    near("mean_weight", got.mean_weight, before / Real(n), before / Real(n));
    near("normalizer", got.normalizer, normalizer_, normalizer_);
    near("variance", got.variance, square / Real(n), square / Real(n));
    near("bias_token", got.bias_token, bias_token / Real(n), size_token_ / Real(n));
    near("bias_sequence", got.bias_sequence, bias_sequence / Real(n), size_sequence_ / Real(n));
    if (got.tokens_kept != static_cast<int64_t>(kept)) checker->Fail("tokens_kept");
    if (kept > 0) {
      near("mean_weight_kept", got.mean_weight_kept, sum / Real(kept), sum / Real(kept));
    }
    if (square.m == 0) {
      if (got.ess != 0) checker->Fail("an ess of no weight");
      return;
    }
    const Real ess = sum * sum / (Real(n) * square);
    near("correction.ess", got.ess, ess, ess);
    if (!(got.ess > 0 && got.ess <= 1)) checker->Fail("correction.ess is outside (0, 1]");
  }

 private:
  void AddRow(const Row& row) {
    const RlWeightRule& rule = correction_.weight;
    const auto count = static_cast<long double>(std::max<size_t>(1, row.d.size()));
    std::vector<Real> phi(row.d.size(), Real(1));
    const auto fill = [&](size_t begin, size_t end, long double log_ratio, long double slack) {
      Decide(log_ratio, slack, rule.mode == RlWeightMode::kTruncate ? rule.high : rule.low,
             rule.high, rule.mode == RlWeightMode::kOff || rule.mode == RlWeightMode::kFull);
      slack_ = std::max(slack_, slack);
      const Real weight = WeightOf(rule, ExpOf(log_ratio));
      std::fill(phi.begin() + static_cast<int64_t>(begin), phi.begin() + static_cast<int64_t>(end),
                weight);
      return weight;
    };
    Real whole(1);
    if (rule.mode != RlWeightMode::kOff) {
      if (rule.level == RlLevel::kToken) {
        for (size_t i = 0; i < row.d.size(); ++i) fill(i, i + 1, row.d[i], 1e-15L);
      } else if (rule.level == RlLevel::kSegment) {
        for (const auto& [begin, end] : row.segments) {
          fill(begin, end, row.Sum(begin, end), row.Slack(begin, end));
        }
      } else {
        const long double by = rule.level == RlLevel::kGeometric ? count : 1;
        whole = fill(0, row.d.size(), row.sum / by, row.slack / by);
      }
    }
    slack_ = std::max(slack_, row.slack);  // of W in bias_sequence
    bool keep = true;
    for (const RlRejectRule& reject : correction_.reject) {
      const long double mean = row.sum / count;
      Decide(mean, row.slack / count, reject.low, reject.high, false);
      keep &= mean >= logl(reject.low) && mean <= logl(reject.high);
    }
    const bool by_row = rule.level == RlLevel::kSequence || rule.level == RlLevel::kGeometric;
    if (!row.d.empty()) {
      for (const Real& x : phi) by_token_ += x;
      tokens_ += static_cast<long double>(row.d.size());
      by_row_ += whole;
      units_ += 1;
    }
    mean_of_rows_ = by_row;
    phi_.push_back(std::move(phi));
    keep_.push_back(keep);
  }

  void Decide(long double log_ratio, long double slack, double low, double high, bool no_bounds) {
    if (no_bounds) return;
    for (const double bound : {low, high}) {
      decided_ &= fabsl(log_ratio - logl(bound)) > 2 * slack + 1e-12L;
    }
  }

  void Normalise() {
    if (!correction_.weight.batch_normalize || tokens_ == 0) return;
    const Real mean = mean_of_rows_ ? by_row_ / Real(units_) : by_token_ / Real(tokens_);
    decided_ &= (mean / Real(1e-8L) - Real(1)).Double() > 1e-6 ||
                (mean / Real(1e-8L) - Real(1)).Double() < -1e-6;
    if (Real(1e-8L) < mean) normalizer_ = mean;
  }

  const std::vector<Row>& rows_;
  const RlCorrection& correction_;
  std::vector<std::vector<Real>> phi_;
  std::vector<bool> keep_;
  Real normalizer_ = Real(1), by_token_, by_row_;
  mutable Real size_token_, size_sequence_;
  long double tokens_ = 0, units_ = 0, slack_ = 0;
  bool decided_ = true, mean_of_rows_ = false;
};

void CheckShards(const FarCase& of, uint64_t seed, Checker* checker) {
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15);
  std::vector<int64_t> offsets;
  RlSummary whole;
  const RlBatch batch = of.View(0, of.rows(), &offsets);
  const int threads = 1 + static_cast<int>(random() % 16 == 0 ? random() % 4 : 0);
  if (!whole.Add(batch, threads).has_value()) return checker->Fail("the batch was refused");
  std::vector<RlSummary> parts;
  for (int64_t at = 0; at < of.rows();) {
    const int64_t end = std::min<int64_t>(of.rows(), at + 1 + static_cast<int64_t>(random() % 7));
    RlSummary part;
    if (!part.Add(of.View(at, end, &offsets)).has_value()) checker->Fail("a shard was refused");
    parts.push_back(std::move(part));
    at = end;
  }
  std::shuffle(parts.begin(), parts.end(), random);
  RlSummary merged;
  for (const RlSummary& part : parts) merged.Merge(part);
  const std::string bytes = whole.Serialize();
  if (merged.Serialize() != bytes) checker->Fail("shards merge to other bytes");
  const auto read = RlSummary::Parse(bytes);
  if (!read.has_value()) return checker->Fail("its own bytes are refused");
  if (read->Serialize() != bytes) checker->Fail("bytes read and written differ");
}

}  // namespace

std::string CheckFarCase(const FarCase& far_case, uint64_t seed) {
  Checker checker;
  std::vector<Row> rows;
  for (int64_t r = 0; r < far_case.rows(); ++r) rows.emplace_back(far_case, static_cast<size_t>(r));
  std::vector<int64_t> offsets;
  const RlBatch batch = far_case.View(0, far_case.rows(), &offsets);
  const auto figures = DiagnoseRl(batch);
  if (!figures.has_value()) return "the batch was refused: " + figures.error().message();
  CheckFigures(rows, far_case, *figures, &checker);
  CheckShards(far_case, seed, &checker);
  const Corrected want(rows, far_case.correction);
  std::vector<double> weights(static_cast<size_t>(far_case.offsets.back()));
  RlCorrectOutput output;
  output.weights_double = weights;
  const auto corrected = CorrectRl(batch, far_case.correction, output);
  if (!corrected.has_value()) return "no correction: " + corrected.error().message();
  if (want.decided()) want.Check((*corrected)[0], weights, &checker);
  return checker.Faults();
}

}  // namespace kcc::bench
