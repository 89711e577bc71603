// What two top-k lists say about order: which tokens are among the first k of a row, and the rank
// of one of them. Ties go to the lower id, as in a full row.
//
// Taken from a list: its order is the order of the logits, and no unlisted logit is above the last
// listed one. A larger log-prob is then a larger logit. Equal log-probs are either equal logits,
// where the lower id comes first whatever the list's order is, or logits that differ by less than
// the log-probs' rounding, where the list's order is right: two tokens are decided where both say
// the same. An unlisted token may tie with the last listed one, if there is mass enough for it.
#pragma once

#include "kcc/drift/top_list_view.h"

namespace kcc {

// |first k of p, and of q| / k, as Overlap() in top_tokens.h defines it.
Interval OverlapInterval(const SideView& p, const SideView& q, size_t k, size_t vocab);

// Of any token, listed or not.
Interval RankInterval(const SideView& side, int32_t token, size_t vocab);

}  // namespace kcc
