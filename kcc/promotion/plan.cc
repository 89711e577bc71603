#include "kcc/promotion/plan.h"

#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/contract/certifiable.h"
#include "kcc/contract/values.h"
#include "kcc/promotion/promotion.h"

namespace kcc {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  const std::vector<std::string_view> words(names.begin(), names.end());
  return JoinWords(words);
}

bool JudgedIn(const Clause& clause, Stage stage) {
  return std::find(clause.stages.begin(), clause.stages.end(), stage) != clause.stages.end();
}

// What a stage asks of a contract's clauses, sorted by how each can be met.
struct CountedClauses {
  std::vector<std::string> counting;
  std::vector<std::string> held;               // by clean requests
  std::vector<UndecidableClause> undecidable;  // neither satisfied nor held, ever
};

CountedClauses CountedIn(const PromotionPolicy& policy, const Contract& contract, Stage stage) {
  CountedClauses counted;
  const std::vector<UndecidableClause> never = UndecidableClauses(contract, stage);
  for (const Clause& clause : contract.clauses) {
    if (!JudgedIn(clause, stage) || !CountsIn(policy, stage, clause.id, clause.level)) continue;
    counted.counting.push_back(clause.id);
    const auto found = std::find_if(never.begin(), never.end(), [&](const UndecidableClause& row) {
      return row.clause == &clause;
    });
    if (found == never.end()) continue;
    if (clause.hard() && policy.stage(stage).clean) {
      counted.held.push_back(clause.id);
    } else {
      counted.undecidable.push_back(*found);
    }
  }
  return counted;
}

Diagnostic MakeWarning(std::string code, std::string message, std::string hint, Mark mark) {
  Diagnostic diagnostic;
  diagnostic.kind = DiagnosticKind::kWarning;
  diagnostic.code = std::move(code);
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  diagnostic.mark = mark;
  return diagnostic;
}

// A misspelt clause in the policy would silently be one that is not asked for.
void CheckNames(const PromotionPolicy& policy, const Contract& contract,
                std::vector<Diagnostic>* found) {
  std::vector<std::string> names;
  for (const EnforceRule& rule : policy.enforce) names.push_back(rule.clause);
  for (const StagePolicy& stage : policy.stages) {
    names.insert(names.end(), stage.clauses.begin(), stage.clauses.end());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::string_view> ids;
  for (const Clause& clause : contract.clauses) ids.push_back(clause.id);
  for (const std::string& name : names) {
    if (contract.FindClause(name) != nullptr) continue;
    const auto nearest = NearestWord(name, ids);
    found->push_back(MakeWarning(
        "unknown-clause",
        "policy '" + policy.name + "' names clause '" + name + "', which the contract lacks",
        nearest ? "did you mean '" + std::string(*nearest) + "'?" : "remove it, or add the clause",
        {}));
  }
}

std::string CleanWords(const PromotionPolicy& policy, const StagePolicy& stage,
                       const std::string& which) {
  return which + " count as held after " + std::to_string(*stage.clean) +
         " audited requests without one exceedance, which excludes a rate above " +
         ReadableNumber(ExcludedRate(*stage.clean, policy.confidence)) + " at confidence " +
         ReadableNumber(policy.confidence);
}

std::string TestWords(Stage which, const StagePolicy& stage) {
  if (which == Stage::kOffline) {
    return "facts about the evaluation set, or a test for one look, once";
  }
  if (stage.looks.empty()) return "tests that hold however often one looks";
  std::string text = "tests for one look, and at no other moment, at";
  for (const Look& look : stage.looks) {
    text += (&look == &stage.looks.front() ? " " : ", ") + std::to_string(look.requests) +
            " requests (alpha " + ReadableNumber(look.alpha) + ")";
  }
  return text;
}

std::string AmountWords(int64_t requests, int64_t stability_ms) {
  std::string text = requests > 0 ? "at least " + std::to_string(requests) + " requests" : "";
  if (stability_ms > 0) {
    text += (text.empty() ? "" : ", ") + std::string("satisfied for ") +
            DurationText(stability_ms) + " from the first look to the last";
  }
  return text.empty() ? "no least number of requests" : text;
}

void AddClauses(const PromotionPolicy& policy, const Contract* contract, Stage which,
                StagePlan* plan) {
  const StagePolicy& stage = policy.stage(which);
  auto& rows = plan->sentences;
  if (contract == nullptr) {
    std::vector<std::string> levels;
    for (const ViolationLevel level : stage.levels) levels.emplace_back(Name(level));
    rows.push_back({"asks for", stage.clauses.empty()
                                    ? "every clause of level " + Listed(levels) + ", satisfied"
                                    : "clauses " + Listed(stage.clauses) + ", satisfied"});
    if (stage.clean) {
      rows.push_back({"clean", CleanWords(policy, stage, "hard clauses that no sample certifies")});
    }
    return;
  }
  const CountedClauses counted = CountedIn(policy, *contract, which);
  plan->counting = counted.counting;
  rows.push_back({"asks for", counted.counting.empty()
                                  ? "nothing: no clause counts here, so it is never left"
                                  : Listed(counted.counting) + ", satisfied"});
  if (!counted.held.empty()) {
    rows.push_back({"clean", CleanWords(policy, stage, Listed(counted.held))});
  }
  for (const UndecidableClause& row : counted.undecidable) {
    plan->undecidable.push_back(row.clause->id);
    rows.push_back({&row == &counted.undecidable.front() ? "cannot decide" : "",
                    row.clause->id + ": " + row.why +
                        (row.clause->hard() ? "; name a number of clean requests" : "")});
  }
}

void AddWaiting(Stage which, const StagePolicy& stage, std::vector<PlanSentence>* rows) {
  if (stage.approvals.count > 0) {
    std::string text = std::to_string(stage.approvals.count) +
                       (stage.approvals.count == 1 ? " person" : " people");
    if (!stage.approvals.roles.empty()) {
      const std::vector<std::string_view> roles(stage.approvals.roles.begin(),
                                                stage.approvals.roles.end());
      text += ", " + JoinWords(roles, "or");
    }
    text += "; not who proposed it";
    if (stage.approvals.must_sign) text += "; each signed, by a key of its own";
    if (!stage.approvals.keyring.empty()) text += " of keyring " + stage.approvals.keyring;
    rows->push_back({"approvals", std::move(text)});
  }
  std::string deadline = "it waits, without a limit";
  if (stage.deadline_ms) {
    deadline = "it waits; after " + DurationText(*stage.deadline_ms);
    switch (stage.on_deadline) {
      case DeadlineOutcome::kFreeze:
        deadline += " it is frozen until somebody looks";
        break;
      case DeadlineOutcome::kReject:
        deadline += " it is rejected";
        break;
      case DeadlineOutcome::kRollback:
        deadline += " it is rolled back";
        break;
    }
  }
  rows->push_back({"inconclusive", deadline});
  const bool live = which == Stage::kCanary || which == Stage::kFull;
  rows->push_back({"violated", live
                                   ? "L3 gives all traffic back to the incumbent at once, L2 guards"
                                   : "the candidate is rejected"});
  rows->push_back({"broken", "an error of the evidence freezes"});
}

}  // namespace

