#include "kcc/register/promotion_writing.h"

#include "kcc/base/json_writer.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/register/record.h"
#include "kcc/statement/verify.h"

namespace kcc {
namespace {

// The promotion after a step, as it will be written at `sequence`. The machine forgets the evidence
// when it enters a stage or a step of the canary, so a change without evidence is such an entry.
void TakeStep(const StepResult& step, int64_t sequence, KeptPromotion* kept) {
  const bool entered = !step.transitions.empty() && step.state.progress.evidence.empty();
  kept->state = step.state;
  if (entered) kept->entered = sequence;
}

// Whether nothing is new but the time. Such a step is not written: the next event brings a later
// time, and deadlines take effect before the event that brings theirs.
bool OnlyTimePassed(const StepResult& step, const PromotionState& before) {
  if (!step.transitions.empty() || !step.commands.empty()) return false;
  PromotionState at_the_time = before;
  at_the_time.now_ms = step.state.now_ms;
  return at_the_time == step.state;
}

std::string ChangedBody(const KeptPromotion& kept, const ChangeCause& why, const StepResult* step) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("promotion", kept.state.id).Field("triple", kept.triple);
  json.Field("from", why.from).Field("to", Name(kept.state.phase)).Field("cause", why.cause);
  json.Field("policy", kept.policy_blob).Field("considered", kept.considered);
  json.Field("entered", kept.entered);
  if (!why.evidence.empty()) json.Field("evidence", why.evidence);
  json.Key("state").Raw(ToJson(kept.state));
  if (step != nullptr) {
    json.Field("note", step->note);
    json.Key("transitions").BeginArray();
    for (const Transition& one : step->transitions) json.Raw(ToJson(one));
    json.EndArray().Key("commands").BeginArray();
    for (const Command& one : step->commands) json.Raw(ToJson(one));
    json.EndArray();
  }
  json.EndObject();
  return json.Take();
}

NewEvent Changed(const KeptPromotion& kept, const ChangeCause& why, const StepResult* step,
                 const Proposer& by) {
  return {by.time_ms, by.actor, "promotion.changed", ChangedBody(kept, why, step)};
}

NewEvent ApprovalGiven(const PromotionState& state, const PromotionEvent& event,
                       const Proposer& by) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("promotion", state.id).Field("stage", Name(state.phase));
  json.Field("role", event.role).EndObject();
  return {by.time_ms, by.actor, "approval.given", json.Take()};
}

}  // namespace

Result<> PromotionWriting::Begin() {
  batch = {};
  change = {};
  KCC_TRY(const Head head, target.ReadHead());
  next = head.sequence + 1;
  return {};
}

Result<> PromotionWriting::Take(const StepResult& step, std::string_view cause,
                                const std::string& evidence, KeptPromotion* kept) {
  const ChangeCause why{std::string(Name(kept->state.phase)), std::string(cause), evidence};
  if (evidence.empty() && OnlyTimePassed(step, kept->state)) return {};
  const std::vector<Approval> approvals = kept->state.progress.approvals;
  TakeStep(step, next, kept);
  return Change(*kept, why, &step, approvals);
}

Result<> PromotionWriting::Change(const KeptPromotion& kept, const ChangeCause& why,
                                  const StepResult* step, const std::vector<Approval>& approvals) {
  batch.events.push_back(Changed(kept, why, step, by));
  ++next;
  const bool moved = step == nullptr || !step->transitions.empty();
  if (!moved || by.signing.signers.empty()) return {};
  PromotionRecord record = RecordOf(kept, why.cause, why.from);
  for (const Approval& one : approvals) {
    record.approvals.push_back({one.by, one.at_ms, one.role});
  }
  KCC_TRY_VOID(AddEvidence(kept, why, &record));
  KCC_TRY_VOID(AddStatement(std::move(record)));
  return {};
}

