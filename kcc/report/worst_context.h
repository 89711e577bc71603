// The surroundings of the worst tokens, where the traces are at hand: a summary keeps the request,
// position and token alone, so that it stays small.
//
// The context is the ids of the tokens around it, the token itself as ⟦id⟧. Where the request
// carries `token_texts` (a list with one text for each output token; kcc knows no tokeniser), it is
// those texts instead. Prompt tokens are shown only as far as the traces hold rows that count.
#pragma once

#include "kcc/base/result.h"
#include "kcc/report/report.h"
#include "kcc/trace/pairing.h"

namespace kcc {

// Fills in context and tags of every worst token whose request the pair holds. Cost: one pass over
// the rows of those requests.
Result<> AddWorstContext(const PairedTraces& pair, ReportData* report);

}  // namespace kcc
