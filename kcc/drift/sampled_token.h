// Quantities of the sampled token, from its two log-probs, in double (docs/design.md section 6).
//
// They follow from the two log-probs alone, at whatever temperature those are: nothing here is in
// logits, so nothing is unscaled. They are exact facts about the token. What a single token y ~
// infer says about the whole distributions is only an unbiased estimate (docs/math.md B.4): a
// different function with a different result type, so that one cannot be stored as the other.
#pragma once

#include <array>

#include "kcc/drift/token_drift.h"

namespace kcc {

struct SampledToken {
  double train_logprob = 0;  // log p(y)
  double infer_logprob = 0;  // log q(y)
  // log w = log p(y) - log q(y). Kept apart: full logits give it without the cancellation of the
  // subtraction.
  double log_ratio = 0;
};

// From recorded log-probs. NaN, +inf and -inf on both sides are refused (the last is a token that
// neither kernel could have sampled).
Result<SampledToken> SampledTokenFromLogprobs(double train_logprob, double infer_logprob);

// Writes the wanted ones of SampledTokenSlots(). bit_mismatch and ulp_gap compare the log-probs
// rounded to float32.
void PublishSampledToken(const SampledToken& token, const SlotSet& wanted, TokenDrift* out);

// The token quantities that the catalog says need no more than the sampled token.
SlotSet SampledTokenSlots();

// Of those, the ones about the float32 bits that the kernels wrote: bit_mismatch and ulp_gap. They
// need log-probs of one origin. Where one side's is computed here from logits, and the other's by a
// kernel, two kernels with equal bits would seem to differ.
SlotSet LogprobBitSlots();

// One-sample estimates of distributional quantities, unbiased if and only if y ~ infer, that is
// sampled at the temperature that the log-probs are at: their mean over tokens is meaningful, a
// percentile or maximum of them is not. By slot, for the slots of EstimableSlots(): tv (1-w)+,
// kl w log w - w + 1, reverse_kl w - 1 - log w, js, hellinger (1 - sqrt w)^2 / 2, chi2 (w-1)^2,
// reverse_chi2 (w-1)^2 / w.
struct SampleEstimates {
  std::array<double, kTokenSlotsMax> value{};
  SlotSet known;
};
SampleEstimates EstimateFromSample(const SampledToken& token, const SlotSet& wanted);

SlotSet EstimableSlots();

// JS(p, q) = sum p JsTerm(log q/p): (e^x (x - log m) - log m) / 2 with m = (1 + e^x) / 2,
// without cancellation near 0. Precondition: x < 700.
double JsTerm(double x);

}  // namespace kcc
