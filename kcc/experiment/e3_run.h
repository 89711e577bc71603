// One run of experiment E3 as figures, read from its logs, and what they are over several seeds.
//
// Windows: *early* is the first third of the run's steps, at most 40; *late* is the last third.
// A run has fallen where the mean reward of a window of as many steps is below half of that of the
// first one; a run is called by how:
//
//   KL collapse      at the fall the policy is more than kCollapsedKl from the first weights
//   sudden drop      one window before, it was still above three quarters
//   decline          neither
//   reward hacking   no fall: the rollouts' reward rose, and that on held-out problems fell
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/rltrain/curves.h"

namespace kcc {

inline constexpr double kCollapsedKl = 0.5;   // nats a token
inline constexpr double kRewardMoved = 0.05;  // what counts as a rise, and as a fall on held-out
inline constexpr int64_t kE3WindowMax = 40;

enum class E3Failure : uint8_t { kNone, kKlCollapse, kRewardHacking, kSuddenDrop, kDecline };
std::string_view Name(E3Failure failure);  // "KL collapse"; "none"

// What is read of every step, under the names of docs/lab-rl.md.
struct E3Column {
  std::string_view key;   // of the log: "metrics token.mean_k3"
  std::string_view name;  // "k3"
};
std::span<const E3Column> E3Columns();

struct E3Window {
  double early = 0, late = 0;  // means
};

struct E3Violation {
  std::string clause;  // "N-1/all"
  int64_t step = 0;
};

struct E3Run {
  uint64_t seed = 0;
  int64_t steps = 0;
  // Of held-out problems: before the first step, and the mean over the last third.
  double start_train = 0, start_infer = 0, reward_train = 0, reward_infer = 0;
  std::vector<std::optional<E3Window>> columns;  // as E3Columns; none: no step has it
  E3Failure failure = E3Failure::kNone;
  std::optional<int64_t> fell;           // the last step of the window
  std::optional<double> k3_before_fall;  // mean of the window before, over that of the early steps
  std::optional<E3Violation> first_violation;
  std::vector<ClauseStrip> clauses;
  int64_t tokens = 0;  // sampled

  std::optional<double> late(std::string_view name) const;
};

// Fails where the logs lack rewards.
Result<E3Run> ReadE3Run(const RunCurves& curves, uint64_t seed);

// A mean over runs, with Student's 95 % interval: mean +- half; none of a single run.
struct E3Estimate {
  double mean = 0;
  std::optional<double> half;
  int64_t runs = 0;

  bool above(double value) const { return half && mean - *half > value; }
  bool below(double value) const { return half && mean + *half < value; }
};
E3Estimate StudentEstimate(std::span<const double> values);
// Of the differences a - b of the seeds that both have; none: there is no such seed.
std::optional<E3Estimate> PairedDifference(const std::map<uint64_t, double>& a,
                                           const std::map<uint64_t, double>& b);
// "0.820 ± 0.062", "0.820 (1 run)".
std::string EstimateText(const E3Estimate& estimate);

}  // namespace kcc
