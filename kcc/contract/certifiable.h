// What a sample of traffic can and cannot show (MATH B.4 and W12). The checker warns by it, explain
// says it, and the judge never calls such a clause satisfied from samples.
#pragma once

#include <cstdint>

#include "kcc/contract/contract.h"

namespace kcc {

enum class Certifiable : uint8_t {
  kYes,
  kNotExtreme,        // a maximum: the next request may be the worst
  kNotUnboundedMean,  // a mean of an unbounded quantity has no upper confidence bound
};

// A soft clause is a share of windows, so it can always be certified; so can a percentile.
Certifiable CertifiableForTraffic(const Clause& clause, const Assumptions& assumptions);

}  // namespace kcc
