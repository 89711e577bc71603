// YAML text -> Contract. Finds every problem in one run, not the first only.
//
// YAML is read strictly (docs/contract.md#yaml): one document, block or flow style, no tags, no
// duplicate keys, anchors and aliases only within the limits below; every scalar is read as what
// its key asks for, so `NO` is the text NO and never false.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/diagnostic.h"

namespace kcc {

struct ReadOutcome {
  std::optional<Contract> contract;     // present iff there is no error
  std::vector<Diagnostic> diagnostics;  // in the order of the text
};

// Never fails otherwise than by diagnostics; time and memory are bounded by the text's size.
ReadOutcome ReadContract(std::string_view yaml);

// Reads the file; an unreadable or oversized file is an Error, a wrong one is diagnostics.
inline constexpr size_t kContractBytesMax = size_t{4} << 20;
struct ContractFile {
  std::string text;
  ReadOutcome outcome;
};
Result<ContractFile> ReadContractFile(const std::string& path);

}  // namespace kcc
