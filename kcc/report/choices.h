// Every enumerator a report can name, for the reader and the schema. The words are Name()'s.
#pragma once

#include <array>

#include "kcc/judge/verdict.h"

namespace kcc {

inline constexpr std::array kVerdicts = {Verdict::kSatisfied, Verdict::kInconclusive,
                                         Verdict::kError, Verdict::kViolated};
inline constexpr std::array kFamilies = {Family::kNumerical, Family::kStatistical, Family::kRuntime,
                                         Family::kObservability};
inline constexpr std::array kLevels = {ViolationLevel::kL1, ViolationLevel::kL2,
                                       ViolationLevel::kL3};
inline constexpr std::array kActions = {Action::kLog, Action::kGuard, Action::kFreeze,
                                        Action::kFallback, Action::kRollback};
inline constexpr std::array kStages = {Stage::kOffline, Stage::kShadow, Stage::kCanary,
                                       Stage::kFull};
inline constexpr std::array kPopulations = {Population::kEvaluationSet, Population::kTraffic};
inline constexpr std::array kBounds = {BoundKind::kAtMost, BoundKind::kAtLeast};

}  // namespace kcc
