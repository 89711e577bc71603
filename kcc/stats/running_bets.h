// The PASS test of betting.h held as running products, for streams that are folded one value at a
// time and never merged: a value costs one multiplication a bet, where BettingSums takes a
// logarithm for each.
//
// The test is the same mixture of constant bets, E = sum_k w_k prod_i y_k(X_i). Its validity needs
// no independence. Let mu_i = E[X_i | past]. prod (1 + lam (X_i - m)) / (1 + lam (mu_i - m)) is a
// martingale for every bet, and for PASS (lam < 0) the product of its denominators is at most
// exp(lam sum (mu_i - m)), hence at most 1 wherever the average of the mu_i so far is m or more. So
// with a chance of at least 1 - alpha, at every time at which E >= 1/alpha the average over the
// values so far of their mean given the past is below m, whatever the dependence.
//
// Every product is rounded by at most 2^-52 of itself, and the factor kRoundingGuard more than
// takes that back: E is never above the truth. Products are kept within 2^+-512 by counted
// rescaling.
#pragma once

#include <array>
#include <cstdint>

#include "kcc/stats/betting.h"

namespace kcc {

struct RunningBets {
  static constexpr double kRoundingGuard = 1 - 0x1p-50;

  RunningBets() { Reset(); }
  // The plan, of the fine grid, must be the same throughout.
  void Add(const BettingPlan& plan, UnitValue x);
  void Reset();
  // ln E; 0 at the start, -infinity when every bet is ruined.
  double LogE(const BettingPlan& plan) const;
  // E >= 1/alpha: the mean is below the threshold. Precondition: 0 < alpha < 1.
  bool Certifies(const BettingPlan& plan, double alpha) const;
  bool operator==(const RunningBets&) const = default;

  std::array<double, kBets> wealth;  // of each bet: wealth * 2^(512 scale); 0: ruined
  std::array<int32_t, kBets> scale;
};

}  // namespace kcc
