#include "kcc/rltrain/contract_watch.h"

#include <utility>

#include "kcc/judge/judge.h"
#include "kcc/rl/dump_measure.h"

namespace kcc {

ContractWatch::ContractWatch(Contract contract, std::string train_fingerprint,
                             std::string infer_fingerprint)
    : contract_(std::move(contract)),
      plan_(Plan::FromContract(contract_, Plan::Breadth::kClauses)),
      train_fingerprint_(std::move(train_fingerprint)),
      infer_fingerprint_(std::move(infer_fingerprint)) {}

Result<StepJudgement> ContractWatch::Judge(const RlDump& dump) const {
  RlMeasureOptions how;
  how.train_fingerprint = train_fingerprint_;
  how.infer_fingerprint = infer_fingerprint_;
  KCC_TRY(const Summary summary, MeasureRlDump(dump, plan_, how));
  const Judgement judgement = kcc::Judge(contract_, summary);
  StepJudgement made;
  made.verdict = judgement.verdict;
  made.health = judgement.health;
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      made.clauses.push_back({clause.id, slice.slice, clause.metric, slice.verdict(), slice.value});
      if (slice.verdict() != Verdict::kViolated) continue;
      made.violated += (made.violated.empty() ? "" : ", ") + clause.id + " on " + slice.slice;
    }
    if (clause.verdict != Verdict::kViolated) continue;
    if (!made.order || *made.order < clause.action) made.order = clause.action;
  }
  return made;
}

}  // namespace kcc
