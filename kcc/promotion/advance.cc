// What a stage asks beside its evidence, and the way forwards.
#include <algorithm>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/values.h"
#include "kcc/promotion/machine.h"

namespace kcc {

void Machine::Enter(Stage stage, int64_t step, std::string reason) {
  constexpr Phase kPhaseOf[] = {Phase::kOffline, Phase::kShadow, Phase::kCanary, Phase::kFull};
  progress() = {};
  progress().entered_ms = s().now_ms;
  s().step = step;
  const Phase to = kPhaseOf[static_cast<size_t>(stage)];
  switch (stage) {
    case Stage::kOffline:
      break;
    case Stage::kShadow:
      Route(0, policy_.stage(stage).mirror);
      break;
    case Stage::kCanary:
      Route(StepPolicy().traffic, 0);
      break;
    case Stage::kFull:
      Route(1, 0);
      break;
  }
  Change(to, std::move(reason));
  Send({.kind = CommandKind::kEvaluate, .stage = stage});
  if (stage == Stage::kCanary) {
    AskHooks(HookPoint::kRollout);
    Hooks(HookPoint::kRollback, CommandKind::kRunHook, "");
  }
  if (stage == Stage::kFull) Hooks(HookPoint::kPostRollout, CommandKind::kTellHook, s().reason);
}

bool Machine::LastStep() {
  return s().phase != Phase::kCanary ||
         static_cast<size_t>(s().step) + 1 == policy_.stage(Stage::kCanary).steps.size();
}

// Evidence only grows, so a look at no more requests than it has will not come.
bool Machine::LookIsLeft() {
  const std::vector<Look>& looks = policy_.stage(*StageOf(Standing())).looks;
  return std::any_of(looks.begin(), looks.end(),
                     [&](const Look& look) { return look.requests > progress().requests; });
}

int64_t Machine::LeastRequests() {
  if (Standing() == Phase::kCanary) return StepPolicy().min_requests;
  return policy_.stage(*StageOf(Standing())).min_requests;
}

int64_t Machine::Stability() {
  if (Standing() == Phase::kCanary) return StepPolicy().stability_ms;
  return policy_.stage(*StageOf(Standing())).stability_ms;
}

// People agree to leaving a stage, not to every step in it. A contract that became looser needs one
// at least, whatever the policy says.
ApprovalRule Machine::ApprovalsNeeded() {
  ApprovalRule rule = policy_.stage(*StageOf(s().phase)).approvals;
  if (!progress().loosened.empty()) rule.count = std::max<int64_t>(rule.count, 1);
  if (!LastStep()) rule.count = 0;
  return rule;
}

std::vector<HookPoint> Machine::Gates() {
  const Stage stage = *StageOf(s().phase);
  if (stage == Stage::kFull) return {};
  std::vector<HookPoint> gates;
  if (stage == Stage::kCanary) gates.push_back(HookPoint::kRollout);
  if (!LastStep()) {
    gates.push_back(HookPoint::kConfirmTrafficIncrease);
    return gates;
  }
  const std::optional<Stage> next = policy_.StageAfter(stage);
  const bool goes_live = stage < Stage::kCanary && next && *next >= Stage::kCanary;
  if (goes_live) gates.push_back(HookPoint::kPreRollout);
  if (next == Stage::kFull) gates.push_back(HookPoint::kConfirmPromotion);
  return gates;
}

HookStatus* Machine::StatusOf(const PolicyHook& hook) {
  for (HookStatus& status : progress().hooks) {
    if (status.hook == hook.name) return &status;
  }
  return nullptr;
}

void Machine::AskHooks(HookPoint point) {
  for (const PolicyHook& hook : policy_.hooks) {
    if (hook.point != point || StatusOf(hook) != nullptr) continue;
    progress().hooks.push_back({hook.name, HookState::kAsked});
    Send({.kind = CommandKind::kRunHook, .hook = hook.name});
  }
}

// Asks those that were not asked in this step yet.
bool Machine::AllYes(const std::vector<HookPoint>& points) {
  bool all = true;
  for (const HookPoint point : points) {
    AskHooks(point);
    for (const PolicyHook& hook : policy_.hooks) {
      if (hook.point == point && StatusOf(hook)->state != HookState::kYes) all = false;
    }
  }
  return all;
}

// What keeps the promotion where it is, in words; for people, so never a reason to advance.
std::vector<std::string> Machine::Missing() {
  std::vector<std::string> missing = progress().missing;
  if (s().phase == Phase::kProposed) missing.emplace_back("its turn has not come");
  if (!StageOf(s().phase)) return missing;
  if (s().settled) return {};
  if (progress().evidence.empty()) missing.emplace_back("there is no evidence of this stage yet");
  if (!progress().ready && !policy_.stage(*StageOf(s().phase)).looks.empty() && !LookIsLeft()) {
    missing.emplace_back("no planned look is left; abort it and propose anew");
  }
  if (!progress().ready && progress().satisfied_since_ms) {
    missing.push_back("it must stay satisfied until a look " + DurationText(Stability()) +
                      " after the first");
  }
  const ApprovalRule rule = ApprovalsNeeded();
  const auto given = static_cast<int64_t>(progress().approvals.size());
  if (given < rule.count) {
    std::string text = std::to_string(rule.count - given) + " more " +
                       (rule.must_sign ? "signed approval" : "approval") +
                       (rule.count - given == 1 ? "" : "s");
    const std::vector<std::string_view> roles(rule.roles.begin(), rule.roles.end());
    if (!roles.empty()) text += " by " + JoinWords(roles, "or");
    if (!progress().loosened.empty()) {
      text += ", since the old contract does not grant " + Joined(progress().loosened);
    }
    missing.push_back(std::move(text));
  }
  for (const HookStatus& status : progress().hooks) {
    if (status.state != HookState::kYes) {
      missing.push_back("hook " + status.hook +
                        (status.state == HookState::kNo ? " said no" : " has not answered"));
    }
  }
  return missing;
}

// A person or a hook may be what was missing last; without evidence that is ready they move
// nothing.
void Machine::TryAdvance() {
  if (!progress().ready || s().settled) return;
  const auto given = static_cast<int64_t>(progress().approvals.size());
  if (given < ApprovalsNeeded().count) return;
  if (!AllYes(Gates())) return;
  Advance();
}

void Machine::Advance() {
  const Stage stage = *StageOf(s().phase);
  s().passed.push_back(
      {stage, s().step, progress().evidence, progress().requests, s().now_ms, progress().held});
  std::string why =
      Place() + " is satisfied on " + std::to_string(progress().requests) + " requests";
  for (const HeldClause& held : progress().held) {
    why += "; " + held.id + " held on " + std::to_string(held.clean) +
           " clean requests, which excludes a rate above " + ReadableNumber(held.excluded_rate) +
           " at confidence " + ReadableNumber(policy_.confidence);
  }
  if (!progress().loosened.empty()) {
    why += "; looser than the old contract in " + Joined(progress().loosened);
  }
  if (!LastStep()) return Enter(stage, s().step + 1, std::move(why));
  if (const std::optional<Stage> next = policy_.StageAfter(stage)) {
    return Enter(*next, 0, std::move(why));
  }
  s().settled = true;
  progress().ready = false;
  Change(Phase::kFull, std::move(why) + "; the candidate is the incumbent now");
  Send({.kind = CommandKind::kSettle});
  Send({.kind = CommandKind::kStartNext});
}

}  // namespace kcc
