#include "kcc/promotion/machine.h"

#include <algorithm>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

std::string CauseOf(const PromotionEvent& event) {
  std::string cause(Name(event.kind));
  if (event.kind == PromotionEventKind::kEvaluation) cause += " " + event.evaluation.evidence;
  if (event.kind == PromotionEventKind::kHookAnswer) cause += " of " + event.hook;
  if (!event.by.empty()) cause += " by " + event.by;
  return cause;
}

void AddOnce(const std::string& id, std::vector<std::string>* ids) {
  if (std::find(ids->begin(), ids->end(), id) == ids->end()) ids->push_back(id);
}

}  // namespace

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += (joined.empty() ? "" : "; ") + text;
  return joined;
}

Machine::Machine(const PromotionPolicy& policy, const PromotionState& state,
                 const PromotionEvent& event)
    : policy_(policy), event_(event), cause_(CauseOf(event)) {
  out_.state = state;
  s().now_ms = std::max(state.now_ms, event.at_ms);
}

StepResult Machine::Run() {
  Deadline();
  const bool over = IsOver(s().phase);
  switch (event_.kind) {
    case PromotionEventKind::kStart:
      Start();
      break;
    case PromotionEventKind::kEvaluation:
      Evaluate();
      break;
    case PromotionEventKind::kTick:
      Tick();
      break;
    case PromotionEventKind::kApproval:
      Approve();
      break;
    case PromotionEventKind::kHookAnswer:
      Answer();
      break;
    case PromotionEventKind::kFreeze:
      if (over || s().phase == Phase::kFrozen) {
        Ignore();
      } else {
        Freeze("frozen by " + Who() + Why());
      }
      break;
    case PromotionEventKind::kUnfreeze:
      Unfreeze();
      break;
    case PromotionEventKind::kAbort:
      if (over) {
        Ignore();
      } else {
        End("aborted by " + Who() + Why());
      }
      break;
    case PromotionEventKind::kSuperseded:
      Supersede();
      break;
    case PromotionEventKind::kIncident:
      Incident();
      break;
  }
  return std::move(out_);
}

void Machine::Note(std::string note) {
  out_.note += (out_.note.empty() ? "" : "; ") + std::move(note);
}

void Machine::Ignore() {
  Note("a promotion that is " + std::string(Name(s().phase)) + " takes no " +
       std::string(Name(event_.kind)));
}

void Machine::Route(double share, double mirror) {
  Send({.kind = CommandKind::kRoute, .share = share, .mirror = mirror});
}

void Machine::Hooks(HookPoint point, CommandKind kind, const std::string& text) {
  for (const PolicyHook& hook : policy_.hooks) {
    if (hook.point == point) Send({.kind = kind, .hook = hook.name, .text = text});
  }
}

void Machine::Change(Phase to, std::string reason) {
  const Phase from = s().phase;
  s().phase = to;
  s().reason = reason;
  Hooks(HookPoint::kEvent, CommandKind::kTellHook, reason);
  out_.transitions.push_back({from, to, cause_, std::move(reason)});
}

const CanaryStep& Machine::StepPolicy() {
  return policy_.stage(Stage::kCanary).steps[static_cast<size_t>(s().step)];
}

std::string Machine::Place() {
  std::string place(Name(Standing()));
  if (Standing() == Phase::kCanary) {
    place += " (step " + std::to_string(s().step + 1) + ", " + PercentText(StepPolicy().traffic) +
             " of traffic)";
  }
  return place;
}

// --- Out of a stage, backwards.

// What was satisfied must be shown again after it: nobody watched in between.
void Machine::Freeze(std::string reason) {
  s().frozen_from = s().phase;
  progress().ready = false;
  progress().satisfied_since_ms.reset();
  Change(Phase::kFrozen, std::move(reason));
}

