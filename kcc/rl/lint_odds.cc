#include "kcc/rl/lint_odds.h"

#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

constexpr double kOddsMin = -20;
// What a side must say to call a token certain, and the other side to contradict it: 9 nats apart
// in log-odds.
constexpr double kCertainLogProb = -1e-6;
constexpr double kUncertainLogProb = -1e-2;
constexpr double kHalf = -0.7;
constexpr double kLogRatioMax = 20;
constexpr double kApart = 0.5;
constexpr size_t kRowsMin = 10;      // for a quartile of rows
constexpr double kRowTokensMin = 8;  // of a row whose mean gap is compared with the others'

}  // namespace

void PairSums::Add(double a, double b) {
  n += 1;
  x += a;
  y += b;
  xx += a * a;
  xy += a * b;
  yy += b * b;
  abs_gap += std::min(1e3, std::fabs(a - b));
}

void PairSums::Merge(const PairSums& other) {
  n += other.n;
  x += other.x;
  y += other.y;
  xx += other.xx;
  xy += other.xy;
  yy += other.yy;
  abs_gap += other.abs_gap;
}

double PairSums::Correlation() const {
  if (n < 2) return 0;
  const double vx = xx - x * x / n, vy = yy - y * y / n, c = xy - x * y / n;
  return vx > 1e-12 * xx && vy > 1e-18 ? c / std::sqrt(vx * vy) : 0;
}

double PairSums::Slope() const {
  if (n < 2) return 0;
  const double vx = xx - x * x / n;
  return vx > 1e-12 * xx ? (xy - x * y / n) / vx : 0;
}

double LogOdds(double logprob) {
  const double bounded = std::min(logprob, kSureLogProb);
  return std::max(kOddsMin, bounded - Log(-Expm1(bounded)));
}

void CertainTokens::Merge(const CertainTokens& other) {
  count += other.count;
  doubted += other.doubted;
}

void OddsSums::Add(const RlRow& row, std::vector<double>* gaps) {
  const auto count = static_cast<size_t>(row.tokens);
  std::vector<double> train(count), rollout(count);
  for (size_t i = 0; i < count; ++i) {
    train[i] = LogOdds(row.train[i]);
    rollout[i] = LogOdds(row.rollout[i]);
  }
  gaps->resize(count);
  tokens += static_cast<double>(count);
  const auto certain = [](double side, double other, CertainTokens* to) {
    if (side < kCertainLogProb || other > kUncertainLogProb) return;
    to->count += 1;
    to->doubted += other < kHalf;
  };
  for (size_t i = 0; i < count; ++i) {
    if (row.train[i] < kSureLogProb && row.rollout[i] < kSureLogProb) {
      const double x = 0.5 * (train[i] + rollout[i]), y = train[i] - rollout[i];
      gap.Add(x, y);
      const double doubt = -Expm1(0.5 * (row.train[i] + row.rollout[i]));
      const double w = doubt * doubt;
      const double terms[6] = {1, x, y, x * x, x * y, y * y};
      for (size_t k = 0; k < 6; ++k) weighted[k] += w * terms[k];
    }
    (*gaps)[i] = std::fabs(train[i] - rollout[i]);
    abs_gap += (*gaps)[i];
    apart += (*gaps)[i] > kApart;
    certain(row.rollout[i], row.train[i], &rollout_certain);
    certain(row.train[i], row.rollout[i], &train_certain);
    log_likelihood += std::clamp(row.log_ratio[i], -kLogRatioMax, kLogRatioMax);
  }
}

namespace {

double Evenness(const std::vector<const OddsSums*>& rows) {
  std::vector<double> gaps;
  double sum = 0;
  for (const OddsSums* row : rows) {
    if (row->tokens < kRowTokensMin) continue;
    gaps.push_back(row->abs_gap / row->tokens);
    sum += gaps.back();
  }
  if (gaps.size() < kRowsMin || !(sum > 0)) return -1;
  const auto at = static_cast<std::ptrdiff_t>(gaps.size() / 4);
  std::nth_element(gaps.begin(), gaps.begin() + at, gaps.end());
  return gaps[static_cast<size_t>(at)] / (sum / static_cast<double>(gaps.size()));
}

}  // namespace

OddsGap SumOdds(const std::vector<const OddsSums*>& rows) {
  OddsGap out;
  PairSums all;
  double weighted[6] = {}, tokens = 0;
  out.even = Evenness(rows);
  for (const OddsSums* row : rows) {
    all.Merge(row->gap);
    for (size_t k = 0; k < 6; ++k) weighted[k] += row->weighted[k];
    out.rollout_certain.Merge(row->rollout_certain);
    out.train_certain.Merge(row->train_certain);
    out.log_likelihood += row->log_likelihood;
    tokens += row->tokens;
    out.apart += static_cast<double>(row->apart);
  }
  if (tokens > 0) out.apart /= tokens;
  out.open = static_cast<int64_t>(all.n);
  if (all.n < 3 || !(all.yy > 0) || !(all.xx > 0)) return out;
  out.slope = all.Slope();
  const double r = all.Correlation();
  out.explained = r * r;
  out.level = all.xy * all.xy / (all.xx * all.yy);
  out.level_slope = all.xy / all.xx;
  const double mean_x = all.x / all.n, mean_y = all.y / all.n;
  out.spread = std::sqrt(std::max(0.0, all.yy / all.n - mean_y * mean_y));
  const double b = out.slope, a = mean_y - b * mean_x;
  const double scatter = weighted[5] - 2 * a * weighted[2] - 2 * b * weighted[4] +
                         a * a * weighted[0] + 2 * a * b * weighted[1] + b * b * weighted[3];
  out.noise = std::max(0.0, 0.5 * scatter);
  // The sandwich: what each row's residuals push the slope by.
  double square = 0;
  for (const OddsSums* row : rows) {
    const PairSums& s = row->gap;
    const double xy = s.xy - mean_y * s.x - mean_x * s.y + s.n * mean_x * mean_y;
    const double xx = s.xx - 2 * mean_x * s.x + s.n * mean_x * mean_x;
    const double push = xy - out.slope * xx;
    square += push * push;
  }
  const double vx = all.xx - all.x * mean_x;
  // Few rows say little about their own scatter: the smaller of two opinions.
  const double free = r * std::sqrt((all.n - 2) / std::max(1e-12, 1 - r * r));
  const double clustered = square > 0 ? out.slope * vx / std::sqrt(square) : free;
  out.slope_z = std::fabs(clustered) < std::fabs(free) ? clustered : free;
  return out;
}

}  // namespace kcc
