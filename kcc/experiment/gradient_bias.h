// What corrections of kcc/rl leave of the policy gradient's bias, on a problem that can be
// enumerated, where all of it is known exactly:
//
//   gradient    grad J = E_P[v sum_t S_t],       S_t = grad log p(y_t | y_<t)
//   estimator   E_Q[v sum_t phi_t S_t],          phi_t: what CorrectRl gives, rejection included
//   bias        the length of the difference
//   bound       A G sum_t E_Q|W - phi_t|         docs/math.md A.7, outcome advantages
//
// Of an uncorrected estimator the bound is Proposition 2's, 2 A G_seq TV(P, Q), with a whole
// continuation as the action. A bound is refuted by a bias above it and by nothing else: a bias far
// below it says nothing (docs/math.md W10).
//
// The advantage v is given with the continuation. What a batch adds (normalised weights, a group's
// other rollouts, a loss divided by the tokens that were kept) is another estimator.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/bounds/weights.h"
#include "kcc/experiment/enumerable.h"
#include "kcc/rl/correction.h"

namespace kcc {

// What stands between a sampled continuation and the gradient. `ppo`: the rollout's log-probs are
// taken for the old policy's (bypass), and PPO's clip at this range acts on w; the correction is
// then not looked at.
struct GradientCorrection {
  std::string name;
  RlCorrection correction;
  std::optional<CorrectionRange> ppo;
};
// Those of experiment E3.
std::vector<GradientCorrection> ExperimentCorrections();

struct GradientBias {
  std::string name;
  double bias = 0;
  double relative = 0;  // to the length of grad J
  double cosine = 0;    // of the angle with grad J; 0 where either is 0
  // A min(G sum_t E_Q|W - phi_t|, G_seq E_Q|W - phi|), the latter where a continuation has one
  // weight. What the laws must be enumerated, or sampled, for.
  double bound = 0;
  // The same at the worst laws with these spans; none where kcc/bounds has no supremum (rejection).
  std::optional<double> span_bound;
  double kept = 0;           // share of tokens with a weight, under Q
  double second_moment = 0;  // E_Q phi^2 of a token

  // Beyond what adding up can do.
  bool refutes(double a_bound) const { return bias > a_bound * (1 + 1e-12) + 1e-13; }
};
// Fails where CorrectRl does, and for weights that a batch normalises.
Result<GradientBias> BiasOf(const EnumerableProblem& problem, const GradientCorrection& correction);

// The problem with advantages of size A that make the bias large: v = +-A by the sign of each
// continuation's part in the bias, again and again until nothing changes. A local maximum.
Result<EnumerableProblem> WithWorstAdvantages(EnumerableProblem problem,
                                              const GradientCorrection& correction,
                                              double advantage);

// What a run with a model would see: `samples` continuations drawn from Q and corrected, as many
// drawn from P, and the distance of the two mean gradients. Its square is on average the bias's
// square and the floor's, so that a distance near the floor is none.
struct SampledBias {
  double distance = 0;
  double floor = 0;     // sqrt of the two means' summed variances
  double bias() const;  // sqrt(distance^2 - floor^2), 0 below the floor
};
Result<SampledBias> SampleBias(const EnumerableProblem& problem,
                               const GradientCorrection& correction, size_t samples, uint64_t seed);

// For a page: all corrections on one problem.
struct GradientBiases {
  EnumerableLaws laws;
  size_t vocabulary = 0, length = 0, samples = 0;
  std::vector<GradientBias> exact;
  std::vector<SampledBias> sampled;  // beside them
  std::vector<GradientBias> worst;   // likewise, under advantages of size A that were made bad

  size_t refuted() const;  // bounds, of either kind
};
Result<GradientBiases> MeasureBiases(const EnumerableProblem& problem,
                                     std::span<const GradientCorrection> corrections,
                                     size_t samples, uint64_t seed);
// An object.
void WriteBiases(const GradientBiases& biases, JsonWriter* json);
// A table's head and rows, for MarkdownTable and TextTable. Biases, bounds and distances are in
// units of the length of grad J.
std::vector<std::string> BiasTableHead();
std::vector<std::vector<std::string>> BiasTableRows(const GradientBiases& biases);

}  // namespace kcc
