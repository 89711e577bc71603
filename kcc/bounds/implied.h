// What a clause implies if it holds: its threshold carried through the chain (chain.h) under the
// contract's assumptions. Shown by `kcc explain` and in the report. Only `atMost` on a drift
// implies anything.
//
// The metric decides what is known (docs/math.md A.4, A.6). A maximum holds at every token; a mean
// suffices, since total variation is concave in every drift; a percentile leaves a share of tokens
// on which anything may happen. A soft clause speaks of windows, not of tokens: all but its
// exceedance of them are within the threshold, and what the others hold, few tokens or most, is not
// known. So its rows about tokens name the share of windows they hold in, and its rows about whole
// continuations add the exceedance of requests in full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/selection.h"

namespace kcc {

// Who must have chosen the tokens that the clause was measured on for a row to follow.
enum class ChosenBy : uint8_t { kAnyone, kInferOrTrain, kInfer };

struct Implication {
  std::string_view quantity;  // "tv", "reward_drift", "gradient_bias", "sequence_reward_drift",
                              // "trajectory_bias"
  std::string text;           // what is bounded, and under which assumptions
  double value = 0;           // at most
  bool vacuous = false;       // hardly less than what holds of any two kernels
  double exceedance = 0;      // the share of windows, at most, in which it may not hold
  bool every = false;         // of every token (or prompt); else of their mean
  ChosenBy chosen_by = ChosenBy::kAnyone;
};

// Empty where the clause bounds no drift.
std::vector<Implication> ImplicationsOf(const Contract& contract, const Clause& clause);
std::vector<Implication> ImplicationsOf(const Clause& clause, const Assumptions& assumptions,
                                        Selection selection);

// The least that holds of all slices the clause names.
Selection SelectionOf(const Contract& contract, const Clause& clause);

// Assumptions whose absence keeps implications from being stated: "rewardMax", ….
std::vector<std::string_view> AssumptionsMissing(const Assumptions& assumptions);

}  // namespace kcc
