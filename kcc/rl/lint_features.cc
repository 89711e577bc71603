#include "kcc/rl/lint_features.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

constexpr int64_t kRowTokensMin = 12;   // below, a row says nothing about itself
constexpr size_t kSampleMax = 1 << 20;  // tokens looked at for repeated values and quantiles
// A row breaks where the gap after a position is large and many times that before it.
constexpr double kBreakGap = 0.3;
constexpr double kBreakRatio = 8;
constexpr size_t kBreakTokensMin = 14;  // before it: fewer may be clean by chance
constexpr double kUnrelatedCorrelation = 0.35;
constexpr double kGridShare = 0.01;    // of tokens whose value stands elsewhere too: a grid
constexpr size_t kGridNeighbours = 8;  // distinct values on either side
constexpr double kSentinelRatio = 4;   // times more often than there, and than on the other side
constexpr double kUnrelatedGap = 0.5;
constexpr double kApartShare = 0.3;   // of a row's tokens whose log-odds disagree, in such a row
constexpr double kSlopeRowsMin = 12;  // below, a slope over rows is chance
constexpr double kBreakOdds = 1;      // mean gap in log-odds after a break

// One row's contribution; kept, since later sums leave unrelated and broken rows out.
struct RowSums {
  PairSums lag[3];
  PairSums gap;  // x: rollout, y: d
  OddsSums odds;
  double mean_d = 0, mean_excess = 0, k3 = 0;
  double advantage = 0;
  bool breaks = false, unrelated = false;
};

// True if there is a position with a clean stretch before it and a broken one after.
bool Breaks(std::span<const double> d, std::span<const double> odds) {
  const size_t count = d.size();
  if (count < 2 * static_cast<size_t>(kRowTokensMin)) return false;
  double after = 0, broken = 0, odds_after = 0;
  for (size_t i = 0; i < count; ++i) {
    after += std::min(20.0, std::fabs(d[i]));
    odds_after += odds[i];
    broken += std::fabs(d[i]) > kBreakGap / 4;
  }
  double before = 0;
  for (size_t i = 0; i + 8 < count; ++i) {
    const double gap = std::min(20.0, std::fabs(d[i]));
    before += gap;
    after -= gap;
    odds_after -= odds[i];
    broken -= std::fabs(d[i]) > kBreakGap / 4;
    if (i + 1 < kBreakTokensMin) continue;
    const auto left = static_cast<double>(count - i - 1);
    // Broken throughout: a lone outlier is no break. In log-odds too: a quantised kernel's gap in
    // log-probs grows where a continuation becomes unlikely.
    if (after > kBreakGap * left &&
        after / left > kBreakRatio * before / static_cast<double>(i + 1) && broken > 0.5 * left &&
        odds_after > kBreakOdds * left) {
      return true;
    }
  }
  return false;
}

RowSums SumRow(const RlRow& row) {
  RowSums out;
  const auto count = static_cast<size_t>(row.tokens);
  for (size_t i = 0; i < count; ++i) {
    const double d = row.log_ratio[i];
    out.lag[1].Add(row.rollout[i], row.train[i]);
    if (i > 0) out.lag[0].Add(row.rollout[i - 1], row.train[i]);
    if (i + 1 < count) out.lag[2].Add(row.rollout[i + 1], row.train[i]);
    out.gap.Add(row.rollout[i], d);
    const double bounded = std::min(d, 20.0);
    out.mean_excess += Expm1(bounded);
    out.k3 += ExpResidual(bounded);
    out.mean_d += d;
  }
  std::vector<double> odds_gaps;
  out.odds.Add(row, &odds_gaps);
  // In log-odds too: there a row of unlikely tokens is no noisier than the others.
  const bool apart = static_cast<double>(out.odds.apart) > kApartShare * out.lag[1].n;
  out.unrelated = apart && row.tokens >= kRowTokensMin &&
                  out.lag[1].Correlation() < kUnrelatedCorrelation &&
                  out.lag[1].MeanGap() > kUnrelatedGap;
  // The row's buffers have room for whole lanes beyond its tokens.
  out.breaks = Breaks(std::span(row.log_ratio).first(count), odds_gaps);
  out.advantage = row.row_advantage;
  if (!row.advantage.empty() && count > 0) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += row.advantage[i];
    out.advantage = sum / static_cast<double>(count);
  }
  return out;
}

