// The envelope of MATH.md D beside each error source: how far a kernel with one source switched may
// lie from the base kernel, from the model's weights, from what was measured of its activations,
// and from what the switches say about the arithmetic.
//
// Two kernels differ by at most the sum of their distances from exact arithmetic, so that the
// envelope of a source is that of the base plus that of the base with the source switched.
#pragma once

#include <array>
#include <span>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/switches.h"

namespace kcc {

struct SourceEnvelope {
  double worst_linf = 0;        // of any raw logit; no drift may exceed it
  bool vacuous = false;         // the worst case says no more than that logits are bounded
  double statistical_linf = 0;  // for thresholds to propose
};

// By source, and last for all of them together. The activations are measured by running the
// requests through a float64-accumulating kernel; the envelopes hold for those requests.
Result<std::array<SourceEnvelope, 5>> SourceEnvelopes(const Checkpoint& checkpoint,
                                                      const LabSwitches& train,
                                                      const LabSwitches& infer,
                                                      std::span<const KernelRequest> requests);

}  // namespace kcc
