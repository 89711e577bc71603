// The bad mass of one request under one test (bets.h): how much of what its tokens, or the request
// itself, amount to lies on the bad side, on a scale on which each token weighs at most 1.
//
// What the evidence does not hold may be anything: missing tokens widen [low, high] by their full
// weight, so that a test over the rest stays valid.
#pragma once

#include "kcc/summary/plan.h"
#include "kcc/summary/request_group.h"

namespace kcc {

struct BadMass {
  double tokens = 0;  // 0: the request is no observation of this test
  double low = 0;
  double high = 0;
  bool broken = false;  // a value outside the range that the contract assumes
};

BadMass BadMassOf(const Plan& plan, const PlanTest& test, const GroupNeeds& needs,
                  const RequestPair& request, const GroupTokens& group);

}  // namespace kcc
