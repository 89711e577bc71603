// The bets over requests that a summary keeps for one clause on one slice (stats/betting.h), so
// that a token rate or a bounded mean about traffic can be tested with the request as unit.
//
// A request has T tokens whose bad mass is X (exceedances, or values scaled to [0, 1], turned so
// that larger is worse); the observation is docs/math.md C.3b's ratio of sums.
#pragma once

#include <cstdint>

#include "kcc/stats/betting.h"
#include "kcc/summary/archive.h"

namespace kcc {

struct BetSums {
  uint64_t oversized = 0;  // requests that break the clause's assumption, by length or by range
  BettingSums sums;        // over the others that have a token

  // bad_low and bad_high bracket X where the evidence is an interval.
  void Add(const BettingPlan& plan, double tokens, double bad_low, double bad_high,
           double tokens_max);
  void Merge(const BetSums& other);
  bool empty() const { return oversized == 0 && sums.count == 0; }
  bool operator==(const BetSums&) const = default;
  void Visit(Archive& archive, BetGrid grid);
};

}  // namespace kcc
