// For tests: a policy with every key, a promotion under it, and events that are easy to write.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/promotion/promotion.h"

namespace kcc::testing {

inline constexpr int64_t kHourMs = 3'600'000;

inline PromotionPolicy PolicyOf(std::string_view spec) {
  const PolicyOutcome outcome = ReadPolicy(
      "apiVersion: kcc/v1\nkind: PromotionPolicy\nmetadata: {name: p, version: 1.0.0}\nspec:\n" +
      std::string(spec));
  for (const Diagnostic& row : outcome.diagnostics) {
    if (row.kind == DiagnosticKind::kError) ADD_FAILURE() << row.message;
  }
  KCC_CHECK(outcome.policy.has_value());
  return *outcome.policy;
}

inline constexpr std::string_view kPlainSpec =
    "  coolDown: 1h\n"
    "  offline: {clean: 3000, deadline: 10h, onDeadline: reject}\n"
    "  shadow: {minRequests: 100, clean: 3000, deadline: 10h}\n"
    "  canary: {steps: [{traffic: 1%}, {traffic: 10%}], minRequests: 100, clean: 3000,"
    " deadline: 10h, onDeadline: rollback}\n"
    "  full: {clean: 3000}\n";

inline PromotionPolicy PlainPolicy() { return PolicyOf(kPlainSpec); }

inline std::string Digest(std::string_view text) { return Sha256Of(text); }

inline const std::vector<Stage>& AllStages() {
  static const std::vector<Stage> stages(kStages.begin(), kStages.end());
  return stages;
}

// Two clauses that samples decide, and a hard one that they do not.
inline std::vector<AskedClause> PlainAsked() {
  return {{"N-1", ViolationLevel::kL3, false, AllStages(), ""},
          {"N-2", ViolationLevel::kL2, false, AllStages(), ""},
          {"O-1", ViolationLevel::kL3, true, AllStages(),
           "no sample shows that there is never an exception"},
          {"R-1", ViolationLevel::kL1, false, AllStages(), ""}};
}

inline Deployment Incumbent() { return {"weights", "bf16", "fp16", "contract", "", ""}; }
inline Deployment Candidate() { return {"weights", "bf16", "fp8", "contract", "", ""}; }

inline PromotionState Proposed(const PromotionPolicy& policy, std::string id = "p-1",
                               Deployment candidate = Candidate()) {
  Proposal proposal{std::move(id), "lane",       "ada", std::move(candidate),
                    Incumbent(),   PlainAsked(), {},    0};
  if (proposal.candidate.contract != proposal.incumbent.contract) proposal.asked_old = PlainAsked();
  auto state = Propose(policy, std::move(proposal));
  KCC_CHECK(state.has_value());
  return *state;
}

inline ClauseFinding Finding(const AskedClause& asked, Verdict verdict) {
  ClauseFinding finding;
  finding.id = asked.id;
  finding.level = asked.level;
  finding.hard = asked.hard;
  finding.action = asked.level == ViolationLevel::kL1   ? Action::kLog
                   : asked.level == ViolationLevel::kL2 ? Action::kGuard
                                                        : Action::kFallback;
  finding.verdict = verdict;
  return finding;
}

inline PromotionEvent Event(PromotionEventKind kind, int64_t at_ms = 0) {
  PromotionEvent event;
  event.kind = kind;
  event.at_ms = at_ms;
  return event;
}

// What would pass the present step of the promotion, continuing its evidence.
inline PromotionEvent GoodEvaluation(const PromotionState& state, Stage stage, int64_t at_ms = 0,
                                     int64_t more = 5000) {
  PromotionEvent event = Event(PromotionEventKind::kEvaluation, at_ms);
  Evaluation& evaluation = event.evaluation;
  evaluation.stage = stage;
  evaluation.continues = state.progress.evidence;
  evaluation.requests = state.progress.requests + more;
  evaluation.evidence = Digest(state.id + std::string(Name(stage)) + std::to_string(state.step) +
                               "/" + std::to_string(state.rollbacks) + "/" +
                               std::to_string(evaluation.requests) + "/" + std::to_string(at_ms));
  evaluation.test = stage == Stage::kOffline ? TestKind::kExact : TestKind::kAnytime;
  evaluation.contract = state.candidate.contract;
  for (const AskedClause& asked : state.asked) {
    evaluation.clauses.push_back(
        Finding(asked, asked.never.empty() ? Verdict::kSatisfied : Verdict::kInconclusive));
    evaluation.clauses.back().audited = evaluation.requests;
  }
  if (!state.asked_old.empty()) {
    evaluation.old_contract = state.incumbent.contract;
    for (const AskedClause& asked : state.asked_old) {
      evaluation.under_old.push_back(Finding(asked, Verdict::kSatisfied));
    }
  }
  return event;
}

inline ClauseFinding& Row(PromotionEvent& event, std::string_view id) {
  for (ClauseFinding& finding : event.evaluation.clauses) {
    if (finding.id == id) return finding;
  }
  KCC_CHECK(false);
  return event.evaluation.clauses.front();
}

// Takes steps on a state and keeps the last result.
struct Walk {
  explicit Walk(PromotionPolicy used) : policy(std::move(used)), state(Proposed(policy)) {}
  Walk(PromotionPolicy used, PromotionState begun)
      : policy(std::move(used)), state(std::move(begun)) {}

  Walk& Take(const PromotionEvent& event) {
    auto result = Step(policy, state, event);
    KCC_CHECK(result.has_value());
    last = std::move(*result);
    state = last.state;
    return *this;
  }
  Walk& Start() { return Take(Event(PromotionEventKind::kStart, state.now_ms)); }
  Walk& Good(Stage stage, int64_t at_ms = 0) { return Take(GoodEvaluation(state, stage, at_ms)); }
  // Into the phase, through all before it.
  Walk& To(Phase phase) {
    Start();
    if (phase > Phase::kOffline) Good(Stage::kOffline);
    if (phase > Phase::kShadow) Good(Stage::kShadow);
    if (phase > Phase::kCanary) {
      while (state.phase == Phase::kCanary) Good(Stage::kCanary);
    }
    KCC_CHECK(state.phase == phase);
    return *this;
  }
  bool Sent(CommandKind kind) const {
    for (const Command& command : last.commands) {
      if (command.kind == kind) return true;
    }
    return false;
  }
  // The share of live requests that the last step sent to the candidate; -1: it routed nothing.
  double Routed() const {
    double share = -1;
    for (const Command& command : last.commands) {
      if (command.kind == CommandKind::kRoute) share = command.share;
    }
    return share;
  }

  PromotionPolicy policy;
  PromotionState state;
  StepResult last;
};

}  // namespace kcc::testing
