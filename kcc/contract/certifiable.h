// What a sample of traffic can and cannot show (MATH B.4 and W12). The checker warns by it, explain
// says it, and the judge never calls such a clause satisfied from samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"

namespace kcc {

enum class Certifiable : uint8_t {
  kYes,
  kNotExtreme,        // a maximum: the next request may be the worst
  kNotUnboundedMean,  // a mean of an unbounded quantity has no upper confidence bound
};

// A soft clause is a share of windows, so it can always be certified; so can a percentile.
Certifiable CertifiableForTraffic(const Clause& clause, const Assumptions& assumptions);

// Why the judge can never call the clause satisfied from samples of traffic, whatever they show; in
// words, empty if it can. Beyond CertifiableForTraffic: a threshold at the best value there is,
// shares of tokens without assumptions.tokensMax, windows of time, quantities without a test.
std::string WhyNeverCertified(const Clause& clause, const Assumptions& assumptions);

// The clauses of the stage that its verdicts can never call satisfied: the clause and why. Offline
// speaks of what the contract says; shadow, canary and full are about traffic.
struct UndecidableClause {
  const Clause* clause;
  std::string why;
};
std::vector<UndecidableClause> UndecidableClauses(const Contract& contract, Stage stage);

}  // namespace kcc
