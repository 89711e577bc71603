// The statement about one step of a promotion: which triple went from where to where, under which
// policy, on which evaluations, with whose approval. Predicate type "kcc:promotion/v1".
//
// Plain data: what the steps are called and when one is allowed is the promotion's business. The
// signatures of an envelope may be several, and a verifier can ask for a number of them (verify.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/statement/in_toto.h"

namespace kcc {

struct RecordedApproval {
  std::string by;
  int64_t time_ms = 0;
  std::string note;  // may be empty
};

struct PromotionRecord {
  int64_t time_ms = 0;
  std::string kcc;        // version
  std::string promotion;  // its id in the register
  int64_t sequence = 0;   // of the event in the register's log
  std::string step;       // "advance", "rollback"
  std::string from;       // "canary"
  std::string to;         // "full"
  std::string triple;     // digest
  std::string incumbent;  // the triple that serves until the last step; may be empty
  NamedDigest contract;
  NamedDigest policy;
  std::vector<NamedDigest>
      evaluations;  // "evaluation 12", by the digest of its event, and evidence
  std::vector<RecordedApproval> approvals;
  std::string reason;
};

// Subjects: the triple, the contract, the policy, and the incumbent where there is one. Fails
// (kInvalid) where a digest or the time is none.
Result<Statement> PromotionStatement(const PromotionRecord& record);
Result<PromotionRecord> ReadPromotionRecord(std::string_view predicate);

}  // namespace kcc
