// Whether the signed statements that a register holds are true of it: signed by keys of a keyring
// that were valid at the time that the log gives, and about what the log says, word for word.
// Private to register/.
//
// The log is the measure: a statement that says another verdict, triple or step than the event that
// it is about does not hold, whoever signed it. And what a policy asks to be signed must be.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "kcc/base/result.h"
#include "kcc/register/promotions.h"
#include "kcc/register/register.h"
#include "kcc/register/signed_stages.h"
#include "kcc/statement/keyring.h"
#include "kcc/statement/promotion_record.h"
#include "kcc/statement/verify.h"

namespace kcc {

class StatementChecker {
 public:
  // Both must outlive it.
  StatementChecker(Register& source, const Keyring& keyring)
      : source_(source), keyring_(keyring), stages_(source) {}

  // A statement.added event and the envelope that it names. What is wrong with it, as a sentence;
  // empty: it holds.
  Result<std::string> CheckStatement(const Event& event, const std::string& envelope);

  // Every promotion.changed event in its order, after all statements: whether the approvals that
  // the policy wants signed were signed before it.
  Result<std::string> CheckPromotion(const Event& event) { return stages_.Follow(event); }

  const SignedStages& stages() const { return stages_; }
  int64_t statements() const { return statements_; }
  // Whether a statement about this event was found to hold.
  bool IsSigned(int64_t sequence) const { return signed_.count(sequence) > 0; }

 private:
  Result<std::string> CheckAbout(const Event& event, const Verification& found);
  Result<std::string> CheckEvaluation(const Event& about, const Verification& found);
  Result<std::string> CheckGeneric(const Event& about, const Verification& found);
  Result<std::string> CheckStep(const Event& event, const Event& about, const Verification& found);
  Result<std::string> CheckApproval(const Event& about, const PromotionRecord& record);
  Result<std::string> CheckEvidence(const PromotionRecord& record);
  Result<std::optional<Event>> EventAt(int64_t sequence);

  Register& source_;
  const Keyring& keyring_;
  int64_t statements_ = 0;
  std::set<int64_t> signed_;
  SignedStages stages_;
};

// The first approval in the state of `kept` that the policy wants signed and that no statement in
// the register shows to have been given in this stay, as a sentence; empty: there is none.
Result<std::string> UnbackedApproval(Register& source, const KeptPromotion& kept,
                                     const Keyring& keyring);

}  // namespace kcc
