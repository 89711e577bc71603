#include "kcc/contract/policy_diff.h"

#include <algorithm>
#include <set>

#include "kcc/base/strings.h"
#include "kcc/contract/change_list.h"
#include "kcc/contract/diff_clause.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

bool Decides(HookPoint point) {
  return point != HookPoint::kPostRollout && point != HookPoint::kEvent;
}

std::string LevelsText(const StagePolicy& stage) {
  if (!stage.clauses.empty()) {
    const std::vector<std::string_view> names(stage.clauses.begin(), stage.clauses.end());
    return "clauses " + JoinWords(names);
  }
  std::vector<std::string_view> names;
  for (const ViolationLevel level : stage.levels) names.push_back(Name(level));
  return "level " + JoinWords(names);
}

std::string StepsText(const StagePolicy& stage) {
  std::string text;
  for (const CanaryStep& step : stage.steps) {
    text += (text.empty() ? "" : ", ") + PercentText(step.traffic);
  }
  return text;
}

class PolicyDiff {
 public:
  PolicyDiff(const PromotionPolicy& before, const PromotionPolicy& after)
      : before_(before), after_(after) {}

  std::vector<Change> Run() {
    list_.Metadata(ViewMetadata(before_), ViewMetadata(after_));
    list_.Amount("policy", "confidence", ReadableNumber(before_.confidence),
                 ReadableNumber(after_.confidence), before_.confidence, after_.confidence);
    list_.Time("policy", "coolDown", before_.cool_down_ms, after_.cool_down_ms);
    for (const Stage stage : kStages) CompareStage(stage);
    CompareEnforce();
    CompareHooks();
    if (before_.requests != after_.requests) {  // decides nothing
      list_.Note("policy",
                 "what is kept of requests changed " +
                     FromTo(StorageWords(before_.requests), StorageWords(after_.requests)));
    }
    return list_.Take();
  }

 private:
  void CompareStage(Stage which) {
    const StagePolicy& a = before_.stage(which);
    const StagePolicy& b = after_.stage(which);
    const std::string where = "stage " + std::string(Name(which));
    if (!a.in_force && !b.in_force) return;
    if (!b.in_force) {
      list_.Add(Change{ChangeKind::kGone, true, where, "no longer gone through"});
      return;
    }
    if (!a.in_force) {
      list_.Add(Change{ChangeKind::kNew, false, where, "must be gone through too"});
      return;
    }
    Counting(where, a, b);
    list_.Count(where, "minRequests", a.min_requests, b.min_requests);
    list_.Time(where, "stabilityWindow", a.stability_ms, b.stability_ms);
    Clean(where, a, b);
    Deadline(where, a, b);
    Approvals(where, a.approvals, b.approvals);
    if (a.looks != b.looks || a.spending != b.spending) {
      list_.Add(!b.looks.empty(), where,
                b.looks.empty() ? "planned looks removed: only tests that hold at any time count"
                                : "planned looks changed; not comparable, so it counts as looser");
    }
    if (a.mirror != b.mirror) {
      list_.Note(where, "mirror changed " + FromTo(PercentText(a.mirror), PercentText(b.mirror)));
    }
    Steps(where, a, b);
  }

  void Counting(const std::string& where, const StagePolicy& a, const StagePolicy& b) {
    if (a.clauses == b.clauses && (a.levels == b.levels || !a.clauses.empty())) return;
    const auto holds = [](const auto& all, const auto& some) {
      return std::includes(all.begin(), all.end(), some.begin(), some.end());
    };
    const bool by_level = a.clauses.empty() && b.clauses.empty();
    const bool by_clause = !a.clauses.empty() && !b.clauses.empty();
    const bool tighter =
        (by_level && holds(b.levels, a.levels)) || (by_clause && holds(b.clauses, a.clauses));
    list_.Add(!tighter, where, "what counts changed " + FromTo(LevelsText(a), LevelsText(b)));
  }

  void Clean(const std::string& where, const StagePolicy& a, const StagePolicy& b) {
    if (a.clean && b.clean) return list_.Count(where, "clean", *a.clean, *b.clean);
    if (b.clean) {
      list_.Add(true, where,
                "hard clauses that no sample certifies now count as held after " +
                    std::to_string(*b.clean) + " clean requests");
    } else if (a.clean) {
      list_.Add(false, where,
                "hard clauses that no sample certifies are no longer held by clean requests");
    }
  }

