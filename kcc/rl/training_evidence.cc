#include "kcc/rl/training_evidence.h"

#include <cmath>
#include <limits>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The rows "… bypass" and those of the kernels alone in docs/results/e3-gpu.md, which
// tests/docs/test_e3_evidence.py compares with these.
constexpr E3Kernel kKernels[] = {
    {"fp8", 0.0069, 0.0011, -0.060, 0.024, "in no seed", -0.016, 0.081},
    {"int4", 0.016, 0.0042, -0.280, 0.093, "in 3 of 3 seeds, at steps 80 to 270", 0.003, 0.029},
    {"int4c", 0.024, 0.0093, -0.525, 0.125, "in 3 of 3 seeds, at steps 70 to 110", kNone, kNone},
    {"int3", 0.063, 0.035, -0.820, 0.062, "in 3 of 3 seeds, at step 40", -0.070, 0.102},
};

std::string Change(double value, double interval) {
  return ReadableNumber(value) + " ± " + ReadableNumber(interval);
}

}  // namespace

std::span<const E3Kernel> E3Kernels() { return kKernels; }

const E3Kernel* E3Reached(double mean_abs_log_ratio, double k3) {
  const E3Kernel* reached = nullptr;
  for (const E3Kernel& kernel : kKernels) {
    if (mean_abs_log_ratio >= kernel.mean_abs_log_ratio || k3 >= kernel.k3) reached = &kernel;
  }
  return reached;
}

std::string E3BypassText(const E3Kernel& kernel) {
  return "at " + std::string(kernel.name) + " (mean |log w| " +
         ReadableNumber(kernel.mean_abs_log_ratio) + ", k3 " + ReadableNumber(kernel.k3) +
         ") bypass changed the reward by " + Change(kernel.bypass, kernel.bypass_interval) +
         " and fell " + std::string(kernel.fell);
}

std::string E3GapText(double mean_abs_log_ratio, double k3) {
  const E3Kernel* reached = E3Reached(mean_abs_log_ratio, k3);
  const E3Kernel* next = reached == nullptr ? kKernels : reached + 1;
  if (next == std::end(kKernels)) next = nullptr;
  if (reached == nullptr) {
    return "below every mismatch of E3: its smallest, " + E3BypassText(*next);
  }
  std::string text = E3BypassText(*reached);
  if (!std::isnan(reached->recompute)) {
    text += ", recomputed log-probs without correction by " +
            Change(reached->recompute, reached->recompute_interval);
  }
  if (next != nullptr) text += "; next, " + E3BypassText(*next);
  return text;
}

}  // namespace kcc
