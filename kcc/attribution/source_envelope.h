// The envelope of docs/math.md D beside each error source: how far a kernel with one source
// switched may lie from the base kernel, from the model's weights, from what was measured of its
// activations, and from what the switches say about the arithmetic.
//
// Two kernels differ by at most the sum of their distances from exact arithmetic, so that the
// envelope of a source is that of the base plus that of the base with the source switched.
#pragma once

#include <array>
#include <memory>
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

// A model as envelopes need it: norms of its weights, and the ranges of its activations over some
// requests, measured by a kernel that sums in double. Envelopes hold for those requests.
class EnvelopeModel {
 public:
  // Whether docs/math.md D says something of such a model: not of biases, nor of norms of query and
  // key heads.
  static bool Covers(const ModelConfig& config);
  // Fails for a model that is not covered. `group`: inputs that share a scale where weights are
  // quantised in groups; 0: none.
  static Result<EnvelopeModel> Measure(const Checkpoint& checkpoint,
                                       std::span<const KernelRequest> requests, size_t group);
  EnvelopeModel(EnvelopeModel&&) noexcept;
  ~EnvelopeModel();

  SourceEnvelope Between(const LabSwitches& train, const LabSwitches& infer) const;
  // Train with one source switched, by source; the last is all of them together.
  std::array<SourceEnvelope, 5> BySource(const LabSwitches& train, const LabSwitches& infer) const;

 private:
  struct State;
  explicit EnvelopeModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kcc
