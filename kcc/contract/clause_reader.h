// Reads one clause and checks what can be checked by looking at it alone: the metric and its
// direction, the threshold's unit and range, the slices it names. What needs the whole contract is
// in validate.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/mapping_reader.h"

namespace kcc {

// The slices a contract defines, by name. Keys view the document's text.
struct SliceIndex {
  struct Row {
    const YamlNode* node = nullptr;  // its name; null for an `all` that was not written
    bool reads_token = false;
    bool used = false;
  };
  std::vector<Row> rows;  // as Contract::slices
  std::unordered_map<std::string_view, uint32_t> by_name;
};

// A clause with the places that later checks point at.
struct ClauseDraft {
  Clause clause;
  std::vector<uint32_t> slice_rows;  // in SliceIndex::rows; sorted
  const YamlNode* metric = nullptr;
  const YamlNode* threshold = nullptr;
  const YamlNode* exceedance = nullptr;  // may be null
};

// Reports what is wrong; none if that is too much for the later checks to make sense of it. `own`:
// the contract's own metrics.
std::optional<ClauseDraft> ReadClause(const MappingReader& mapping, Family family, OwnRows own,
                                      SliceIndex* slices, Problems* problems);

// Reports an error whose message may hold its remedy after "; ".
void ReportWithHint(const YamlNode& at, std::string code, const std::string& message,
                    Problems* problems);

}  // namespace kcc
