// A threshold from margins (docs/math.md A.5, paper 3.3): a token's most likely choice stays while
// the span of the drift is below the margin of the train side. So the margins on a set of tokens
// say how large a span may be before more than a given share of them can flip, whichever way the
// drift goes.
//
// It is a ceiling: most tokens whose margin is smaller than the span do not flip. And it is about
// the tokens of the evidence; other prompts have other margins.
#pragma once

#include <cstdint>
#include <optional>

#include "kcc/summary/summary.h"

namespace kcc {

struct MarginLimit {
  double span = 0;        // of unscaled logits; 0: more than the share are ties or not known
  uint64_t tokens = 0;    // of slice `all`
  uint64_t in_doubt = 0;  // of them: margin at most `span`, or not known
};

// The largest span, up to the width of a histogram's bucket, within which at most `share` of the
// tokens can flip. Nothing where the evidence has no margins. Precondition: 0 <= share < 1.
std::optional<MarginLimit> SpanFromMargins(const Summary& summary, double share);

// The span that all but `share` of the tokens keep within, at most a bucket too large. Nothing
// where the evidence does not bound it: lists of the best tokens say nothing of the others.
std::optional<double> SpanPercentile(const Summary& summary, double share);

}  // namespace kcc
