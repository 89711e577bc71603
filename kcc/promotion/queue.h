// Several candidates for one place: promotions of one lane take turns, in the order in which they
// were proposed. Pure, like the machine; who keeps the states sees to it that two writers do not
// both start one (a register's append with an expected head).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kcc/promotion/promotion.h"

namespace kcc {

// Whether it holds the lane: started, and neither over nor settled.
bool HoldsLane(const PromotionState& state);

struct Turn {
  const PromotionState* next = nullptr;  // to be sent a start; null: nobody
  std::string why;                       // in words
};

// `states`: the promotions of the lane, oldest first; others are passed over.
Turn NextTurn(std::span<const PromotionState> states, std::string_view lane);

// What serves in the lane now: the candidate of the latest that is settled, else the incumbent that
// the oldest was proposed against.
Deployment ServesNow(std::span<const PromotionState> states, std::string_view lane);

}  // namespace kcc
