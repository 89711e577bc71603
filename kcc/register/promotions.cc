#include "kcc/register/promotions.h"

#include <algorithm>

#include "kcc/contract/policy_reader.h"
#include "kcc/format/json.h"
#include "kcc/promotion/audit.h"
#include "kcc/promotion/queue.h"
#include "kcc/register/promotion_evidence.h"
#include "kcc/register/promotion_writing.h"
#include "kcc/register/record.h"
#include "kcc/register/statement_check.h"

namespace kcc {
namespace {

Result<Triple> ReadTriple(Register& source, const std::string& id) {
  KCC_TRY(const std::optional<Entry> entry, source.Find({EntryTable::kTriples, id}));
  if (!entry) {
    return InvalidError("the register has no triple " + id +
                            "; `kcc run --register` records one, `kcc register list triples` lists "
                            "those there are",
                        Place{source.name()});
  }
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, entry->event.body));
  const json::object body = root.get_object().value_unsafe();
  const auto text = [&](std::string_view name) {
    return std::string(JsonText(JsonMember(body, name)));
  };
  return Triple{text("model"), text("train"), text("infer"), text("contract")};
}

std::vector<PromotionState> StatesOf(const std::vector<KeptPromotion>& kept) {
  std::vector<PromotionState> states;
  states.reserve(kept.size());
  for (const KeptPromotion& one : kept) states.push_back(one.state);
  return states;
}

// Where the step ended a promotion's hold on its lane, the next one starts in the same batch.
Result<> StartNext(PromotionWriting* writing, const KeptPromotion& ended, const StepResult& step) {
  const bool asked =
      std::any_of(step.commands.begin(), step.commands.end(),
                  [](const Command& one) { return one.kind == CommandKind::kStartNext; });
  if (!asked) return {};
  KCC_TRY(std::vector<KeptPromotion> all, ReadPromotions(writing->target));
  for (KeptPromotion& one : all) {
    if (one.state.id == ended.state.id) one.state = ended.state;
  }
  const std::vector<PromotionState> states = StatesOf(all);
  const Turn turn = NextTurn(states, ended.state.lane);
  if (turn.next == nullptr) return {};
  KeptPromotion& next = all[static_cast<size_t>(turn.next - states.data())];
  PromotionEvent start;
  start.kind = PromotionEventKind::kStart;
  start.at_ms = writing->by.time_ms;
  start.by = writing->by.actor;
  start.incumbent = ServesNow(states, ended.state.lane);
  KCC_TRY(const StepResult started, Step(next.policy, next.state, start));
  KCC_TRY_VOID(writing->Take(started, "its turn", "", &next));
  writing->change.started_next = next.state;
  return {};
}

// `remark` is added to what the machine notes.
Result<> TakeEvent(PromotionWriting* writing, KeptPromotion* kept, const PromotionEvent& event,
                   const std::string& remark = "") {
  KCC_TRY(StepResult step, Step(kept->policy, kept->state, event));
  if (!remark.empty()) step.note += (step.note.empty() ? "" : "; ") + remark;
  KCC_TRY_VOID(writing->Take(step, Name(event.kind), event.evaluation.evidence, kept));
  writing->change.steps.push_back(step);
  writing->change.state = kept->state;
  return StartNext(writing, *kept, step);
}

// The first evaluation of the candidate that no step has taken; none: there is none.
Result<std::optional<Entry>> NextEvaluation(Register& source, const KeptPromotion& kept) {
  KCC_TRY(std::vector<Entry> entries,
          source.List({.table = EntryTable::kEvaluations, .subject = kept.triple}));
  std::optional<Entry> first;
  for (Entry& entry : entries) {
    if (entry.state.added <= kept.considered) continue;
    if (!first || entry.state.added < first->state.added) first = std::move(entry);
  }
  return first;
}

// Sends the evaluation, with the joined summary as a blob that the event names.
Result<> TakeEvaluation(PromotionWriting* writing, KeptPromotion* kept, const Entry& recorded) {
  KCC_TRY(const StepEvidence evidence, EvidenceOf(writing->target, *kept, recorded));
  PromotionEvent event;
  event.kind = PromotionEventKind::kEvaluation;
  event.at_ms = writing->by.time_ms;
  event.by = recorded.event.actor;
  event.evaluation = evidence.evaluation;
  kept->considered = recorded.state.added;
  if (!evidence.joined.empty()) writing->batch.blobs.push_back(evidence.joined);
  return TakeEvent(writing, kept, event, evidence.remark);
}

