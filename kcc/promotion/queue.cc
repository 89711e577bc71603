#include "kcc/promotion/queue.h"

#include <algorithm>

namespace kcc {

bool HoldsLane(const PromotionState& state) {
  return state.started && !IsOver(state.phase) && !state.settled;
}

Turn NextTurn(std::span<const PromotionState> states, std::string_view lane) {
  Turn turn;
  for (const PromotionState& state : states) {
    if (state.lane != lane) continue;
    if (HoldsLane(state)) {
      return {nullptr, state.id + " holds the lane; it is " + std::string(Name(state.phase))};
    }
    if (turn.next == nullptr && state.phase == Phase::kProposed) turn.next = &state;
  }
  turn.why = turn.next == nullptr ? "nobody waits" : turn.next->id + " has waited longest";
  return turn;
}

Deployment ServesNow(std::span<const PromotionState> states, std::string_view lane) {
  const PromotionState* settled = nullptr;
  const PromotionState* oldest = nullptr;
  for (const PromotionState& state : states) {
    if (state.lane != lane) continue;
    if (oldest == nullptr) oldest = &state;
    if (!state.settled || state.phase != Phase::kFull) continue;
    const auto at = [](const PromotionState& one) {
      return one.passed.empty() ? 0 : one.passed.back().at_ms;
    };
    if (settled == nullptr || at(state) >= at(*settled)) settled = &state;
  }
  if (settled != nullptr) return settled->candidate;
  return oldest != nullptr ? oldest->incumbent : Deployment();
}

}  // namespace kcc
