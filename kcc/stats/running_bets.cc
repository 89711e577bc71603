#include "kcc/stats/running_bets.h"

#include <algorithm>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

constexpr double kLarge = 0x1p512;
constexpr double kSmall = 0x1p-512;
constexpr double kLnLarge = 354.89135644669199;  // 512 ln 2

}  // namespace

void RunningBets::Reset() {
  wealth.fill(1);
  scale.fill(0);
}

void RunningBets::Add(const BettingPlan& plan, UnitValue x) {
  bool rescale = false;
  for (size_t k = 0; k < kBets; ++k) {
    const Bet& bet = plan.pass[k];
    const double factor = x.complement * bet.factor_zero + x.value * bet.factor_one;
    wealth[k] = wealth[k] * (factor * kRoundingGuard);
    rescale = rescale || wealth[k] > kLarge || (wealth[k] < kSmall && wealth[k] > 0);
  }
  if (!rescale) return;
  for (size_t k = 0; k < kBets; ++k) {
    if (wealth[k] > kLarge) {
      wealth[k] *= kSmall;
      ++scale[k];
    } else if (wealth[k] < kSmall && wealth[k] > 0) {
      wealth[k] *= kLarge;
      --scale[k];
    }
  }
}

double RunningBets::LogE(const BettingPlan& plan) const {
  KCC_CHECK(plan.grid == BetGrid::kFine);
  int32_t top = 0;
  bool any = false;
  for (size_t k = 0; k < kBets; ++k) {
    if (wealth[k] == 0) continue;
    top = any ? std::max(top, scale[k]) : scale[k];
    any = true;
  }
  if (!any) return -kInf;
  double sum = 0;
  for (size_t k = 0; k < kBets; ++k) {
    // What is a whole scale lower than the largest is below the rounding of the sum, or nearly so.
    if (scale[k] == top) sum += plan.pass[k].weight * wealth[k];
    if (scale[k] == top - 1) sum += plan.pass[k].weight * wealth[k] * kSmall;
  }
  return Log(sum) + top * kLnLarge;
}

bool RunningBets::Certifies(const BettingPlan& plan, double alpha) const {
  return LogE(plan) >= -Log(alpha);
}

}  // namespace kcc