// Rejected where no user was touched, rolled back where some were. The route comes first of all
// commands, and before the state says so.
void Machine::End(const std::string& why) {
  const bool live = Live();
  const bool mirrored = Standing() == Phase::kShadow;
  if (live || mirrored) Route(0, 0);
  s().ended_ms = s().now_ms;
  s().settled = false;
  progress().ready = false;
  if (live) ++s().rollbacks;
  const std::string place = Place();
  Change(live ? Phase::kRolledBack : Phase::kRejected,
         (live ? "rolled back from " + place +
                     (s().incumbent.empty() ? ", and there is no incumbent to serve: "
                                            : ", the incumbent serves all traffic: ")
               : "rejected in " + place + ": ") +
             why);
  Hooks(HookPoint::kPostRollout, CommandKind::kTellHook, s().reason);
  Send({.kind = CommandKind::kStartNext});
}

void Machine::Supersede() {
  if (IsOver(s().phase)) return Ignore();
  // What is settled serves as the incumbent, and what superseded it has taken its traffic.
  if ((Live() && !s().settled) || Standing() == Phase::kShadow) Route(0, 0);
  s().ended_ms = s().now_ms;
  progress().ready = false;
  const std::string by = event_.text.empty() ? "another candidate" : event_.text;
  Change(Phase::kSuperseded, "superseded by " + by + " in " + Place());
  Hooks(HookPoint::kPostRollout, CommandKind::kTellHook, s().reason);
  Send({.kind = CommandKind::kStartNext});
}

void Machine::Unfreeze() {
  if (s().phase != Phase::kFrozen) return Ignore();
  // The stay begins anew, and so does the time for which the evidence must stay satisfied: nobody
  // watched in between. The evidence itself goes on.
  progress().entered_ms = s().now_ms;
  Change(s().frozen_from, "unfrozen by " + Who() + Why() + "; back in " + Place());
}

// Settled means that the promotion is through; what is watched from then on has no deadline.
void Machine::Deadline() {
  const std::optional<Stage> stage = StageOf(s().phase);
  if (!stage || s().settled) return;
  const StagePolicy& asked = policy_.stage(*stage);
  if (!asked.deadline_ms || s().now_ms - progress().entered_ms < *asked.deadline_ms) return;
  std::string why = "the deadline of " + DurationText(*asked.deadline_ms) + " passed in " +
                    Place() + " without what the policy asks";
  const std::vector<std::string> missing = Missing();
  if (!missing.empty()) why += ": " + Joined(missing);
  const std::string cause = std::exchange(cause_, "deadline");
  if (asked.on_deadline == DeadlineOutcome::kFreeze) {
    Freeze("frozen: " + why);
  } else {
    End(why);
  }
  cause_ = cause;
}

// --- What people, programs and time say.

// The queue sends it, or a person after a rollback. What serves may have changed since the
// proposal: the event says what does, and that is what a rollback will return to.
void Machine::Start() {
  if (s().phase == Phase::kRolledBack) {
    const int64_t again = s().ended_ms + policy_.cool_down_ms * s().rollbacks;
    if (s().now_ms < again) {
      return Note("it cools down for " + DurationText(again - s().now_ms) +
                  " more after its rollback");
    }
  } else if (s().phase != Phase::kProposed) {
    return Ignore();
  }
  if (!event_.incumbent.empty()) {
    const bool same_contract = event_.incumbent.contract == s().incumbent.contract;
    if (!same_contract && !s().asked_old.empty()) {
      return Note("the incumbent's contract is not the one it was proposed against; propose anew");
    }
    if (s().asked_old.empty() && event_.incumbent.contract != s().candidate.contract) {
      return Note("its contract is not the incumbent's; propose anew, with the old contract");
    }
    s().incumbent = event_.incumbent;
  }
  if (s().candidate == s().incumbent) return End("what it would deploy is what serves already");
  s().started = true;
  if (s().phase == Phase::kRolledBack) {
    RememberTry();
    s().retried_by = event_.by;
    Change(Phase::kProposed, "it tries again after its cool-down");
  }
  if (!AllYes({HookPoint::kConfirmRollout})) return Note("it waits for confirm-rollout");
  Begin();
}

