// Tests about traffic by bets over requests (stats/betting.h): token rates, bounded means, gaps,
// and means without an upper end, which can only be shown to be large.
#pragma once

#include <vector>

#include "kcc/judge/traffic.h"
#include "kcc/summary/plan.h"

namespace kcc {

// `tests` as TestsOf gives them; the summary holds their sums. Precondition: not empty.
TrafficFinding TestByBets(const std::vector<PlanTest>& tests, const Facts& facts,
                          const Summary& summary, double alpha, Looks looks);

// |share of infer - share of train| <= threshold, from the requests in which the two sides differ.
TrafficFinding TestPairedFlags(const PairedFlagCounts& flags, double threshold, const Facts& facts,
                               double alpha, Looks looks);

}  // namespace kcc
