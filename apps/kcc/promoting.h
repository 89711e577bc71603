// What the commands of kcc promote share: who acts, and how a change is told.
#pragma once

#include <optional>

#include "apps/kcc/commands.h"
#include "apps/kcc/signing.h"
#include "kcc/register/promotions.h"

namespace kcc::cli {

// Who acts, and what the signing of it needs while it is written.
struct Actor {
  Proposer by;
  OwnedSigners signers;
  std::optional<Keyring> keyring;
};

// `by` has views of the other two, so they must stay where they are: it is made in place.
Result<> MakeActor(const PromoteOptions& options, const Console& console, Actor* actor);

// In words, or as one JSON object.
void ReportChange(const PromotionChange& change, Console& console);

// 0: moved or at rest, 1: rejected or rolled back, 3: it waits for evidence, people or hooks, or is
// frozen.
int PromotionExitCode(const PromotionState& state);

}  // namespace kcc::cli
