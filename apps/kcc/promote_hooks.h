// The hooks of a promotion policy, called: a program that is started or an address that is posted
// to, each with what the promotion is and why it is asked.
#pragma once

#include "apps/kcc/console.h"
#include "kcc/register/promotions.h"

namespace kcc::cli {

// Calls every hook that the steps of `change` ask for, sends the answers as events, and goes on
// until none is asked. A hook that fails, does not answer in time or answers anything but success
// has said no: silence never advances. Gives everything that happened.
Result<PromotionChange> RunHooks(Register& target, PromotionChange change, const Proposer& by,
                                 Console& console);

}  // namespace kcc::cli