PromotionRecord PromotionWriting::RecordOf(const KeptPromotion& kept, std::string step,
                                           std::string from) const {
  PromotionRecord record;
  record.time_ms = by.time_ms;
  record.promotion = kept.state.id;
  record.sequence = next - 1;
  record.step = std::move(step);
  record.from = std::move(from);
  record.to = Name(kept.state.phase);
  record.triple = kept.triple;
  const Deployment& serves = kept.state.incumbent;
  if (!serves.empty()) {
    record.incumbent = TripleId({serves.model, serves.train, serves.infer, serves.contract});
  }
  record.contract.digest = kept.state.candidate.contract;
  record.policy = {kept.policy.name + "@" + kept.policy.version, kept.state.policy};
  record.reason = kept.state.reason;
  return record;
}

Result<> PromotionWriting::AddEvidence(const KeptPromotion& kept, const ChangeCause& why,
                                       PromotionRecord* record) {
  if (why.evidence.empty()) return {};
  const int64_t at = kept.considered;
  KCC_TRY(const std::vector<Event> recorded, target.ReadEvents({.first = at, .last = at}));
  if (!recorded.empty()) {
    record->evaluations.push_back({"evaluation " + std::to_string(at), recorded[0].digest});
  }
  record->evaluations.push_back({"evidence", why.evidence});
  return {};
}

Result<std::string> PromotionWriting::AddStatement(PromotionRecord record) {
  const EntryKey about{EntryTable::kPromotions, record.promotion};
  const int64_t event = record.sequence;
  KCC_TRY(std::string envelope, SignPromotion(target, std::move(record), by.signing));
  batch.events.push_back(StatementAdded(envelope, about, event, by.actor, by.time_ms));
  batch.blobs.push_back(envelope);
  ++next;
  return envelope;
}

Result<> PromotionWriting::Approve(const KeptPromotion& kept, PromotionEvent* event) {
  event->key.clear();
  KCC_TRY_VOID(CheckSigning(kept));
  batch.events.push_back(ApprovalGiven(kept.state, *event, by));
  ++next;
  if (by.signing.signers.empty()) return {};
  PromotionRecord record = RecordOf(kept, "approve", std::string(Name(kept.state.phase)));
  record.approvals = {{by.actor, by.time_ms, event->role}};
  record.reason = event->text;
  KCC_TRY(const std::string envelope, AddStatement(std::move(record)));
  if (by.signing.keyring == nullptr) return {};
  VerifyOptions options;
  options.time_ms = by.time_ms;
  const Verification found = Verify(envelope, *by.signing.keyring, options);
  if (!found.verified()) {
    return InvalidError("the signature of this approval would not be believed: " +
                        found.failures[0].text);
  }
  event->key = by.signing.signers[0]->public_key().id();
  return {};
}

Result<> PromotionWriting::CheckSigning(const KeptPromotion& kept) const {
  const StatementSigning& signing = by.signing;
  if (signing.signers.size() > 1) {
    return InvalidError("an approval is one person's: sign it with one key");
  }
  const ApprovalRule* rule = nullptr;
  for (const Stage stage : kStages) {
    if (Name(stage) == Name(kept.state.phase)) rule = &kept.policy.stage(stage).approvals;
  }
  if (rule == nullptr || !rule->must_sign) return {};
  const std::string where =
      "the policy wants approvals in " + std::string(Name(kept.state.phase)) + " signed";
  if (signing.signers.empty()) {
    return InvalidError(where + "; sign with --key FILE or --sign-with COMMAND");
  }
  if (signing.keyring == nullptr) {
    return InvalidError(where + "; say with --keyring FILE which keys are trusted");
  }
  if (!rule->keyring.empty() && rule->keyring != signing.keyring->digest) {
    return InvalidError(where + " by keys of the keyring " + rule->keyring +
                        ", and the one that was given is " + signing.keyring->digest);
  }
  return {};
}

}  // namespace kcc