using Pairs = std::vector<std::pair<double, double>>;  // a side's value and the other side's

// Equal values of one side.
struct Repeated {
  double value = 0;
  double count = 0;
  double gap = 0;  // to the other side, summed
};

std::vector<Repeated> CountRepeated(Pairs values) {
  std::sort(values.begin(), values.end());
  std::vector<Repeated> groups;
  for (const auto& [value, other] : values) {
    if (groups.empty() || groups.back().value != value) groups.push_back({value, 0, 0});
    groups.back().count += 1;
    groups.back().gap += std::min(1e6, std::fabs(other - value));
  }
  return groups;
}

double CountOf(const std::vector<Repeated>& groups, double value) {
  const auto found =
      std::lower_bound(groups.begin(), groups.end(), value,
                       [](const Repeated& group, double wanted) { return group.value < wanted; });
  return found != groups.end() && found->value == value ? found->count : 0;
}

// Numbers on a coarse grid (bfloat16) all repeat: there a sentinel must tower over its neighbours.
bool Towers(const std::vector<Repeated>& groups, size_t at, double repeated_share) {
  if (repeated_share < kGridShare) return true;
  const size_t begin = at < kGridNeighbours ? 0 : at - kGridNeighbours;
  const size_t end = std::min(groups.size(), at + kGridNeighbours + 1);
  double most = 2;
  for (size_t i = begin; i < end; ++i) {
    if (i != at) most = std::max(most, groups[i].count);
  }
  return groups[at].count >= kSentinelRatio * most;
}

// The value that one side repeats most, and the other does not, where the two disagree by more than
// a nat on average. What both sides repeat is no sentinel: log-probs of sure tokens are exactly 0.
std::optional<Sentinel> FindSentinel(const std::vector<Repeated>& groups,
                                     const std::vector<Repeated>& others, bool rollout) {
  double total = 0, repeated = 0;
  for (const Repeated& group : groups) {
    total += group.count;
    repeated += group.count > 1 ? group.count : 0;
  }
  std::optional<Sentinel> best;
  for (size_t i = 0; i < groups.size(); ++i) {
    const Repeated& group = groups[i];
    if (group.count < 3 || group.count < 2e-4 * total || group.gap <= group.count) continue;
    if (best.has_value() && group.count / total <= best->share) continue;
    if (kSentinelRatio * CountOf(others, group.value) > group.count) continue;
    if (!Towers(groups, i, (repeated - group.count) / total)) continue;
    best = Sentinel{group.value, group.count / total, group.gap / group.count, rollout};
  }
  return best;
}

struct Samples {
  Pairs rollout, train;
  std::vector<double> d;
  int64_t equal = 0;

  void Add(const RlRow& row) {
    for (size_t i = 0; i < static_cast<size_t>(row.tokens); ++i) {
      equal += row.train[i] == row.rollout[i];
      if (rollout.size() >= kSampleMax) continue;
      rollout.emplace_back(row.rollout[i], row.train[i]);
      train.emplace_back(row.train[i], row.rollout[i]);
      d.push_back(row.log_ratio[i]);
    }
  }

  double Quantile(double p) {
    if (d.empty()) return 0;
    const auto at = static_cast<size_t>(p * static_cast<double>(d.size() - 1));
    std::nth_element(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(at), d.end());
    return d[at];
  }
};

// mean / standard error of values by row.
double ZOf(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double mean = 0, square = 0;
  for (const double v : values) mean += v;
  mean /= static_cast<double>(values.size());
  for (const double v : values) square += (v - mean) * (v - mean);
  const auto n = static_cast<double>(values.size());
  const double error = std::sqrt(square / (n - 1) / n);
  return error > 0 ? mean / error : 0;
}

