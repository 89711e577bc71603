// What experiment E3 showed of trainings across a gap (docs/results/e3-gpu.md): 72 runs of 3,000
// steps of GRPO, a model of 3.4 M parameters, one task, three seeds an arm. Advice quotes these
// figures. They are of that task and model: advice of more than that says so, and no verdict is
// made of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kcc {

inline constexpr std::string_view kE3Page = "docs/results/e3-gpu.md";

// The least share of tokens that a rejection is to keep. E3: rejections that kept .93 and more are
// not told from none; .80 to .93 cost .058 +- .032 against exact runs, .50 to .84 cost .16 to .19.
// The line is between what was seen to cost something and what was not.
inline constexpr double kRlKeptShareMin = 0.9;

// A rollout kernel in E3, and its arms. Costs are held-out reward minus that of the exact runs
// (0.820), +- Student's 95 % interval over three seeds.
struct E3Kernel {
  std::string_view name;      // "fp8"
  double mean_abs_log_ratio;  // of the bypass arm, last third of the run
  double k3;                  // of the bypass arm, first 40 steps
  double bypass, bypass_interval;
  std::string_view fell;  // "in no seed", "in 3 of 3 seeds, at steps 80 to 270"
  // Without correction, with recomputed log-probs. NaN where E3 has no such arm.
  double recompute, recompute_interval;
};
std::span<const E3Kernel> E3Kernels();  // by rising mismatch

// The largest mismatch of E3 that a gap reaches, in mean |log w| or in k3; null: below all.
const E3Kernel* E3Reached(double mean_abs_log_ratio, double k3);

// "at fp8 (mean |log w| 0.0069, k3 0.0011) bypass cost 0.06 +- 0.024 of the reward and fell in no
// seed".
std::string E3BypassText(const E3Kernel& kernel);
// What E3 saw at this gap and at the next larger one, in bypass and with recomputed log-probs.
std::string E3GapText(double mean_abs_log_ratio, double k3);

}  // namespace kcc
