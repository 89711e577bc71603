// What the monitor would do, said before any request came: how every clause is watched on every
// slice, what an alarm orders, and how soon a shift would be seen.
//
// How soon is simulated with the detector itself: `runs` streams from a fixed seed whose
// observations are 0 or 1, of a mean `factor` times the limit from the first one on, until the
// alarm. Of all observations in [0, 1] with one mean those spread most and are seen latest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

struct ShiftForecast {
  double factor = 2;
  double mean = 0;          // what the shifted observations are on average
  double observations = 0;  // mean number until the alarm; of runs that had none, the cap
  double early = 0,
         late = 0;  // nine in ten runs needed more than `early`, nine in ten at most `late`
  int64_t runs = 0;
  int64_t unseen = 0;  // runs without an alarm within the cap
};

struct PairForecast {
  std::string clause;
  std::string slice;
  bool of_train = false;
  // "proof", "existence", "detector" or "block"; "none": nothing decides it here.
  std::string_view signal;
  std::string metric;
  double limit = 0;  // m; of a proof the threshold
  int64_t detectors = 0;
  double alarm_level = 0;  // c of each
  bool of_events = false;  // every line is an observation, audited or not
  bool certifies = false;
  std::string why;  // why no evidence here makes it satisfied; empty: some may
  Action action = Action::kLog;
  std::string target;                 // empty: requests stay
  std::vector<ShiftForecast> shifts;  // none: there is no detector
};

struct MonitorForecast {
  int64_t detectors = 0;   // of one kernel
  double alarm_level = 0;  // c of each
  Action on_broken = Action::kLog;
  std::string broken_target;
  std::vector<PairForecast> pairs;  // in the order of the contract
};

struct ForecastOptions {
  Stage stage = Stage::kFull;
  std::string clause;  // only this one; empty: all
  int64_t runs = 200;
  uint64_t seed = 1;
  int64_t observations_max = 200'000;  // of one run
};

// Fails as Monitor::Make does.
Result<MonitorForecast> ForecastMonitor(const Contract& contract, const MonitorPolicy& policy,
                                        std::span<const double> factors,
                                        const ForecastOptions& options = {});

}  // namespace kcc
