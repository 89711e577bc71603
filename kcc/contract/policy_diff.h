// What changed between two promotion policies, in words, and whether it became looser.
//
// The promise: if nothing is called looser, whatever reaches full under the new policy reaches it
// under the old one on the same events. So what is not provably at least as tight counts as looser:
// another command of a hook, steps that are not the old ones and more.
#pragma once

#include <vector>

#include "kcc/contract/diff.h"
#include "kcc/contract/policy.h"

namespace kcc {

// Looser changes first, then by where: "stage canary", "hook change-calendar", "policy".
std::vector<Change> DiffPolicies(const PromotionPolicy& before, const PromotionPolicy& after);

}  // namespace kcc
