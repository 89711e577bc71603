// The lines of a run's logs: one JSON object each, no clock in them (docs/lab-rl.md lists the
// keys).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kcc/rltrain/rl_trainer.h"

namespace kcc {

// The metrics of kcc rl diagnose that a line has, by their names there.
std::span<const std::string_view> LoggedMetrics();

std::string StepLine(const RlStepReport& report);
std::string HeldOutLine(const HeldOutReport& report, bool greedy);

}  // namespace kcc