// Nothing of the earlier try counts. Its live requests are remembered, so that they do not count
// again in this one, whatever other requests they come with. The evaluation set is asked anew.
void Machine::RememberTry() {
  for (const PassedStep& passed : s().passed) {
    if (passed.stage != Stage::kOffline) s().earlier.push_back(passed.evidence);
  }
  if (!progress().evidence.empty()) s().earlier.push_back(progress().evidence);
  s().passed.clear();
  progress() = {};
}

void Machine::Begin() {
  std::vector<std::string_view> parts;
  for (const ChangedPart part : ChangedParts(s().incumbent, s().candidate)) {
    parts.push_back(Name(part));
  }
  Enter(Stage::kOffline, 0, "its turn has come; what changes is " + JoinWords(parts));
}

// Time alone moves nothing forwards: it re-asks hooks and says what is missing. Deadlines were
// looked at before.
void Machine::Tick() {
  if (IsOver(s().phase) || s().phase == Phase::kFrozen) return Ignore();
  // A hook that said no is asked again.
  for (HookStatus& status : progress().hooks) {
    if (status.state != HookState::kNo) continue;
    status.state = HookState::kAsked;
    Send({.kind = CommandKind::kRunHook, .hook = status.hook});
  }
  if (Live() && !s().settled) Hooks(HookPoint::kRollback, CommandKind::kRunHook, "");
  const std::vector<std::string> missing = Missing();
  Note(missing.empty() ? "nothing to do" : "it waits: " + Joined(missing));
}

// For the present stage alone: it is forgotten when the stage is left.
void Machine::Approve() {
  if (!StageOf(s().phase)) return Ignore();
  const ApprovalRule rule = ApprovalsNeeded();
  if (event_.by.empty()) return Note("an approval without a name does not count");
  if (event_.by == s().proposed_by || event_.by == s().retried_by) {
    return Note(event_.by + " proposed it, and does not approve it as well");
  }
  const bool fits = rule.roles.empty() || std::find(rule.roles.begin(), rule.roles.end(),
                                                    event_.role) != rule.roles.end();
  if (!fits) return Note("role '" + event_.role + "' does not approve in " + Place());
  if (rule.must_sign && event_.key.empty()) {
    return Note("an approval in " + Place() + " must be signed");
  }
  // Two names with one key are one person, as far as anybody can tell.
  const auto known = [&](const Approval& row) {
    return row.by == event_.by || (rule.must_sign && row.key == event_.key);
  };
  if (std::any_of(progress().approvals.begin(), progress().approvals.end(), known)) {
    return Note(event_.by + " approved already" + (rule.must_sign ? ", or with this key" : ""));
  }
  progress().approvals.push_back({event_.by, event_.role, s().now_ms, event_.key});
  Note("approved by " + event_.by + " in " + Place());
  TryAdvance();
}

// Of a hook that was asked in this step; of the hook `rollback` at any time, since its yes is bad
// news.
void Machine::Answer() {
  const auto hook = std::find_if(policy_.hooks.begin(), policy_.hooks.end(),
                                 [&](const PolicyHook& row) { return row.name == event_.hook; });
  if (hook == policy_.hooks.end()) return Note("the policy has no hook '" + event_.hook + "'");
  if (hook->point == HookPoint::kRollback) {
    if (event_.yes && Live()) return End("hook " + hook->name + " asked for it" + Why());
    return Note("hook " + hook->name + " asks for no rollback");
  }
  const auto status = std::find_if(progress().hooks.begin(), progress().hooks.end(),
                                   [&](const HookStatus& row) { return row.hook == event_.hook; });
  if (status == progress().hooks.end() || IsOver(s().phase) || s().phase == Phase::kFrozen) {
    return Note("hook " + hook->name + " was not asked in this step");
  }
  status->state = event_.yes ? HookState::kYes : HookState::kNo;
  Note("hook " + hook->name + (event_.yes ? " said yes" : " did not say yes") + Why());
  if (s().phase == Phase::kProposed && s().started) {
    if (AllYes({HookPoint::kConfirmRollout})) Begin();
    return;
  }
  TryAdvance();
}

