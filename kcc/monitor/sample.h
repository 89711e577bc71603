// What one request, or one block, says of one clause on one slice: the observation that detectors
// and PASS tests take (signal.h).
//
// What is missing may be anything: it counts as the worst for a PASS test and as the best for a
// detector, so that neither verdict rests on it.
#pragma once

#include <array>
#include <cstddef>

#include "kcc/monitor/request_evidence.h"
#include "kcc/monitor/signal.h"
#include "kcc/summary/window.h"

namespace kcc {

struct Sample {
  bool defined = false;   // false: the request is no observation of the clause
  bool broken = false;    // a value that cannot be, or that breaks an assumption of the contract
  bool sure = false;      // surely beyond the threshold
  bool possible = false;  // possibly
  double value = 0;       // of the metric, where it is one number
  double bad = 0;         // for the recent mean: bad mass, of so much
  double weight = 0;
  // By test of the signal.
  std::array<UnitValue, 2> for_pass{};
  std::array<UnitValue, 2> for_fail{};
};

// Precondition: the slice touches the request, and the signal is not of kBlock or kNone.
Sample SampleOf(const ClauseSignal& signal, const Plan& plan, size_t slice,
                RequestEvidence* evidence);

// A unit beyond the threshold or not, as X of a soft clause.
void SetUnit(bool sure, bool possible, Sample* sample);

// The value of a block.
Sample SampleOfBlock(const ClauseSignal& signal, const Plan& plan, const WindowState& state,
                     bool doubtful);

}  // namespace kcc
