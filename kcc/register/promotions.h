// Promotions that a register keeps: the states of kcc/promotion as promotion.changed events, and
// the evaluations of the register as their evidence (docs/promotion.md "In a register").
//
// The machine decides, the register remembers. Every function here reads the state, takes one step
// and appends the new state on the condition that nobody wrote in between; where somebody did, it
// reads again. So two writers never both move one promotion, and a step is there as a whole or not
// at all. Nothing is carried out: the commands of a step are the caller's to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/policy.h"
#include "kcc/promotion/promotion.h"
#include "kcc/register/register.h"
#include "kcc/register/statements.h"

namespace kcc {

struct KeptPromotion {
  PromotionState state;
  PromotionPolicy policy;
  std::string policy_blob;  // digest of its text
  std::string triple;       // of the candidate
  // Numbers of events: the last evaluation.recorded that a step has taken, and the
  // promotion.changed with which the present stage, or step of the canary, was entered.
  int64_t considered = 0;
  int64_t entered = 0;
  Event event;  // the one that holds all this
};

// Fails with kInvalid where there is none of this name.
Result<KeptPromotion> ReadPromotion(Register& source, const std::string& id);
// All of them, in the order in which they were proposed.
Result<std::vector<KeptPromotion>> ReadPromotions(Register& source);

// One change, as the log has it.
struct PromotionHistoryRow {
  Event event;
  std::string from;
  std::string to;
  std::string cause;
  std::string reason;  // in words
};
// Oldest first. Fails with kInvalid where there is no promotion of this name.
Result<std::vector<PromotionHistoryRow>> ReadHistory(Register& source, const std::string& id);

struct Proposer {
  std::string actor;
  int64_t time_ms = 0;
  StatementSigning signing = {};
};

struct PromotionStart {
  std::string id;
  std::string lane;       // promotions of one lane take turns
  std::string candidate;  // triple
  std::string incumbent;  // triple of what serves; asked only of the first in its lane
  std::string routing;    // of the candidate, where that is what changes
  std::string hardware;
  std::string policy_text;  // a valid PromotionPolicy
};

// What one call did, oldest first. `state` is the promotion's after all of it.
struct PromotionChange {
  PromotionState state;
  std::vector<StepResult> steps;
  // The next of the lane, which the end of this one let start.
  std::optional<PromotionState> started_next;
};

// Proposes, and starts at once where nobody holds the lane. A promotion of this name that was
// rolled back, with the same triple and policy, is tried again once its cool-down is over; only
// what is recorded from then on counts.
Result<PromotionChange> StartPromotion(Register& target, const PromotionStart& start,
                                       const Proposer& by);

// One event of a person, a hook or a clock. An event that changes nothing is not written. An
// approval fails with kInvalid where the policy wants it signed and it is not, or by a key that
// `by.signing.keyring` does not believe. With a keyring, an approval in the state that must be
// signed and that no statement shows freezes the promotion before the event.
Result<PromotionChange> SendEvent(Register& target, const std::string& id,
                                  const PromotionEvent& event, const Proposer& by);

// Takes every evaluation that was recorded for the candidate since the last call, oldest first, and
// then the time. Evaluations of a stage that the promotion had not entered when they were recorded
// do not count for it; what is violated in them does. With a keyring, an approval in the state that
// must be signed and that no statement shows freezes the promotion.
Result<PromotionChange> AdvancePromotion(Register& target, const std::string& id,
                                         const Proposer& by);

}  // namespace kcc
