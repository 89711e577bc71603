// What changed between two contracts, in words, and whether it became looser.
//
// The promise (docs/diff.md): if nothing is called looser or unclear, every summary that satisfies
// the new contract satisfies the old one. So whatever is not provably at least as tight counts as
// looser: a changed predicate, a slice lost from a clause, a longer window.
#pragma once

#include <string>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/contract/contract.h"

namespace kcc {

enum class ChangeKind : uint8_t { kLooser, kTighter, kNew, kGone, kOther };

struct Change {
  ChangeKind kind = ChangeKind::kOther;
  bool loosens = false;  // kLooser and kGone always; kOther never
  std::string where;     // "clause N-1", "slice safety", "escalation", "metadata"
  std::string what;      // "threshold of p99_logit_linf raised from 0.05 to 0.1"
};

// Looser changes first, then by where.
std::vector<Change> DiffContracts(const Contract& before, const Contract& after);

std::string_view Name(ChangeKind kind);
void WriteChanges(const std::vector<Change>& changes, JsonWriter* json);

}  // namespace kcc
