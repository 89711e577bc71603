// The loss of GRPO and PPO over sampled tokens, and its slope in the log-prob of each.
//
// With r = exp(now - old), A the advantage, phi the weight of a correction and m its mask:
//   L = -sum_t c_t phi_t m_t f(r_t, A_t) + beta sum_t c_t m_t (e^d - d - 1),  d = reference - now
//   f = min(r A, clip(r, 1 - low, 1 + high) A)             PPO (Schulman 2017, arXiv:1707.06347)
//   f = max(that, dual A) where A < 0 and dual is given    dual clip (Ye 2020, arXiv:1912.09729)
// c_t is what a token counts (LossMean). The slope of f is r A where f is r A, else 0. Weights are
// constants: nothing passes through them.
//
// Also advantages: of a group of answers to one problem (GRPO, Shao 2024, arXiv:2402.03300), and
// generalised ones of values (Schulman 2015, arXiv:1506.02438).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

enum class LossMean : uint8_t {
  kTokens,     // 1 / all sampled tokens of the step
  kKept,       // 1 / the tokens that rejection leaves
  kSequences,  // 1 / all sampled sequences / the sequence's tokens
};
std::string_view Name(LossMean mean);  // "tokens", "kept", "sequences"
Result<LossMean> ParseLossMean(std::string_view name);

struct PolicyLossOptions {
  double clip_low = 0.2, clip_high = 0.2;
  double dual_clip = 0;  // 0: none; else above 1
  double kl = 0;         // beta
  LossMean mean = LossMean::kTokens;

  bool operator==(const PolicyLossOptions&) const = default;
};

// Sequence s has the tokens [offsets[s], offsets[s + 1]); arrays are by token.
struct PolicyTokens {
  std::span<const int64_t> offsets;
  std::span<const float> now, old;
  std::span<const float> reference;  // empty: beta is 0
  std::span<const double> advantages;
  std::span<const float> weights;
  std::span<const uint8_t> mask;
  // Of the step, those included that are not here because they have no advantage.
  int64_t sampled_tokens = 0, sampled_sequences = 0;
};

struct PolicyLoss {
  double loss = 0;
  // Tokens at which f is constant: A < 0 below the range, A > 0 above it, beyond the dual clip.
  int64_t clipped_low = 0, clipped_high = 0, clipped_dual = 0;
  std::vector<float> slopes;  // dL / d now
};
PolicyLoss PolicyLossOf(const PolicyTokens& tokens, const PolicyLossOptions& options);

// What a token of each sequence counts. All 0 where nothing is left to count.
std::vector<double> TokenShares(const PolicyTokens& tokens, LossMean mean);

// (reward - mean) / (sd + 1e-6) within each group of `group` answers, sd with the divisor group - 1
// as PyTorch has it; scale false: only the mean is taken off. 0 where all rewards are equal.
std::vector<double> GroupAdvantages(std::span<const double> rewards, size_t group, bool scale);

// Of one sequence whose reward comes at its end: A_t = sum_l (gamma lambda)^l delta_{t+l} with
// delta_t = r_t + gamma V_{t+1} - V_t and V = 0 after the end.
std::vector<double> GeneralisedAdvantages(std::span<const double> values, double reward,
                                          double gamma, double lambda);
// Mean 0 and standard deviation 1 over all tokens, as verl whitens them: divided by
// sqrt(variance + 1e-8), variance with the divisor n - 1.
void Whiten(std::span<double> advantages);

}  // namespace kcc