void Machine::Incident() {
  if (IsOver(s().phase)) return Ignore();
  const std::string what = "an incident of level " + std::string(Name(event_.level)) +
                           (event_.by.empty() ? "" : ", reported by " + event_.by) + Why();
  if (event_.level == ViolationLevel::kL1) return Note(what + ", is noted");
  if (Live()) {
    if (event_.level == ViolationLevel::kL3) return End(what);
    return Guard(what);
  }
  // Before live traffic it is the incumbent's; nothing moves until somebody has looked.
  if (s().phase != Phase::kFrozen) return Freeze("frozen: " + what);
  Note(what + ", while frozen");
}

// Stays live behind the guarded route. Nothing is ready any more, so it takes a satisfied look to
// go on.
void Machine::Guard(const std::string& why) {
  progress().ready = false;
  progress().satisfied_since_ms.reset();
  progress().guarded = true;
  Send({.kind = CommandKind::kGuard, .text = why});
  Note("guarded in " + Place() + ": " + why);
}

void Machine::Unguard() {
  progress().guarded = false;
  Send({.kind = CommandKind::kUnguard});
}

// --- Evaluations.

// Bad news is acted on whatever evidence it is of. What was looked at is written down first, since
// the next look continues it; whether it counts is asked last.
void Machine::Evaluate() {
  const Evaluation& evaluation = event_.evaluation;
  if (IsOver(s().phase) || Standing() == Phase::kProposed) return Ignore();
  if (evaluation.contract != s().candidate.contract) {
    return Note("the evaluation is under contract " + evaluation.contract +
                ", which is not the candidate's");
  }
  Assessment found = Assess(policy_, s(), evaluation, Live());
  for (const std::string& id : found.exceeded) AddOnce(id, &progress().exceeded);
  int64_t looks = progress().looks;
  std::string why_not;
  if (StageOf(Standing()) != evaluation.stage) {
    why_not = "it is evidence of " + std::string(Name(evaluation.stage)) + ", and only that of " +
              std::string(Name(Standing())) + " counts now";
  } else {
    why_not = WhyNotCounted(policy_, s(), evaluation, &looks);
  }
  if (why_not.empty()) {
    progress().evidence = evaluation.evidence;
    progress().requests = evaluation.requests;
    progress().looks = looks;
  }
  if (!found.ends.empty()) return End(Joined(found.ends));
  found.freezes.insert(found.freezes.end(), found.errors.begin(), found.errors.end());
  if (!found.freezes.empty()) {
    if (s().phase == Phase::kFrozen) return Note("still frozen: " + Joined(found.freezes));
    return Freeze("frozen: " + Joined(found.freezes));
  }
  if (!found.guards.empty()) return Guard(Joined(found.guards));
  if (!why_not.empty()) return Note("the evaluation does not count: " + why_not);
  if (OnlyGrows(policy_, evaluation)) return Grow(evaluation, found);
  Count(evaluation, found);
}

// Between the planned looks, and after the last of them.
void Machine::Grow(const Evaluation& evaluation, const Assessment& found) {
  // A look that was satisfied does not outlast what is seen after it.
  if (!found.spoiled.empty()) {
    progress().missing = found.spoiled;
    progress().ready = false;
    progress().satisfied_since_ms.reset();
    return Note("it waits: " + Joined(Missing()));
  }
  // Looks take a guard off like any satisfied look. Where none is left, this test is what remains:
  // it holds at any time, and the guard is no step forwards, for which the looks spent the error.
  const bool shown = found.missing.empty() && evaluation.requests >= LeastRequests();
  if (progress().guarded && shown && !LookIsLeft() && s().phase != Phase::kFrozen) {
    Unguard();
    return Note("satisfied, and no planned look is left: the guard is taken off in " + Place());
  }
  Note("the evidence of " + Place() + " has " + std::to_string(evaluation.requests) +
       " requests; it counts at the looks that the policy plans");
}

