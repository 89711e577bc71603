#include "kcc/register/promotion_evidence.h"

#include <algorithm>
#include <set>

#include "kcc/contract/canonical.h"
#include "kcc/contract/reader.h"
#include "kcc/format/json.h"
#include "kcc/judge/judge.h"
#include "kcc/promotion/audit.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/register/event_body.h"
#include "kcc/register/record.h"
#include "kcc/summary/file.h"
#include "kcc/summary/restrict.h"

namespace kcc {
namespace {

// What stands in `continues` of evidence that must not count, after "it". It is the digest of
// nothing, so it never equals what a step has.
constexpr std::string_view kNotOfThisStep = "was recorded before this step";
constexpr std::string_view kSharesPassed = "shares requests with a stage or try that is over";
constexpr std::string_view kOverlaps = "shares some requests with this step";

Result<std::string> NeedBlob(Register& source, const std::string& digest, std::string_view what) {
  KCC_TRY(std::optional<std::string> bytes, source.ReadBlob(digest));
  if (!bytes) {
    return InvalidError("the " + std::string(what) + " " + digest +
                            " is no longer stored; `kcc register log` says who removed it",
                        Place{source.name()});
  }
  return std::move(*bytes);
}

struct StepRecord {
  Stage stage = Stage::kOffline;
  std::optional<Population> about;
  std::string summary;  // digest
};

Result<StepRecord> ReadStepRecord(const Event& event) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, event.body));
  const json::object body = root.get_object().value_unsafe();
  StepRecord found;
  const std::string_view stage = JsonText(JsonMember(body, "stage"));
  const auto known =
      std::find_if(kStages.begin(), kStages.end(), [&](Stage one) { return Name(one) == stage; });
  found.summary = JsonText(JsonMember(body, "summary"));
  if (known == kStages.end() || found.summary.empty()) {
    return InvalidError("evaluation " + std::to_string(event.sequence) +
                        (found.summary.empty() ? " has no summary, so it cannot be judged again"
                                               : " is of an unknown stage"));
  }
  found.stage = *known;
  const std::string_view about = JsonText(JsonMember(body, "about"));
  for (const Population one : {Population::kEvaluationSet, Population::kTraffic}) {
    if (about == Name(one)) found.about = one;
  }
  return found;
}

enum class Overlap { kNone, kSome, kHoldsAll };

// Both lists are rising.
Overlap OverlapOf(const std::vector<uint64_t>& had, const std::vector<uint64_t>& now) {
  std::vector<uint64_t> both;
  std::set_intersection(had.begin(), had.end(), now.begin(), now.end(), std::back_inserter(both));
  if (both.empty()) return Overlap::kNone;
  return both.size() == had.size() ? Overlap::kHoldsAll : Overlap::kSome;
}

// Whether the requests are, in part, those of a stage or step that was passed, or of an earlier
// try.
Result<bool> SharesPassed(Register& source, const PromotionState& state, const Summary& summary) {
  std::vector<std::string> digests = state.earlier;
  for (const PassedStep& passed : state.passed) {
    // The evaluation set of the offline stage may well be asked again as live requests.
    if (passed.stage != Stage::kOffline) digests.push_back(passed.evidence);
  }
  for (const std::string& digest : digests) {
    KCC_TRY(const std::optional<std::string> bytes, source.ReadBlob(digest));
    if (!bytes) continue;  // removed since; its digest still keeps it from counting twice
    KCC_TRY(const Summary before, DecodeSummary(*bytes));
    if (OverlapOf(before.requests, summary.requests) != Overlap::kNone) return true;
  }
  return false;
}

// The summary that a look is at.
struct LookedAt {
  Summary summary;
  std::string continues;
  bool recorded = true;  // it is the recorded one; else it was joined, or restricted to a plan
  std::string remark = {};
};

// A step is measured by the plan that its first evidence was measured by: a proposal elsewhere that
// sets another contract beside this one makes later evidence richer, which must not end the step.
// Gives what in `looked` does not fit the plan; empty: nothing.
std::string HoldToPlan(const Plan& plan, LookedAt* looked) {
  Summary& summary = looked->summary;
  if (summary.plan == plan) return {};
  const std::string change = "was measured by plan " + summary.plan.Digest() +
                             ", and the step began with plan " + plan.Digest();
  Result<Summary> restricted = Restrict(summary, plan);
  if (!restricted.has_value()) return change + ": " + restricted.error().message();
  summary = std::move(*restricted);
  looked->recorded = false;
  looked->remark = "the evidence " + change + ", which is all that counts of it in this step";
  return {};
}

// Joins it with what the step has where the two share no request, and says what it continues.
Result<> JoinWithStep(Register& source, const KeptPromotion& kept, bool own_stage,
                      bool recorded_before, LookedAt* looked) {
  if (!own_stage || kept.state.phase == Phase::kOffline) return {};
  const auto does_not_count = [&](std::string_view why) -> Result<> {
    looked->continues = why;
    return {};
  };
  if (recorded_before) return does_not_count(kNotOfThisStep);
  KCC_TRY(const bool shares, SharesPassed(source, kept.state, looked->summary));
  if (shares) return does_not_count(kSharesPassed);
  const std::string& had = kept.state.progress.evidence;
  if (had.empty()) return {};
  KCC_TRY(const std::string bytes, NeedBlob(source, had, "evidence"));
  KCC_TRY(const Summary step, DecodeSummary(bytes));
  const Overlap overlap = OverlapOf(step.requests, looked->summary.requests);
  if (overlap == Overlap::kSome) return does_not_count(kOverlaps);
  const std::string other_plan = HoldToPlan(step.plan, looked);
  if (!other_plan.empty()) return does_not_count(other_plan);
  looked->continues = had;
  if (overlap == Overlap::kHoldsAll) return {};
  KCC_TRY(looked->summary, Merge(step, looked->summary));
  looked->recorded = false;
  return {};
}

