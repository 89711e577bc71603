#include "kcc/register/promotions.h"

#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/format/json.h"
#include "kcc/promotion/audit.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/promotion/queue.h"
#include "kcc/register/promotion_evidence.h"
#include "kcc/register/record.h"

namespace kcc {
namespace {

Result<PromotionPolicy> ReadKeptPolicy(Register& source, const std::string& blob,
                                       const std::string& digest) {
  KCC_TRY(const std::optional<std::string> text, source.ReadBlob(blob));
  if (!text) {
    return InvalidError("the policy " + blob + " of this promotion is no longer stored",
                        Place{source.name()});
  }
  PolicyOutcome outcome = ReadPolicy(*text);
  if (!outcome.policy || PolicyDigest(*outcome.policy) != digest) {
    return BrokenEvidenceError("the stored text of policy " + digest + " is not this policy",
                               Place{source.name()});
  }
  return std::move(*outcome.policy);
}

Result<KeptPromotion> ReadKept(Register& source, const Event& event) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, event.body));
  const json::object body = root.get_object().value_unsafe();
  KeptPromotion kept;
  kept.event = event;
  const auto state = JsonMember(body, "state");
  if (!state) return BrokenEvidenceError("a promotion.changed without a state");
  KCC_TRY(kept.state, ReadPromotionState(simdjson::minify(*state)));
  kept.triple = JsonText(JsonMember(body, "triple"));
  kept.policy_blob = JsonText(JsonMember(body, "policy"));
  const auto number = [&](std::string_view name) -> int64_t {
    const auto value = JsonMember(body, name);
    int64_t read = 0;
    return value && value->get_int64().get(read) == simdjson::SUCCESS ? read : 0;
  };
  kept.considered = number("considered");
  kept.entered = number("entered");
  KCC_TRY(kept.policy, ReadKeptPolicy(source, kept.policy_blob, kept.state.policy));
  return kept;
}

Error NoPromotion(const Register& source, const std::string& id) {
  return InvalidError("there is no promotion '" + id + "'; `kcc promote status` lists all",
                      Place{source.name()});
}

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

// What an event says beside the state: where the promotion was, why it changed, and the summary
// that was looked at (empty: none), which the event keeps from gc.
struct Cause {
  std::string from;
  std::string cause;
  std::string evidence;
};

