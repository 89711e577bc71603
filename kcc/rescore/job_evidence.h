// From a job whose questions are answered to observations. Pure: no kernel is asked here, and
// nothing is read from a clock. Whose word a field is: docs/semantics.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/monitor/observation.h"
#include "kcc/monitorlog/unread_line.h"
#include "kcc/rescore/rescore_job.h"
#include "kcc/rescore/token_rows.h"

namespace kcc {

// Whether clauses of the contract compare what both sides' own runs came to, so that the audit
// kernel must write answers of its own: gaps of refusals, parses and rewards, outputs, signatures,
// and metrics of the audit kernel's own run.
bool NeedsOwnAnswers(const Contract& contract);

// What became of a job. `lost` is set, or `observation` is.
struct JobEvidence {
  std::optional<MonitorObservation> observation;
  std::string lost, lost_word;
};

class EvidenceMaker {
 public:
  EvidenceMaker(const Contract& contract, bool keep_texts);

  // Of the kernel that served the record, or was shown it.
  JobEvidence OfServed(const RescoreJob& job) const;
  // Of the candidate. Precondition: job.candidate_kernel.
  JobEvidence OfCandidate(const RescoreJob& job) const;
  // What the kernel gave when it was asked again. Precondition: job.again.
  JobEvidence OfRepeat(const RescoreJob& job) const;
  // An answer with another fingerprint than the kernel's: broken evidence, sampled or not.
  MonitorObservation OfFingerprint(const ServedRecord& record) const;

  // Why log-probs of these semantics, of tokens drawn as asked, are not of the distributions that
  // the contract is about; empty: they are. `audit`: what the other side shows.
  std::string WhyNotComparable(LogprobSemantics semantics, const AskedRecord& asked,
                               EvidenceLevel audit) const;

 private:
  void AddRun(const RescoreJob& job, MonitorObservation* observation) const;
  void AddTrain(const RescoreJob& job, MonitorObservation* observation) const;
  MonitorObservation Begin(const RescoreJob& job, const std::string& kernel) const;
  JobEvidence Score(const RescoreJob& job, MonitorObservation* observation) const;
  Rows MakeRows(const RescoreJob& job, std::vector<ScoredToken> infer) const;

  const RowMaker rows_;
  const double temperature_;
  const bool keep_texts_;
};

// What both wrote, by ids where both have them.
OutputComparison CompareAnswers(const RescoreJob& job);

// "sha256:..." of an answer to the job's request: of its token ids, or of its text where one of the
// answers that are compared with it tells no ids.
std::string AnswerSignature(const RescoreJob& job, const ServedRecord& answer);

}  // namespace kcc
