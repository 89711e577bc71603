// What the evidence says about the traffic it was sampled from (docs/math.md C; docs/design.md
// section 8).
//
// The independent unit is the request. Rates of requests and of windows are decided by the exact
// binomial test where the evidence is judged once and by bets where it is looked at again, rates
// and bounded means of tokens by bets over requests that hold whatever the dependence inside a
// request is. What no sample can certify (a maximum, the mean of an unbounded quantity) is never
// called satisfied, and the reason names the form of clause that can be; such a mean can still be
// refuted (docs/math.md B.4).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/judge/facts.h"
#include "kcc/judge/verdict.h"

namespace kcc {

struct TrafficFinding {
  enum class Kind : uint8_t {
    kProvenViolated,   // seen, not inferred: needs no test
    kProvenSatisfied,  // likewise (a clause that asks for existence)
    kBroken,           // an assumption of the contract does not hold of the evidence
    kTested,           // certified and p_violated say what the test found
    kUntestable,       // no test of this clause form exists
  };
  Kind kind = Kind::kUntestable;
  bool certified = false;
  // p-value of "the clause holds", whatever missing evidence would say; Holm's input.
  double p_violated = 1;
  Interval confidence_interval;  // two-sided, see verdict.h
  std::optional<int64_t> more_requests;
  std::string what;  // the finding in words, without the verdict
};

// How often the same question is put to growing evidence. A sample of a size fixed in advance is
// judged once; what is watched while it grows needs tests that hold however often one looks.
enum class Looks : uint8_t { kOnce, kAgain };

// `tests`: TestsOf(clause, assumptions), the same for all slices of the clause; alpha = 1 -
// confidence of the clause. Precondition: the facts hold evidence that is not broken.
TrafficFinding FindInTraffic(const Clause& clause, const Assumptions& assumptions,
                             const std::vector<PlanTest>& tests, const Facts& facts,
                             const Summary& summary, double alpha, Looks looks);

}  // namespace kcc
