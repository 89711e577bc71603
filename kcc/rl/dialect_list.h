// Every dialect: a reader of its options, what it computes, and what it means in canonical words.
// One file each; a new framework is one file, one declaration here and one row in dialect.cc.
#pragma once

#include "kcc/rl/dialect_data.h"
#include "kcc/rl/dialect_options.h"

namespace kcc {

struct DialectCode {
  Result<DialectResult> (*run)(const DialectInput& in, std::string_view function,
                               const OptionValue& options);
  Result<DialectTranslation> (*translate)(std::string_view function, const OptionValue& options);
};

extern const DialectCode kVerlDialect, kTrlDialect, kOpenRlhfDialect, kSlimeDialect, kSkyRlDialect,
    kArealDialect, kMsSwiftDialect, kNemoDialect, kRollDialect, kPrimeRlDialect,
    kOpenInstructDialect;

// Warnings that several dialects give.
inline constexpr std::string_view kWarnSequenceIsProduct =
    "\"sequence\" is the product of a row's ratios here; ms-swift, AReaL and open-instruct mean "
    "the "
    "geometric mean by it";
inline constexpr std::string_view kWarnSequenceIsGeometric =
    "\"sequence\" is the geometric mean of a row's ratios here; verl, TRL, SkyRL, slime, NeMo-RL "
    "and "
    "ROLL mean the product by it";

}  // namespace kcc
