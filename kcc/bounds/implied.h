// What a clause implies if it holds: its threshold carried through the chain (chain.h) under the
// contract's assumptions. Shown by `kcc explain` and in the report.
//
// The metric decides what is known. A maximum holds at every token; a mean suffices, since total
// variation is concave in every drift; a percentile leaves a share of tokens on which anything may
// happen, and a soft clause a share of windows (MATH.md A.4). Only `atMost` on a drift implies
// anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"

namespace kcc {

struct Implication {
  std::string_view quantity;  // "tv", "reward_drift", "gradient_bias", "sequence_reward_drift"
  std::string text;           // what is bounded, and under which assumptions
  double value = 0;           // at most
  bool vacuous = false;       // hardly less than what holds of any two kernels
};

// Empty where the clause bounds no drift.
std::vector<Implication> ImplicationsOf(const Clause& clause, const Assumptions& assumptions);

// Assumptions whose absence keeps implications from being stated: "rewardMax", ….
std::vector<std::string_view> AssumptionsMissing(const Assumptions& assumptions);

}  // namespace kcc