std::string ChangedBody(const KeptPromotion& kept, const Cause& why, const StepResult* step) {
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

NewEvent Changed(const KeptPromotion& kept, const Cause& why, const StepResult* step,
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

// One call that writes: its batch, what it did, and the number that the next event will have.
struct Writing {
  Register& target;
  const Proposer& by;
  Batch batch;
  PromotionChange change;
  int64_t next = 0;

  Result<> Begin() {
    batch = {};
    change = {};
    KCC_TRY(const Head head, target.ReadHead());
    next = head.sequence + 1;
    return {};
  }

  // `evidence`: the summary that was looked at; empty: none, and then a step that changes nothing
  // is not written.
  void Take(const StepResult& step, std::string_view cause, const std::string& evidence,
            KeptPromotion* kept) {
    const Cause why{std::string(Name(kept->state.phase)), std::string(cause), evidence};
    if (evidence.empty() && OnlyTimePassed(step, kept->state)) return;
    TakeStep(step, next, kept);
    batch.events.push_back(Changed(*kept, why, &step, by));
    ++next;
  }
};

std::vector<PromotionState> StatesOf(const std::vector<KeptPromotion>& kept) {
  std::vector<PromotionState> states;
  states.reserve(kept.size());
  for (const KeptPromotion& one : kept) states.push_back(one.state);
  return states;
}

// Where the step ended a promotion's hold on its lane, the next one starts in the same batch.
Result<> StartNext(Writing* writing, const KeptPromotion& ended, const StepResult& step) {
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
  writing->Take(started, "its turn", "", &next);
  writing->change.started_next = next.state;
  return {};
}

Result<> TakeEvent(Writing* writing, KeptPromotion* kept, const PromotionEvent& event) {
  KCC_TRY(const StepResult step, Step(kept->policy, kept->state, event));
  writing->Take(step, Name(event.kind), event.evaluation.evidence, kept);
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
Result<> TakeEvaluation(Writing* writing, KeptPromotion* kept, const Entry& recorded) {
  KCC_TRY(const StepEvidence evidence, EvidenceOf(writing->target, *kept, recorded));
  PromotionEvent event;
  event.kind = PromotionEventKind::kEvaluation;
  event.at_ms = writing->by.time_ms;
  event.by = recorded.event.actor;
  event.evaluation = evidence.evaluation;
  kept->considered = recorded.state.added;
  if (!evidence.joined.empty()) writing->batch.blobs.push_back(evidence.joined);
  return TakeEvent(writing, kept, event);
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
Result<Batch> TryAgain(Writing* writing, const std::vector<KeptPromotion>& all, KeptPromotion kept,
                       const PromotionStart& start) {
  const bool same = kept.state.lane == start.lane && kept.triple == start.candidate &&
                    kept.policy_blob == BlobDigest(start.policy_text);
  if (kept.state.phase != Phase::kRolledBack || !same) {
    return InvalidError("there is a promotion '" + start.id + "' already" +
                        (same ? ""
                              : ", of another lane, triple or policy; propose this one under "
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

Result<KeptPromotion> ReadPromotion(Register& source, const std::string& id) {
  KCC_TRY(const std::optional<Entry> entry, source.Find({EntryTable::kPromotions, id}));
  if (!entry) return NoPromotion(source, id);
  return ReadKept(source, entry->event);
}

Result<std::vector<KeptPromotion>> ReadPromotions(Register& source) {
  KCC_TRY(std::vector<Entry> entries, source.List({.table = EntryTable::kPromotions}));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.state.added < b.state.added; });
  std::vector<KeptPromotion> all;
  for (const Entry& entry : entries) {
    KCC_TRY(KeptPromotion kept, ReadKept(source, entry.event));
    all.push_back(std::move(kept));
  }
  return all;
}

Result<std::vector<PromotionRecord>> ReadHistory(Register& source, const std::string& id) {
  KCC_TRY(const std::optional<Entry> entry, source.Find({EntryTable::kPromotions, id}));
  if (!entry) return NoPromotion(source, id);
  KCC_TRY(const std::vector<Event> events,
          source.ReadEvents({.first = entry->state.added, .kind = "promotion.changed"}));
  std::vector<PromotionRecord> history;
  json::parser parser;
  for (const Event& event : events) {
    KCC_TRY(const json::element root, ParseJson(parser, event.body));
    const json::object body = root.get_object().value_unsafe();
    const auto text = [&](std::string_view name) {
      return std::string(JsonText(JsonMember(body, name)));
    };
    if (text("promotion") != id) continue;
    std::string reason = text("note");
    const auto state = JsonMember(body, "state");
    if (reason.empty() && state && state->is_object()) {
      reason = JsonText(JsonMember(state->get_object().value_unsafe(), "reason"));
    }
    history.push_back({event, text("from"), text("to"), text("cause"), std::move(reason)});
  }
  return history;
}

Result<PromotionChange> StartPromotion(Register& target, const PromotionStart& start,
                                       const Proposer& by) {
  PolicyOutcome policy = ReadPolicy(start.policy_text);
  if (!policy.policy) return InvalidError("the policy is not valid");
  Writing writing{target, by, {}, {}, 0};
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
    writing.batch.events.push_back(Changed(kept, {"none", "proposed", ""}, nullptr, by));
    ++writing.next;
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
  Writing writing{target, by, {}, {}, 0};
  const auto make = [&](Register&) -> Result<Batch> {
    KCC_TRY_VOID(writing.Begin());
    KCC_TRY(KeptPromotion kept, ReadPromotion(target, id));
    if (event.kind == PromotionEventKind::kApproval) {
      // Who agreed to what stays to be found by itself, whatever the machine makes of it.
      writing.batch.events.push_back(ApprovalGiven(kept.state, event, by));
      ++writing.next;
    }
    KCC_TRY_VOID(TakeEvent(&writing, &kept, event));
    return std::move(writing.batch);
  };
  KCC_TRY_VOID(target.Update(make));
  return std::move(writing.change);
}

Result<PromotionChange> AdvancePromotion(Register& target, const std::string& id,
                                         const Proposer& by) {
  PromotionChange all;
  while (true) {
    Writing writing{target, by, {}, {}, 0};
    bool more = false;
    const auto make = [&](Register&) -> Result<Batch> {
      KCC_TRY_VOID(writing.Begin());
      KCC_TRY(KeptPromotion kept, ReadPromotion(target, id));
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
