// Every dialect: a reader of its options, what it computes, and what it means in canonical words.
// A new framework is one file, dialect_ID.cc, that defines its Dialect, and one row here.
#pragma once

#include "kcc/rl/dialect_data.h"
#include "kcc/rl/dialect_options.h"

// In the order of help and docs.
#define KCC_RL_DIALECTS(ROW) \
  ROW(kVerlDialect)          \
  ROW(kTrlDialect)           \
  ROW(kOpenRlhfDialect)      \
  ROW(kSlimeDialect)         \
  ROW(kSkyRlDialect)         \
  ROW(kArealDialect)         \
  ROW(kMsSwiftDialect)       \
  ROW(kNemoDialect)          \
  ROW(kRollDialect)          \
  ROW(kPrimeRlDialect)       \
  ROW(kOpenInstructDialect)

namespace kcc {

#define KCC_DECLARE_DIALECT(dialect) extern const Dialect dialect;
KCC_RL_DIALECTS(KCC_DECLARE_DIALECT)
#undef KCC_DECLARE_DIALECT

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
