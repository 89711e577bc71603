// Names corrections whose settings are vacuous: thresholds that act on everything or on nothing,
// bands without w = 1, rejection that leaves no token. Some of it the numbers themselves say; the
// rest a batch shows, each rule applied alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/lint.h"

namespace kcc {

enum class RlSettingFault : uint8_t {
  kExcludesOne,        // the bounds leave out w = 1: they act where the two sides agree
  kAlwaysActs,         // at least 99 % of the units are outside the bounds
  kRejectsEverything,  // no token is left
  kRejectsSlice,       // no token of a slice is left
  kNeverActs,          // every unit is inside the bounds: on this batch the setting is idle
};
std::string_view RlSettingFaultName(RlSettingFault fault);  // "excludes_one" …

struct RlSettingFinding {
  std::string setting;  // "weight", "reject[0]", "veto", or "correction": all rules together
  RlSettingFault fault = RlSettingFault::kNeverActs;
  std::string message;
  std::vector<RlEvidence> evidence;

  // An idle threshold on a good batch is what one hopes for; everything else is a mistake.
  bool is_note() const { return fault == RlSettingFault::kNeverActs; }
};

// In the order of the rules; what concerns all of them together at the end.
Result<std::vector<RlSettingFinding>> LintCorrection(const RlBatch& batch,
                                                     const RlCorrection& correction,
                                                     int threads = 1);

}  // namespace kcc