  void Deadline(const std::string& where, const StagePolicy& a, const StagePolicy& b) {
    const auto text = [](const StagePolicy& stage) {
      return stage.deadline_ms ? DurationText(*stage.deadline_ms) + ", then " +
                                     std::string(Name(stage.on_deadline))
                               : std::string("none");
    };
    if (text(a) == text(b)) return;
    // Freezing leaves it to a person what comes next; ending does not.
    const bool ended = b.deadline_ms && b.on_deadline != DeadlineOutcome::kFreeze;
    const bool was_ended = a.deadline_ms && a.on_deadline != DeadlineOutcome::kFreeze;
    const bool tighter = b.deadline_ms && (!a.deadline_ms || *b.deadline_ms <= *a.deadline_ms) &&
                         (ended || !was_ended);
    list_.Add(!tighter, where, "deadline changed " + FromTo(text(a), text(b)));
  }

  void Approvals(const std::string& where, const ApprovalRule& a, const ApprovalRule& b) {
    list_.Count(where, "approvals", a.count, b.count);
    if (a.count > 0 && b.count > 0 && a.must_sign != b.must_sign) {
      list_.Add(a.must_sign, where,
                b.must_sign ? "approvals must be signed" : "approvals need not be signed any more");
    } else if (a.count > 0 && b.count > 0 && a.keyring != b.keyring) {
      list_.Add(
          !a.keyring.empty(), where,
          a.keyring.empty() ? "keys of one keyring alone count" : "keys of another keyring count");
    }
    if (a.count == 0 || b.count == 0 || a.roles == b.roles) return;
    const bool tighter =
        a.roles.empty() || (!b.roles.empty() && std::includes(a.roles.begin(), a.roles.end(),
                                                              b.roles.begin(), b.roles.end()));
    list_.Add(!tighter, where,
              tighter ? "fewer roles may approve" : "other roles may approve than before");
  }

  // At least as tight: every old step is still there, asks no less, and comes after no larger one.
  void Steps(const std::string& where, const StagePolicy& a, const StagePolicy& b) {
    const auto same = [](const CanaryStep& x, const CanaryStep& y) {
      return x.traffic == y.traffic && x.min_requests == y.min_requests &&
             x.stability_ms == y.stability_ms;
    };
    if (std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same)) return;
    const bool tighter = std::all_of(a.steps.begin(), a.steps.end(), [&](const CanaryStep& old) {
      return std::any_of(b.steps.begin(), b.steps.end(), [&](const CanaryStep& now) {
        return now.traffic == old.traffic && now.min_requests >= old.min_requests &&
               now.stability_ms >= old.stability_ms;
      });
    });
    const std::string was = StepsText(a);
    const std::string is = StepsText(b);
    list_.Add(!tighter, where,
              was == is ? std::string(tighter ? "steps ask for more" : "steps ask for less")
                        : "steps changed " + FromTo(was, is));
  }

  void CompareEnforce() {
    std::set<std::string> clauses;
    for (const EnforceRule& rule : before_.enforce) clauses.insert(rule.clause);
    for (const EnforceRule& rule : after_.enforce) clauses.insert(rule.clause);
    for (const std::string& clause : clauses) {
      const Enforce a = before_.EnforceOf(clause);
      const Enforce b = after_.EnforceOf(clause);
      if (a == b) continue;
      list_.Add(b < a, "clause " + clause, "enforce changed " + FromTo(Name(a), Name(b)));
    }
  }

  static const PolicyHook* Find(const PromotionPolicy& policy, const std::string& name) {
    for (const PolicyHook& hook : policy.hooks) {
      if (hook.name == name) return &hook;
    }
    return nullptr;
  }

  void CompareHooks() {
    for (const PolicyHook& old : before_.hooks) {
      const std::string where = "hook " + old.name;
      const PolicyHook* now = Find(after_, old.name);
      if (now == nullptr) {
        list_.Add(Change{Decides(old.point) ? ChangeKind::kGone : ChangeKind::kOther,
                         Decides(old.point), where,
                         "no longer called at " + std::string(Name(old.point))});
        continue;
      }
      if (old.point == now->point && old.exec == now->exec && old.http == now->http &&
          old.timeout_ms == now->timeout_ms) {
        continue;
      }
      if (!Decides(old.point)) {
        list_.Note(where, "changed");
      } else {
        list_.Add(true, where, "changed; not comparable, so it counts as looser");
      }
    }
    for (const PolicyHook& now : after_.hooks) {
      if (Find(before_, now.name) != nullptr) continue;
      list_.Add(Change{ChangeKind::kNew, false, "hook " + now.name,
                       "called at " + std::string(Name(now.point))});
    }
  }

  const PromotionPolicy& before_;
  const PromotionPolicy& after_;
  ChangeList list_;
};

}  // namespace

std::vector<Change> DiffPolicies(const PromotionPolicy& before, const PromotionPolicy& after) {
  return PolicyDiff(before, after).Run();
}

}  // namespace kcc
