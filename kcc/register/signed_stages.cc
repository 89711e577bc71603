#include "kcc/register/signed_stages.h"

#include <algorithm>
#include <set>

#include "kcc/contract/policy_reader.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/register/event_body.h"

namespace kcc {
namespace {

// What it is in, as far as stages go: freezing leaves none and enters none.
Phase Standing(const PromotionState& state) {
  return state.phase == Phase::kFrozen ? state.frozen_from : state.phase;
}

// How far it has come. The stage `s` was left by whoever is beyond StageRank(s). What is over
// begins anew, if it goes on at all.
int StageRank(Stage stage) { return static_cast<int>(stage) + 1; }
int Rank(const PromotionState& state) {
  if (IsOver(state.phase)) return 0;
  if (state.settled) return StageRank(Stage::kFull) + 1;
  const std::optional<Stage> stage = StageNamed(Name(Standing(state)));
  return stage ? StageRank(*stage) : 0;
}

// What a promotion keeps from its proposal to its end.
std::string ChangedFact(const PromotionState& before, const PromotionState& now) {
  if (before.policy != now.policy) return "policy";
  if (before.candidate != now.candidate) return "candidate";
  if (before.proposed_by != now.proposed_by) return "proposer";
  return {};
}

}  // namespace

std::optional<Stage> StageNamed(std::string_view name) {
  for (const Stage stage : kStages) {
    if (Name(stage) == name) return stage;
  }
  return {};
}

Result<const PromotionPolicy*> SignedStages::PolicyOf(const std::string& blob) {
  const auto known = policies_.find(blob);
  if (known != policies_.end()) return known->second ? &*known->second : nullptr;
  KCC_TRY(const std::optional<std::string> text, source_.ReadBlob(blob));
  std::optional<PromotionPolicy>& policy = policies_[blob];
  if (text) policy = ReadPolicy(*text).policy;
  return policy ? &*policy : nullptr;
}

Result<std::string> SignedStages::Follow(const Event& event) {
  const std::string promotion = BodyText(event.body, "promotion");
  const std::string which =
      "promotion " + promotion + " in event " + std::to_string(event.sequence);
  Trail& trail = trails_[promotion];
  const Result<PromotionState> state = ReadPromotionState(BodyJson(event.body, "state"));
  if (!state.has_value()) {
    // Another program's promotion, which no policy here is about and nothing here moves.
    if (trail.event == 0) return std::string();
    return which + " has a state that cannot be read: " + state.error().message();
  }
  Trail now{event.sequence, trail.entered, BodyText(event.body, "triple"), *state};
  const PromotionState& before = trail.state;
  if (trail.event == 0 || Standing(before) != Standing(*state) || before.step != state->step) {
    now.entered = event.sequence;
  }
  const std::string to = BodyText(event.body, "to");
  std::string changed;
  if (trail.event != 0) changed = ChangedFact(before, *state);
  if (trail.event != 0 && trail.triple != now.triple) changed = "triple";
  std::string wrong;
  if (state->id != promotion) {
    wrong = which + " has the state of promotion " + state->id;
  } else if (to != Name(state->phase)) {
    wrong =
        which + " is said to be " + to + ", and its state says " + std::string(Name(state->phase));
  } else if (!changed.empty()) {
    wrong = which + " has another " + changed + " than in event " + std::to_string(trail.event) +
            "; a promotion keeps it to its end";
  } else {
    KCC_TRY(wrong, CheckMove(event, trail, now));
  }
  trail = std::move(now);
  return wrong;
}

Result<std::string> SignedStages::CheckMove(const Event& event, const Trail& before,
                                            const Trail& now) {
  const int from = before.event == 0 ? 0 : Rank(before.state);
  const int to = Rank(now.state);
  const int first = std::max(from, StageRank(Stage::kOffline));
  if (to <= first) return std::string();  // no stage was left forwards
  const std::string which = "promotion " + now.state.id + " went on to " +
                            std::string(Name(Standing(now.state))) + " in event " +
                            std::to_string(event.sequence);
  const std::string blob = BodyText(event.body, "policy");
  if (blob.empty()) return which + ", which names no policy";
  KCC_TRY(const PromotionPolicy* policy, PolicyOf(blob));
  if (policy == nullptr) return which + " under the policy " + blob + ", which cannot be read";
  if (PolicyDigest(*policy) != now.state.policy) {
    return which + " under the policy " + blob + ", which is not the policy of its state, " +
           now.state.policy;
  }
  for (const Stage stage : kStages) {
    const bool left = StageRank(stage) >= first && StageRank(stage) < to;
    const ApprovalRule& rule = policy->stage(stage).approvals;
    if (!left || !policy->stage(stage).in_force || !rule.must_sign) continue;
    const int64_t given = Count(event, before, now, stage, rule);
    if (given >= rule.count) continue;
    return "promotion " + now.state.id + " left " + std::string(Name(stage)) + " in event " +
           std::to_string(event.sequence) + " with " + std::to_string(given) + " of " +
           std::to_string(rule.count) + " signed approvals that its policy asks for";
  }
  return std::string();
}

// Of different people with different keys, none of them the proposer, in the stay that ends.
int64_t SignedStages::Count(const Event& event, const Trail& before, const Trail& now, Stage stage,
                            const ApprovalRule& rule) const {
  const auto found = approvals_.find(now.state.id);
  if (found == approvals_.end()) return 0;
  std::set<std::string_view> people, keys;
  for (const SignedApproval& one : found->second) {
    const bool in_time = one.approval > before.entered && one.statement < event.sequence;
    const bool same = one.stage == Name(stage) && one.triple == now.triple &&
                      one.policy == now.state.policy &&
                      one.contract == now.state.candidate.contract;
    const bool fits = rule.roles.empty() ||
                      std::find(rule.roles.begin(), rule.roles.end(), one.role) != rule.roles.end();
    const bool own = one.by == now.state.proposed_by || one.by == now.state.retried_by;
    if (!in_time || !same || !fits || own) continue;
    people.insert(one.by);
    keys.insert(one.key);
  }
  return static_cast<int64_t>(std::min(people.size(), keys.size()));
}

bool SignedStages::Backs(const std::string& promotion, Stage stage,
                         const Approval& approval) const {
  const auto given = approvals_.find(promotion);
  const auto trail = trails_.find(promotion);
  if (given == approvals_.end() || trail == trails_.end()) return false;
  const PromotionState& state = trail->second.state;
  return std::any_of(given->second.begin(), given->second.end(), [&](const SignedApproval& one) {
    return one.stage == Name(stage) && one.approval > trail->second.entered &&
           one.by == approval.by && one.role == approval.role && one.key == approval.key &&
           one.triple == trail->second.triple && one.policy == state.policy &&
           one.contract == state.candidate.contract;
  });
}

}  // namespace kcc
