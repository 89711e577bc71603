// The canonical form of a contract, and its identity.
//
// Sorted keys, slices by name and clauses by id, every default made explicit, numbers in shortest
// round-trip form, predicates in their canonical spelling. Two documents that mean the same have
// the same canonical bytes; SHA-256 of those bytes is the contract's digest.
#pragma once

#include <string>

#include "kcc/contract/contract.h"

namespace kcc {

std::string CanonicalJson(const Contract& contract);
std::string ContractDigest(const Contract& contract);

// A document for people: docs/design.md section 4's order of keys, one clause a line where it fits,
// defaults left out. Reads back as the same contract (comments are the caller's loss).
std::string ToYaml(const Contract& contract);

}  // namespace kcc
