// The cells of experiment E3, written down before it runs: which arm, with which kernel, by which
// algorithm, and what it costs. Not the full factorial:
//
//   GRPO   every arm with rollouts of fp8 and of int4; no correction and bypass down to int3
//   PPO    four arms, int4
//   2x2    which side is inexact: the kernel that samples, the one that recomputes (int4)
//   rate   the exact arm alone at other learning rates, from which kE3Rate is chosen first
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/rl/correction.h"
#include "kcc/rltrain/rl_options.h"

namespace kcc {

// Chosen on the exact arm alone, where a prototype at 3e-4 destroyed the policy (the cells of part
// "rate" repeat that); it was not changed for any other arm.
inline constexpr double kE3Rate = 1e-4;
inline constexpr uint64_t kE3FirstSeed = 10;
// Share of the answers that a fitted threshold keeps before the first step.
inline constexpr double kE3Kept = 0.95;

struct E3Cell {
  std::string name;  // "int4-tis": also the folder of its runs
  std::string part;  // "GRPO", "PPO", "2x2", "rate"
  std::string arm;   // "truncation (TIS)"
  std::string rollout = "f32";
  std::string recompute = "f32";  // the old log-probs; empty: those of the rollout (bypass)
  int64_t stale = 0;
  double rate = kE3Rate;
  RlCorrection correction;
  bool fitted = false;  // the threshold of the rejection is the kernel's own

  bool ppo() const { return part == "PPO"; }
};

std::vector<E3Cell> E3Cells();
// Cells whose name matches a pattern; patterns stand between commas and may hold `*`. Fails on a
// pattern that matches none.
Result<std::vector<E3Cell>> ChooseE3Cells(std::string_view patterns);

struct E3Size {
  int64_t steps = 985;
  int64_t seeds = 3;
  int64_t held_out_problems = 128;
};
// The selection of `make results`: what can be had in minutes.
inline constexpr std::string_view kE3ShortCells = "exact,int4,int4-bypass,int3-bypass";
inline constexpr E3Size kE3ShortSize = {60, 1, 128};

// An estimate from docs/lab-rl.md: CPU seconds of all seeds together.
double E3CpuSeconds(const E3Cell& cell, const E3Size& size);

// "lab:int4?batch=invariant&scale=channel" of the short name "int4c".
std::string E3KernelUri(std::string_view kernel);
Result<LabSwitches> E3Switches(std::string_view kernel);

// `threshold`: of a fitted cell.
Result<RlTrainOptions> E3RunOptions(const E3Cell& cell, const E3Size& size, uint64_t seed,
                                    double threshold);

}  // namespace kcc