std::vector<Diagnostic> CheckPolicyAgainst(const PromotionPolicy& policy,
                                           const Contract& contract) {
  std::vector<Diagnostic> found;
  CheckNames(policy, contract, &found);
  struct Row {
    const UndecidableClause* first;
    std::vector<std::string> stages;
  };
  std::vector<CountedClauses> by_stage;
  for (const Stage stage : kStages) {
    by_stage.push_back(policy.stage(stage).in_force ? CountedIn(policy, contract, stage)
                                                    : CountedClauses());
    if (policy.stage(stage).in_force && by_stage.back().counting.empty()) {
      found.push_back(MakeWarning("nothing-counts",
                                  "no clause of the contract counts in stage " +
                                      std::string(Name(stage)) + " of policy '" + policy.name +
                                      "', so it is never left",
                                  "judge a clause there, or leave the stage out", {}));
    }
  }
  // One warning for each clause, naming all stages that cannot decide it.
  for (const Clause& clause : contract.clauses) {
    Row row{nullptr, {}};
    for (size_t i = 0; i < by_stage.size(); ++i) {
      for (const UndecidableClause& never : by_stage[i].undecidable) {
        if (never.clause != &clause) continue;
        if (row.first == nullptr) row.first = &never;
        row.stages.emplace_back(Name(kStages[i]));
      }
    }
    if (row.first == nullptr) continue;
    found.push_back(MakeWarning(
        "undecidable-clause",
        "clause '" + clause.id + "' is never satisfied in " + Listed(row.stages) + " of policy '" +
            policy.name + "': " + row.first->why,
        clause.hard() ? "name a number of clean requests in the policy, such as 'clean: 3000'"
                      : "judge it in other stages, or leave it out of what counts",
        clause.mark));
  }
  return found;
}

std::vector<StagePlan> PlanOf(const PromotionPolicy& policy, const Contract* contract) {
  std::vector<StagePlan> plans;
  for (const Stage which : kStages) {
    const StagePolicy& stage = policy.stage(which);
    if (!stage.in_force) continue;
    StagePlan plan;
    plan.stage = which;
    auto& rows = plan.sentences;
    switch (which) {
      case Stage::kOffline:
        rows.push_back({"sees", "a fixed evaluation set; the incumbent serves all traffic"});
        break;
      case Stage::kShadow:
        rows.push_back({"sees", "a copy of " + PercentText(stage.mirror) +
                                    " of live requests; nobody sees its answers"});
        break;
      case Stage::kCanary:
        for (const CanaryStep& step : stage.steps) {
          rows.push_back({&step == &stage.steps.front() ? "steps" : "",
                          PercentText(step.traffic) + " of live requests: " +
                              AmountWords(step.min_requests, step.stability_ms)});
        }
        break;
      case Stage::kFull:
        rows.push_back({"sees", "all live requests; the incumbent is kept ready until it is left"});
        break;
    }
    AddClauses(policy, contract, which, &plan);
    if (which != Stage::kCanary) {
      rows.push_back({"evidence", AmountWords(stage.min_requests, stage.stability_ms)});
    }
    rows.push_back({"judged by", TestWords(which, stage)});
    AddWaiting(which, stage, &rows);
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<PlanSentence> PolicySentences(const PromotionPolicy& policy) {
  std::vector<PlanSentence> rows;
  rows.push_back({"cool-down", DurationText(policy.cool_down_ms) +
                                   " after a rollback, twice that after the second, and so on"});
  for (const EnforceRule& rule : policy.enforce) {
    if (rule.mode == Enforce::kOn) continue;
    rows.push_back({"watched", "clause " + rule.clause +
                                   (rule.mode == Enforce::kOff
                                        ? " is not looked at"
                                        : " is judged and shown, and decides nothing")});
  }
  for (const PolicyHook& hook : policy.hooks) {
    rows.push_back({&hook == &policy.hooks.front() ? "hooks" : "",
                    std::string(Name(hook.point)) + ": " + hook.name + ", " +
                        (hook.exec.empty() ? hook.http : hook.exec)});
  }
  if (policy.requests.store != StoreRequests::kNone) {
    rows.push_back({"requests", "kept to be run again: " + StorageWords(policy.requests)});
  }
  return rows;
}

}  // namespace kcc
