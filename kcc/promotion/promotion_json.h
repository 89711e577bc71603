// Promotions as JSON: what a register stores and a program reads. The same value gives the same
// bytes, and what was written reads back as itself.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/promotion/promotion.h"

namespace kcc {

// One line without a line end. Keys stand in a fixed order.
std::string ToJson(const PromotionState& state);
std::string ToJson(const PromotionEvent& event);  // without what the event's kind does not use
std::string ToJson(const Command& command);
std::string ToJson(const Transition& transition);
std::string ToJson(const StepResult& result);

// Strict: a missing key, an unknown one, a wrong type or an unknown word is an error that names its
// place, "progress.held[0].clean".
Result<PromotionState> ReadPromotionState(std::string_view json);
Result<PromotionEvent> ReadPromotionEvent(std::string_view json);
Result<Command> ReadCommand(std::string_view json);
Result<Transition> ReadTransition(std::string_view json);

}  // namespace kcc
