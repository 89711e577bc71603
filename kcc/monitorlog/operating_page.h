// The operating curves of a clause's detector as figures and as one self-contained page: how long
// it takes to see a shift, and how often it alarms for nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kcc/monitor/forecast.h"

namespace kcc {

struct OperatingCurve {
  std::string contract, policy;  // names
  PairForecast pair;             // its shifts are the curve; none is of factor 1
  ShiftForecast in_control;      // at the limit itself: every alarm is false
  double alarm_level = 0;        // c
  int64_t observations_max = 0;  // of one run, T
  uint64_t seed = 0;

  int64_t false_alarms() const { return in_control.runs - in_control.unseen; }
  // What bounds the chance of a false alarm within T: T/c.
  double false_alarms_bound() const { return static_cast<double>(observations_max) / alarm_level; }
};

std::string OperatingCurveJson(const OperatingCurve& curve);
std::string OperatingCurvePage(const OperatingCurve& curve);

}  // namespace kcc
