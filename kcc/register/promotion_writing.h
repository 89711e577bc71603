// One call that moves a promotion: the batch of events and statements that it will append. Private
// to register/; promotions.cc says what is taken, this says how it is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/promotions.h"

namespace kcc {

// What an event says beside the state: where the promotion was, why it changed, and the summary
// that was looked at (empty: none), which the event keeps from gc.
struct ChangeCause {
  std::string from;
  std::string cause;
  std::string evidence;
};

// One call that writes: its batch, what it did, and the number that the next event will have.
struct PromotionWriting {
  Register& target;
  const Proposer& by;
  Batch batch;
  PromotionChange change;
  int64_t next = 0;

  Result<> Begin();

  // `evidence`: the summary that was looked at; empty: none, and then a step that changes nothing
  // is not written. Where somebody signs, a step that moves the promotion has a statement.
  Result<> Take(const StepResult& step, std::string_view cause, const std::string& evidence,
                KeptPromotion* kept);

  // A new state at `next`, with its statement.
  Result<> Change(const KeptPromotion& kept, const ChangeCause& why, const StepResult* step,
                  const std::vector<Approval>& approvals);

  // The event that the batch ends with, as a statement has it.
  PromotionRecord RecordOf(const KeptPromotion& kept, std::string step, std::string from) const;

  // The evaluation by the digest of its event, which stands for the whole log up to it.
  Result<> AddEvidence(const KeptPromotion& kept, const ChangeCause& why, PromotionRecord* record);

  // Gives the envelope.
  Result<std::string> AddStatement(PromotionRecord record);

  // The approval.given, so that who agreed to what stays to be found by itself, whatever the
  // machine makes of it; and its statement. `event` gets the key that signed it, if it is believed.
  Result<> Approve(const KeptPromotion& kept, PromotionEvent* event);

  // Whether an approval can count as signed where the policy asks for that.
  Result<> CheckSigning(const KeptPromotion& kept) const;
};

}  // namespace kcc
