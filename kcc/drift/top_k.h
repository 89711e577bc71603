// What two top-k lists say about a token: an interval for each quantity (docs/math.md B.1-B.3) that
// holds the value which full logits would have given, whatever the unlisted tokens are.
//
// Log-probs arrive rounded, so each is widened to lp +- error before anything is concluded from it.
// Float32 storage alone makes an error of 2^-24 |lp|, and a kernel that scales and normalises in
// float32 adds about an ulp of the largest scaled logit: the default, 2^-20 (s + |lp|), covers both
// for logits below 16, where s is 1, and at a temperature below 1 the least power of two that is
// not below 1/temperature. Text with few digits needs a larger `rounding`.
//
// Lists hold log-probs of softmax(z / temperature), z the logits: differences of log-probs times
// the temperature are differences of logits. logit_linf, logit_l2 and margin are in unscaled logits
// and need that factor; logit_span and the divergences are of the distributions as listed.
#pragma once

#include <limits>

#include "kcc/drift/token_drift.h"

namespace kcc {

struct TopListPair {
  TopList train;
  TopList infer;
  size_t vocab = 0;
  // The temperature that both listed distributions are at: 1 for raw log-probs, whatever the tokens
  // were sampled at; the scale of log-probs that were scaled.
  double temperature = 1;
  double rounding = 0x1p-20;
  // The sampled token and its log-probs, where known; they need not be in the lists.
  int32_t token = -1;
  double train_logprob = std::numeric_limits<double>::quiet_NaN();
  double infer_logprob = std::numeric_limits<double>::quiet_NaN();
};

// Adds the wanted slots. kl, reverse_kl, chi2, reverse_chi2, logit_span and _linf are bounded from
// below only (the end above is +inf) unless the lists cover the vocabulary, logit_l2 always; raw
// logit distances stay unknown, since log-probs do not hold them. Overlaps and ranks are exact
// where the lists decide them and intervals over the orders that a tie leaves open
// (top_list_order.h): the last place of a list is open unless the unlisted mass is too small for a
// tie there. A log-prob of -inf is a probability of 0, and ends a list. Fails on empty lists, ids
// outside the vocabulary or twice, log-probs that are no log-probs, and a temperature that is none.
Result<> MeasureTopK(const TopListPair& pair, const SlotSet& wanted, TokenDrift* out);

}  // namespace kcc
