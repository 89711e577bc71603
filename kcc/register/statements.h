// Signed statements in the register: what an evaluation or a step of a promotion says, as an
// in-toto Statement in an envelope, stored as a blob that a statement.added event names. It stands
// in the same batch as the event that it is about. Checking them: statement_check.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/record.h"
#include "kcc/register/register.h"
#include "kcc/statement/attest.h"
#include "kcc/statement/keyring.h"
#include "kcc/statement/promotion_record.h"

namespace kcc {

using SignerList = std::span<const std::unique_ptr<Signer>>;

// Who signs what a call writes, and by which keys approvals are believed.
struct StatementSigning {
  SignerList signers = {};           // empty: nothing is signed
  const Keyring* keyring = nullptr;  // null: no signature is believed
  std::string kcc_version = {};      // which signs it
};

// {"statement", "about", "event"}: `about` is an entry's key text, such as "evaluation 6".
NewEvent StatementAdded(const std::string& envelope, const EntryKey& about, int64_t event,
                        const std::string& actor, int64_t time_ms);

// The envelope about the evaluation that RecordRun will write. It does not depend on the head, so a
// key in a device is asked once, however often the writing is tried again.
Result<std::string> SignRun(const JudgedRun& run, SignerList signers);

// The envelope about one step of a promotion, or about an approval. The names of the contract and
// of what signs are added here.
Result<std::string> SignPromotion(Register& source, PromotionRecord record,
                                  const StatementSigning& signing);

}  // namespace kcc