// The incumbent's verdicts, where the register has an evaluation of it on the same requests.
Result<> AddIncumbentOf(Register& source, const PromotionState& state, const Contract& contract,
                        const Summary& summary, const JudgeOptions& options,
                        Evaluation* evaluation) {
  if (state.incumbent.empty()) return {};
  const Deployment& serves = state.incumbent;
  const std::string triple = TripleId({serves.model, serves.train, serves.infer, serves.contract});
  KCC_TRY(const std::vector<Entry> entries,
          source.List({.table = EntryTable::kEvaluations, .subject = triple}));
  for (const Entry& entry : entries) {  // the newest first
    const Result<StepRecord> recorded = ReadStepRecord(entry.event);
    if (!recorded.has_value()) continue;
    KCC_TRY(const std::optional<std::string> bytes, source.ReadBlob(recorded->summary));
    if (!bytes) continue;
    KCC_TRY(const Summary theirs, DecodeSummary(*bytes));
    if (theirs.requests != summary.requests) continue;
    AddIncumbent(Judge(contract, theirs, options), evaluation);
    return {};
  }
  return {};
}

}  // namespace

Result<Contract> ReadKeptContract(Register& source, const std::string& digest) {
  KCC_TRY(const std::optional<Entry> entry, source.Find({EntryTable::kContracts, digest}));
  if (!entry) return InvalidError("the register has no contract " + digest, Place{source.name()});
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, entry->event.body));
  const std::string text_digest{JsonText(JsonMember(root.get_object().value_unsafe(), "source"))};
  if (text_digest.empty()) {
    return InvalidError("the register has no text of contract " + digest +
                            "; add it with `kcc register add contract FILE`",
                        Place{source.name()});
  }
  KCC_TRY(const std::string text, NeedBlob(source, text_digest, "contract"));
  ReadOutcome outcome = ReadContract(text);
  if (!outcome.contract || ContractDigest(*outcome.contract) != digest) {
    return BrokenEvidenceError("the stored text of contract " + digest + " is not this contract",
                               Place{source.name()});
  }
  return std::move(*outcome.contract);
}

Result<std::vector<std::string>> ContractsToCompare(Register& source, const std::string& digest) {
  KCC_TRY(const std::vector<Entry> promotions, source.List({.table = EntryTable::kPromotions}));
  std::set<std::string> compared;
  for (const Entry& entry : promotions) {
    // Without its policy, which may be gone: a run must not fail for a promotion of others.
    const auto state = ReadPromotionState(BodyJson(entry.event.body, "state"));
    if (!state.has_value()) continue;
    const std::string& candidate = state->candidate.contract;
    const std::string& incumbent = state->incumbent.contract;
    if (candidate == digest) compared.insert(incumbent);
    if (incumbent == digest) compared.insert(candidate);
  }
  compared.erase("");  // the first of its lane has no incumbent
  compared.erase(digest);
  return std::vector<std::string>(compared.begin(), compared.end());
}

Contract MeasuredContract(const Contract& contract) {
  Contract measured = contract;
  for (Clause& clause : AuditContract(contract).clauses) {
    clause.id += "-audit";
    measured.clauses.push_back(std::move(clause));
  }
  return measured;
}

Result<StepEvidence> EvidenceOf(Register& source, const KeptPromotion& kept,
                                const Entry& recorded) {
  KCC_TRY(const StepRecord found, ReadStepRecord(recorded.event));
  KCC_TRY(const Contract contract, ReadKeptContract(source, kept.state.candidate.contract));
  KCC_TRY(const std::string bytes, NeedBlob(source, found.summary, "summary"));
  KCC_TRY(Summary recorded_summary, DecodeSummary(bytes));
  LookedAt looked{std::move(recorded_summary), ""};
  const Phase standing =
      kept.state.phase == Phase::kFrozen ? kept.state.frozen_from : kept.state.phase;
  KCC_TRY_VOID(JoinWithStep(source, kept, Name(standing) == Name(found.stage),
                            recorded.state.added < kept.entered, &looked));
  const Summary& summary = looked.summary;
  StepEvidence evidence;
  evidence.remark = std::move(looked.remark);
  if (!looked.recorded) evidence.joined = EncodeSummary(summary);
  EvidenceFacts facts;
  facts.digest = looked.recorded ? found.summary : BlobDigest(evidence.joined);
  facts.continues = std::move(looked.continues);
  facts.requests = static_cast<int64_t>(summary.requests.size());
  facts.contract = kept.state.candidate.contract;
  JudgeOptions options{found.stage, found.about};
  const StagePolicy& stage = kept.policy.stage(found.stage);
  const Look* look = PlannedLookAt(stage, kept.state.progress.looks, facts.requests);
  if (look != nullptr && Name(standing) == Name(found.stage)) {
    options.look = {look->alpha, look->alpha / (1 - kept.policy.confidence)};
    facts.look_alpha = look->alpha;
  }
  const Judgement judgement = Judge(contract, summary, options);
  const Judgement audit = Judge(AuditContract(contract), summary, options);
  evidence.evaluation = EvaluationOf(contract, judgement, &audit, facts);
  KCC_TRY_VOID(
      AddIncumbentOf(source, kept.state, contract, summary, options, &evidence.evaluation));
  const std::string& old_digest = kept.state.incumbent.contract;
  if (!old_digest.empty() && old_digest != kept.state.candidate.contract) {
    KCC_TRY(const Contract old_contract, ReadKeptContract(source, old_digest));
    AddUnderOld(old_contract, Judge(old_contract, summary, options), old_digest,
                &evidence.evaluation);
  }
  return evidence;
}

}  // namespace kcc
