// The other way round of a dialect's translation: a canonical correction in the framework's own
// settings, ready to paste.
//
// Settings are proposed by rule and checked by translating them back (dialect.h): what does not
// mean the same correction is not given. So a framework either can say a correction or it cannot.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/rl/correction.h"

namespace kcc {

struct DialectSettings {
  std::string function;            // whose options they are; empty where nothing is to be set
  std::string options;             // JSON, as TranslateDialect reads them
  std::vector<std::string> lines;  // as the framework is configured, "key=value"
  std::vector<std::string> notes;  // where a name misleads, from the translation
};

// Dialects whose settings are known, by id.
std::vector<std::string_view> SettingsDialects();

// None where the framework cannot say the correction, or the dialect is none of the above.
std::optional<DialectSettings> SettingsFor(std::string_view dialect,
                                           const RlCorrection& correction);

// The same weights and mask for every batch; names do not count, nor thresholds that are not used.
bool SameCorrection(const RlCorrection& a, const RlCorrection& b);

}  // namespace kcc