// An approval that the state has and nobody signed was put there by whoever wrote the state: an
// error of the evidence, which freezes. Bad news still counts then.
Result<bool> FreezeUnbacked(PromotionWriting* writing, KeptPromotion* kept) {
  const Keyring* keyring = writing->by.signing.keyring;
  if (keyring == nullptr) return false;
  KCC_TRY(std::string unbacked, UnbackedApproval(writing->target, *kept, *keyring));
  if (unbacked.empty()) return false;
  PromotionEvent freeze;
  freeze.kind = PromotionEventKind::kFreeze;
  freeze.at_ms = writing->by.time_ms;
  freeze.by = writing->by.actor;
  freeze.text = std::move(unbacked);
  KCC_TRY_VOID(TakeEvent(writing, kept, freeze));
  return true;
}

void Append(PromotionChange more, PromotionChange* all) {
  all->state = std::move(more.state);
  for (StepResult& step : more.steps) all->steps.push_back(std::move(step));
  if (more.started_next) all->started_next = std::move(more.started_next);
}

Result<Proposal> ProposalOf(Register& target, const PromotionStart& start, const Proposer& by,
                            const std::vector<KeptPromotion>& all) {
  KCC_TRY(const Triple triple, ReadTriple(target, start.candidate));
  Proposal proposal;
  proposal.id = start.id;
  proposal.lane = start.lane;
  proposal.by = by.actor;
  proposal.at_ms = by.time_ms;
  proposal.candidate = {triple.model,    triple.train,  triple.infer,
                        triple.contract, start.routing, start.hardware};
  proposal.incumbent = ServesNow(StatesOf(all), start.lane);
  if (!start.incumbent.empty()) {
    KCC_TRY(const Triple serves, ReadTriple(target, start.incumbent));
    const Deployment named = {serves.model, serves.train, serves.infer, serves.contract, "", ""};
    if (proposal.incumbent.empty()) proposal.incumbent = named;
    Deployment known = proposal.incumbent;
    known.routing.clear();
    known.hardware.clear();
    if (known != named) {
      return InvalidError("the register knows what serves lane " + start.lane +
                          ", and it is another triple; leave --incumbent out");
    }
  }
  KCC_TRY(const Contract contract, ReadKeptContract(target, triple.contract));
  proposal.asked = AskedOf(contract);
  const std::string& old_digest = proposal.incumbent.contract;
  if (!old_digest.empty() && old_digest != triple.contract) {
    KCC_TRY(const Contract old_contract, ReadKeptContract(target, old_digest));
    proposal.asked_old = AskedOf(old_contract);
  }
  return proposal;
}

// A candidate that was rolled back waits for its cool-down, under whatever name it comes again.
Result<> CheckCooled(const std::vector<KeptPromotion>& all, const PromotionStart& start,
                     const Proposer& by) {
  for (const KeptPromotion& one : all) {
    const PromotionState& state = one.state;
    if (state.phase != Phase::kRolledBack || state.lane != start.lane) continue;
    if (one.triple != start.candidate) continue;
    const int64_t again = state.ended_ms + one.policy.cool_down_ms * state.rollbacks;
    if (by.time_ms >= again) continue;
    return InvalidError("promotion " + state.id +
                        " of this triple was rolled back, and it cools down for " +
                        DurationText(again - by.time_ms) + " more");
  }
  return {};
}

// Another try of a promotion that was rolled back. Nothing that was recorded before it counts.
Result<Batch> TryAgain(PromotionWriting* writing, const std::vector<KeptPromotion>& all,
                       KeptPromotion kept, const PromotionStart& start) {
  const bool same = kept.state.lane == start.lane && kept.triple == start.candidate &&
                    kept.policy_blob == BlobDigest(start.policy_text) &&
                    (start.routing.empty() || start.routing == kept.state.candidate.routing) &&
                    (start.hardware.empty() || start.hardware == kept.state.candidate.hardware);
  if (kept.state.phase != Phase::kRolledBack || !same) {
    return InvalidError(
        "there is a promotion '" + start.id + "' already" +
        (same ? ""
              : ", of another lane, triple, policy, routing or hardware; propose this one under "
                "another name"));
  }
  KCC_TRY_VOID(CheckCooled(all, start, writing->by));
  const std::vector<PromotionState> states = StatesOf(all);
  for (const PromotionState& state : states) {
    if (state.lane != start.lane || !HoldsLane(state)) continue;
    return InvalidError(state.id + " holds the lane; try again when it is over");
  }
  PromotionEvent event;
  event.kind = PromotionEventKind::kStart;
  event.at_ms = writing->by.time_ms;
  event.by = writing->by.actor;
  event.incumbent = ServesNow(states, start.lane);
  kept.considered = writing->next - 1;
  KCC_TRY_VOID(TakeEvent(writing, &kept, event));
  return std::move(writing->batch);
}

}  // namespace

