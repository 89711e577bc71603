#include "kcc/summary/bets.h"

#include "kcc/base/check.h"
#include "kcc/stats/token_ratio.h"

namespace kcc {

void BetSums::Add(const BettingPlan& plan, double tokens, double bad_low, double bad_high,
                  double tokens_max) {
  if (tokens > tokens_max) {
    ++oversized;
    return;
  }
  const auto worst = RatioObservation(bad_high, tokens, tokens_max, plan.threshold);
  const auto best = RatioObservation(bad_low, tokens, tokens_max, plan.threshold);
  KCC_CHECK(worst && best);
  sums.Add(plan, *worst, *best);
}

void BetSums::Merge(const BetSums& other) {
  oversized += other.oversized;
  sums.Merge(other.sums);
}

void BetSums::Visit(Archive& archive, BetGrid grid) {
  archive.U64(oversized);
  archive.I64(sums.count);
  if (sums.count == 0) return;
  archive.I64(sums.ones);
  if (sums.count < 0 || sums.ones < 0 || sums.ones > sums.count) {
    archive.Fail("a count of bets that cannot be");
  }
  const auto bets = static_cast<size_t>(BetsOf(grid));
  for (size_t k = 0; k < bets; ++k) archive.I64(sums.pass[k]);
  for (size_t k = 0; k < bets; ++k) archive.I64(sums.fail[k]);
}

}  // namespace kcc