void Machine::Count(const Evaluation& evaluation, const Assessment& found) {
  StepProgress& now = progress();
  now.missing = found.missing;
  now.held = found.held;
  now.watched = found.watched;
  // Who agreed before did not know of what is looser only now.
  for (const std::string& id : found.loosened) {
    if (std::find(now.loosened.begin(), now.loosened.end(), id) == now.loosened.end()) {
      now.approvals.clear();
    }
  }
  now.loosened = found.loosened;
  if (s().phase == Phase::kFrozen) return Note("looked at, and nothing moves while frozen");
  const int64_t least = LeastRequests();
  if (evaluation.requests < least) {
    now.missing.push_back(std::to_string(evaluation.requests) + " of " + std::to_string(least) +
                          " requests");
  }
  if (!now.missing.empty()) {
    now.ready = false;
    now.satisfied_since_ms.reset();
    return Note("it waits: " + Joined(Missing()));
  }
  if (now.guarded) Unguard();
  if (s().settled) return Note("satisfied");
  s().counted.push_back(evaluation.evidence);
  if (!now.satisfied_since_ms) now.satisfied_since_ms = s().now_ms;
  now.ready = s().now_ms - *now.satisfied_since_ms >= Stability();
  TryAdvance();
  if (out_.transitions.empty()) Note("satisfied; it waits: " + Joined(Missing()));
}

Result<PromotionState> Propose(const PromotionPolicy& policy, Proposal proposal) {
  if (proposal.asked.empty()) {
    return InvalidError("the contract asks for nothing, so nothing could ever be satisfied");
  }
  if (proposal.candidate == proposal.incumbent) {
    return InvalidError("the candidate is what serves already; nothing would change");
  }
  const bool contract_changes = !proposal.incumbent.contract.empty() &&
                                proposal.candidate.contract != proposal.incumbent.contract;
  if (contract_changes && proposal.asked_old.empty()) {
    return InvalidError(
        "the contract changes, so the evidence is judged under the old one too; give its clauses");
  }
  PromotionState state;
  state.id = std::move(proposal.id);
  state.lane = std::move(proposal.lane);
  state.policy = PolicyDigest(policy);
  state.proposed_by = std::move(proposal.by);
  state.candidate = std::move(proposal.candidate);
  state.incumbent = std::move(proposal.incumbent);
  state.asked = std::move(proposal.asked);
  if (contract_changes) state.asked_old = std::move(proposal.asked_old);
  state.now_ms = proposal.at_ms;
  state.progress.entered_ms = proposal.at_ms;
  state.reason = "proposed by " + (state.proposed_by.empty() ? "somebody" : state.proposed_by);
  return state;
}

Result<StepResult> Step(const PromotionPolicy& policy, const PromotionState& state,
                        const PromotionEvent& event) {
  const std::string digest = PolicyDigest(policy);
  if (state.policy != digest) {
    return InvalidError("promotion " + state.id + " began under policy " + state.policy +
                        ", not under " + digest +
                        "; go on with the policy it began with, or abort it and propose anew");
  }
  if (event.at_ms < 0 || event.at_ms > kTimeMaxMs) {
    return InvalidError("the time of the event lies outside 1970 to 9999");
  }
  // A state of this policy fits it; one that was edited by hand may not.
  const auto steps = static_cast<int64_t>(policy.stage(Stage::kCanary).steps.size());
  for (const Phase phase : {state.phase, state.frozen_from}) {
    const std::optional<Stage> stage = StageOf(phase);
    const bool there = !stage || policy.stage(*stage).in_force;
    if (!there || (phase == Phase::kCanary && (state.step < 0 || state.step >= steps))) {
      return InvalidError("promotion " + state.id + " is in a stage or step that its policy lacks");
    }
  }
  return Machine(policy, state, event).Run();
}

bool CandidateServes(const PromotionState& state) {
  return state.phase == Phase::kFull ||
         (state.phase == Phase::kFrozen && state.frozen_from == Phase::kFull);
}

double CandidateShare(const PromotionPolicy& policy, const PromotionState& state) {
  if (CandidateServes(state)) return 1;
  const bool canary = state.phase == Phase::kCanary ||
                      (state.phase == Phase::kFrozen && state.frozen_from == Phase::kCanary);
  if (!canary) return 0;
  const auto& steps = policy.stage(Stage::kCanary).steps;
  const auto step = static_cast<size_t>(state.step);
  return step < steps.size() ? steps[step].traffic : 0;
}

}  // namespace kcc