Result<PromotionChange> StartPromotion(Register& target, const PromotionStart& start,
                                       const Proposer& by) {
  PolicyOutcome policy = ReadPolicy(start.policy_text);
  if (!policy.policy) return InvalidError("the policy is not valid");
  PromotionWriting writing{target, by, {}, {}, 0};
  const auto make = [&](Register&) -> Result<Batch> {
    KCC_TRY_VOID(writing.Begin());
    KCC_TRY(std::vector<KeptPromotion> all, ReadPromotions(target));
    for (const KeptPromotion& one : all) {
      if (one.state.id == start.id) return TryAgain(&writing, all, one, start);
    }
    KCC_TRY_VOID(CheckCooled(all, start, by));
    KCC_TRY(Proposal proposal, ProposalOf(target, start, by, all));
    KeptPromotion kept;
    kept.policy = *policy.policy;
    kept.policy_blob = BlobDigest(start.policy_text);
    kept.triple = start.candidate;
    KCC_TRY(kept.state, Propose(kept.policy, std::move(proposal)));
    // What was recorded before the proposal is not evidence of any of its stages.
    kept.considered = writing.next - 1;
    kept.entered = writing.next;
    writing.batch.blobs.push_back(start.policy_text);
    KCC_TRY_VOID(writing.Change(kept, {"none", "proposed", ""}, nullptr, {}));
    writing.change.state = kept.state;
    all.push_back(kept);
    const std::vector<PromotionState> states = StatesOf(all);
    const Turn turn = NextTurn(states, start.lane);
    if (turn.next == nullptr || turn.next->id != start.id) return std::move(writing.batch);
    PromotionEvent event;
    event.kind = PromotionEventKind::kStart;
    event.at_ms = by.time_ms;
    event.by = by.actor;
    event.incumbent = kept.state.incumbent;
    KCC_TRY_VOID(TakeEvent(&writing, &kept, event));
    return std::move(writing.batch);
  };
  KCC_TRY_VOID(target.Update(make));
  return std::move(writing.change);
}

Result<PromotionChange> SendEvent(Register& target, const std::string& id,
                                  const PromotionEvent& event, const Proposer& by) {
  PromotionWriting writing{target, by, {}, {}, 0};
  const auto make = [&](Register&) -> Result<Batch> {
    KCC_TRY_VOID(writing.Begin());
    KCC_TRY(KeptPromotion kept, ReadPromotion(target, id));
    KCC_TRY(const bool frozen, FreezeUnbacked(&writing, &kept));
    const bool approval = event.kind == PromotionEventKind::kApproval;
    if (frozen && approval) return std::move(writing.batch);  // nobody approves what is frozen
    PromotionEvent sent = event;
    if (approval) KCC_TRY_VOID(writing.Approve(kept, &sent));
    KCC_TRY_VOID(TakeEvent(&writing, &kept, sent));
    return std::move(writing.batch);
  };
  KCC_TRY_VOID(target.Update(make));
  return std::move(writing.change);
}

Result<PromotionChange> AdvancePromotion(Register& target, const std::string& id,
                                         const Proposer& by) {
  PromotionChange all;
  while (true) {
    PromotionWriting writing{target, by, {}, {}, 0};
    bool more = false;
    const auto make = [&](Register&) -> Result<Batch> {
      KCC_TRY_VOID(writing.Begin());
      KCC_TRY(KeptPromotion kept, ReadPromotion(target, id));
      KCC_TRY(more, FreezeUnbacked(&writing, &kept));
      if (more) return std::move(writing.batch);
      KCC_TRY(const std::optional<Entry> recorded, NextEvaluation(target, kept));
      more = recorded.has_value();
      if (more) {
        KCC_TRY_VOID(TakeEvaluation(&writing, &kept, *recorded));
        return std::move(writing.batch);
      }
      if (IsOver(kept.state.phase) && !all.steps.empty()) {  // time does nothing to it
        writing.change.state = kept.state;
        return std::move(writing.batch);
      }
      PromotionEvent tick;
      tick.kind = PromotionEventKind::kTick;
      tick.at_ms = by.time_ms;
      KCC_TRY_VOID(TakeEvent(&writing, &kept, tick));
      return std::move(writing.batch);
    };
    KCC_TRY_VOID(target.Update(make));
    Append(std::move(writing.change), &all);
    if (!more) return all;
  }
}

}  // namespace kcc