// The t statistic of the slope of y on x: how far the two move together beyond chance.
double SlopeT(const PairSums& pairs) {
  const double r = pairs.Correlation();
  if (pairs.n < kSlopeRowsMin) return 0;
  return r * std::sqrt((pairs.n - 2) / std::max(1e-12, 1 - r * r));
}

void Summarize(const std::vector<RowSums>& rows, bool advantages, LintFeatures* out) {
  PairSums lags[3], gap;
  std::vector<const OddsSums*> related;
  PairSums pushes;
  std::vector<double> excess;
  double full = 0, broken = 0, unrelated = 0, excess_sum = 0, tokens = 0, k3 = 0;
  for (const RowSums& row : rows) {
    for (size_t l = 0; l < 3; ++l) lags[l].Merge(row.lag[l]);
    out->mean_abs_d += row.lag[1].abs_gap;
    if (row.lag[1].n >= static_cast<double>(kRowTokensMin)) {
      full += 1;
      broken += row.breaks;
      unrelated += row.unrelated && !row.breaks;
    }
    if (row.lag[1].n == 0 || row.breaks || row.unrelated) continue;
    gap.Merge(row.gap);
    related.push_back(&row.odds);
    tokens += row.lag[1].n;
    excess_sum += row.mean_excess;
    k3 += row.k3;
    excess.push_back(row.mean_excess / row.lag[1].n);
    // A row of advantage 0 is pushed nowhere. GRPO has many of them, and counting them would let
    // four rows pass for sixty.
    if (row.advantage != 0) pushes.Add(row.advantage, row.mean_d / row.lag[1].n);
  }
  out->mean_abs_d = lags[1].MeanGap();
  for (size_t l = 0; l < 3; ++l) {
    out->lag[l] = lags[l].Correlation();
    out->lag_gap[l] = lags[l].MeanGap();
  }
  out->break_share = full > 0 && broken > 1 ? broken / full : 0;
  out->unrelated_share = full > 0 && unrelated > 1 ? unrelated / full : 0;
  if (tokens == 0) return;
  out->odds = SumOdds(related);
  out->slope = 1 + gap.Slope();
  const double r = gap.Correlation();
  out->explained = r * r;
  out->mean_w = 1 + excess_sum / tokens;
  out->mean_w_z = ZOf(excess);
  out->k3 = k3 / tokens;
  if (advantages) out->advantage_t = SlopeT(pushes);
}

}  // namespace

Result<LintFeatures> ComputeLintFeatures(const RlBatch& batch) {
  KCC_TRY_VOID(CheckRlBatch(batch));
  LintFeatures out;
  std::vector<RowSums> rows;
  Samples samples;
  RlRow row;
  for (int64_t r = 0; r < batch.rows; ++r) {
    KCC_TRY_VOID(row.Load(batch, r));
    out.tokens += row.tokens;
    out.rows += row.tokens > 0;
    samples.Add(row);
    row.KeepFinite();
    rows.push_back(SumRow(row));
  }
  if (out.tokens == 0) return out;
  out.equal_share = static_cast<double>(samples.equal) / static_cast<double>(out.tokens);
  Summarize(rows, static_cast<bool>(batch.advantages), &out);
  out.low_tail = -samples.Quantile(0.005);
  out.high_tail = samples.Quantile(0.995);
  const std::vector<Repeated> of_rollout = CountRepeated(std::move(samples.rollout));
  const std::vector<Repeated> of_train = CountRepeated(std::move(samples.train));
  const auto in_rollout = FindSentinel(of_rollout, of_train, true);
  const auto in_train = FindSentinel(of_train, of_rollout, false);
  out.sentinel = in_rollout;
  if (in_train.has_value() && (!in_rollout.has_value() || in_train->share > in_rollout->share)) {
    out.sentinel = in_train;
  }
  return out;
}

}  // namespace kcc
