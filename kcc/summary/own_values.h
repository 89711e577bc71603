// Values of metrics of the user's own (metric/own_metric.h): which record each field is read from.
//
// As for built-in metrics, a value is what the side that the metric names recorded: infer's, or
// train's for train_NAME. What is not that side's to say is read elsewhere:
//
//   prompt_tokens, seed            what was asked, else train's record; never infer's alone
//   output_tokens                  counted from the rows where both sides score the same tokens
//   token.position, token.token    the paired rows
//   token.gold, token.advantage    train's, else infer's (with a warning in the verdict)
//   token.logprob                  the side's own, as recorded
//
// Nothing is lent from the other side: a field that the side did not record is missing, and so is
// the value. One record for both sides (arrays have one) is infer's, as for built-in metrics.
#pragma once

#include <optional>

#include "kcc/metric/metric.h"
#include "kcc/summary/population.h"
#include "kcc/trace/trace.h"

namespace kcc {

// None: missing. A time that is better when lower, without a declared max, is infinite where the
// request timed out: it took longer than can be said. Precondition: a metric of one's own of
// requests.
std::optional<double> OwnRequestValue(const Quantity& quantity, const RequestPair& pair, Side side);

// None: missing. Precondition: a metric of one's own of tokens.
std::optional<double> OwnTokenValue(const Quantity& quantity, const RequestPair& pair, Side side,
                                    const TokenEvidence& train, const TokenEvidence& infer);

}  // namespace kcc
