// Promotion: how a change of weights, kernel build, routing, hardware or contract comes to serve,
// as a pure state machine (docs/promotion.md). Events go in, with their time; the new state and the
// commands that carry it out come back. No clock, no files, no randomness: the same events give the
// same states, byte for byte.
//
// Four rules hold whatever the events are:
//  - a stage is left forwards only by a satisfied evaluation of its own evidence, which no stage
//  and
//    no step has counted before; never by silence, time, a person or a hook alone;
//  - bad news counts from every stage, once it has started: a violated L3 clause while the
//  candidate
//    is live gives all traffic back to the incumbent in the same step;
//  - an error of the evidence freezes, and what is frozen never advances;
//  - the incumbent serves until the last step, and is what a rollback returns to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/policy.h"
#include "kcc/judge/verdict.h"

namespace kcc {

enum class Phase : uint8_t {
  kProposed,
  kOffline,
  kShadow,
  kCanary,
  kFull,
  kRejected,
  kRolledBack,
  kFrozen,
  kSuperseded,
};
inline constexpr int kPhases = 9;

// What serves: digests where there are some. Two deployments are the same if all of it is.
struct Deployment {
  std::string model;
  std::string train;
  std::string infer;
  std::string contract;
  std::string routing;
  std::string hardware;

  bool operator==(const Deployment&) const = default;
  bool empty() const { return *this == Deployment(); }
};

enum class ChangedPart : uint8_t { kWeights, kKernel, kRouting, kHardware, kContract };
std::vector<ChangedPart> ChangedParts(const Deployment& before, const Deployment& after);

// A clause that the contract asks for, as the machine needs it (audit.h: AskedOf).
struct AskedClause {
  std::string id;
  ViolationLevel level = ViolationLevel::kL1;
  bool hard = true;
  std::vector<Stage> stages;
  std::string never;  // why no sample of traffic certifies it; empty: samples can

  bool operator==(const AskedClause&) const = default;
};

// By what a verdict was reached. kExact: a fact about a fixed set. kFixed: a test for one look at a
// size fixed in advance. kAnytime: a test that holds however often one looks.
enum class TestKind : uint8_t { kExact, kFixed, kAnytime };

// The verdict on one clause, the worst of its slices.
struct ClauseFinding {
  std::string id;
  ViolationLevel level = ViolationLevel::kL1;
  bool hard = true;
  Action action = Action::kLog;  // what the contract orders for a violation
  Verdict verdict = Verdict::kInconclusive;
  std::string reason;
  int64_t audited = 0;    // requests that were looked at, each on its own, on the smallest slice
  int64_t exceeding = 0;  // those beyond the threshold
  std::optional<Verdict> incumbent;  // of the incumbent, on the same evidence

  bool operator==(const ClauseFinding&) const = default;
};

struct Evaluation {
  Stage stage = Stage::kOffline;
  std::string evidence;  // digest of the summary
  // Digest of the evaluation before it in this step; empty: the first. Other words than a digest
  // say, after "it", why it continues none.
  std::string continues;
  TestKind test = TestKind::kAnytime;
  double alpha = 0;  // kFixed: the level it was made at
  int64_t requests = 0;
  std::string contract;  // digest
  std::vector<ClauseFinding> clauses;
  // Where the contract itself is what changes: the same evidence under the old one.
  std::string old_contract;
  std::vector<ClauseFinding> under_old;

  bool operator==(const Evaluation&) const = default;
};

enum class PromotionEventKind : uint8_t {
  kStart,  // its turn in the queue; or another try after a rollback
  kEvaluation,
  kTick,        // time passes
  kApproval,    // by, role
  kHookAnswer,  // hook, yes, text
  kFreeze,      // by, text
  kUnfreeze,
  kAbort,
  kSuperseded,  // text: by which promotion
  kIncident,    // level, text
};
inline constexpr int kPromotionEventKinds = 10;

inline constexpr int64_t kTimeMaxMs = 253'402'300'799'000;  // the end of 9999

struct PromotionEvent {
  PromotionEventKind kind = PromotionEventKind::kTick;
  int64_t at_ms = 0;
  std::string by;    // a person or a program
  std::string role;  // of an approval
  std::string key;   // of an approval: id of the key that signed it; the sender has verified it
  std::string hook;  // name of the hook that answered
  bool yes = false;
  std::string text;                            // why, in words
  ViolationLevel level = ViolationLevel::kL1;  // of an incident
  Deployment incumbent;                        // of a start: what serves now
  Evaluation evaluation;

  bool operator==(const PromotionEvent&) const = default;
};

enum class CommandKind : uint8_t {
  kRoute,     // send `share` of live requests to the candidate, mirror `mirror` of them to it
  kEvaluate,  // begin to collect evidence of `stage`, from nothing
  kRunHook,   // ask `hook` and send its answer as an event
  kTellHook,  // call `hook`; its answer does not matter
  kGuard,     // serve what the clauses in `text` are about by the guarded route
  kUnguard,
  kSettle,     // the candidate is the new incumbent; the old one need not be kept ready
  kStartNext,  // the next candidate of the queue may start
};

struct Command {
  CommandKind kind = CommandKind::kRoute;
  double share = 0;
  double mirror = 0;
  Stage stage = Stage::kOffline;
  std::string hook = {};
  std::string text = {};

  bool operator==(const Command&) const = default;
};

struct Approval {
  std::string by;
  std::string role;
  int64_t at_ms = 0;
  std::string key = {};  // id of the key that signed it; empty: not signed

  bool operator==(const Approval&) const = default;
};

enum class HookState : uint8_t { kAsked, kYes, kNo };
struct HookStatus {
  std::string hook;
  HookState state = HookState::kAsked;

  bool operator==(const HookStatus&) const = default;
};

// A hard clause that counts as held, and the rate of exceeding requests that this excludes.
struct HeldClause {
  std::string id;
  int64_t clean = 0;
  double excluded_rate = 1;

  bool operator==(const HeldClause&) const = default;
};

// What is known since the present stage, or step of the canary, was entered.
struct StepProgress {
  int64_t entered_ms = 0;
  std::string evidence;  // the last evaluation's
  int64_t requests = 0;
  int64_t looks = 0;  // planned looks, and single looks offline, that were used up
  std::optional<int64_t> satisfied_since_ms;
  bool ready = false;  // the evidence asks for nothing more
  bool guarded = false;
  std::vector<std::string> missing;   // in words
  std::vector<std::string> exceeded;  // hard clauses of which an exceedance was seen: never clean
  std::vector<HeldClause> held;
  std::vector<std::string> loosened;  // clauses of the old contract that are not satisfied
  std::vector<std::string> watched;   // clauses without power that are violated
  std::vector<Approval> approvals;
  std::vector<HookStatus> hooks;

  bool operator==(const StepProgress&) const = default;
};

// A stage or step that was passed, and the evidence that passed it.
struct PassedStep {
  Stage stage = Stage::kOffline;
  int64_t step = 0;
  std::string evidence;
  int64_t requests = 0;
  int64_t at_ms = 0;
  std::vector<HeldClause> held;

  bool operator==(const PassedStep&) const = default;
};

struct PromotionState {
  std::string id;
  std::string lane;    // promotions of one lane take turns (queue.h)
  std::string policy;  // digest; a step under another policy is refused
  std::string proposed_by;
  std::string retried_by;  // who started it again after a rollback; empty: nobody
  Deployment candidate;
  Deployment incumbent;  // empty: the first of its lane
  std::vector<AskedClause> asked;
  std::vector<AskedClause> asked_old;  // of the incumbent's contract, where the contract changes
  Phase phase = Phase::kProposed;
  Phase frozen_from = Phase::kProposed;  // read while frozen only
  int64_t step = 0;                      // of the canary, from 0
  int64_t now_ms = 0;                    // the latest time that any event told
  bool started = false;
  bool settled = false;  // full: the candidate is the incumbent now
  int64_t rollbacks = 0;
  int64_t ended_ms = 0;
  StepProgress progress;
  std::vector<PassedStep> passed;
  std::vector<std::string> earlier;  // digests of the live evidence of tries that were rolled back
  std::vector<std::string> counted;  // digests of satisfied evidence, of every stage and try
  std::string reason;                // of the last change, in words

  bool operator==(const PromotionState&) const = default;
};

struct Transition {
  Phase from = Phase::kProposed;
  Phase to = Phase::kProposed;
  std::string cause;   // the event: "evaluation sha256:…", "approval by ada"
  std::string reason;  // one sentence in plain words

  bool operator==(const Transition&) const = default;
};

struct StepResult {
  PromotionState state;
  std::vector<Command> commands;
  std::vector<Transition> transitions;  // phases, steps of the canary and settling
  std::string note;                     // what the event did, or why it did nothing
};

struct Proposal {
  std::string id;
  std::string lane;
  std::string by;
  Deployment candidate;
  Deployment incumbent;
  std::vector<AskedClause> asked;
  std::vector<AskedClause> asked_old;
  int64_t at_ms = 0;
};

// A promotion in phase proposed. Fails where nothing changes, where the contract asks for nothing,
// and where the contract changes without the old one's clauses.
Result<PromotionState> Propose(const PromotionPolicy& policy, Proposal proposal);

// Defined for every phase and event. Fails where the state was made under another policy or does
// not fit it, and where the event's time is before 1970 or after 9999.
Result<StepResult> Step(const PromotionPolicy& policy, const PromotionState& state,
                        const PromotionEvent& event);

// Whether the candidate answers all live requests; otherwise the incumbent does, but for the share
// of the present step of a canary.
bool CandidateServes(const PromotionState& state);
double CandidateShare(const PromotionPolicy& policy, const PromotionState& state);

// Whether nothing can happen to it any more, but for another try after a rollback.
bool IsOver(Phase phase);

// The largest rate of exceeding requests that `clean` requests without one leave possible at this
// confidence: 1 - (1 - confidence)^(1/clean). Precondition: clean > 0, 0 < confidence < 1.
double ExcludedRate(int64_t clean, double confidence);

std::string_view Name(Phase phase);              // "rolled-back"
std::string_view Name(ChangedPart part);         // "kernel build"
std::string_view Name(TestKind test);            // "anytime"
std::string_view Name(PromotionEventKind kind);  // "hook-answer"
std::string_view Name(CommandKind kind);         // "run-hook"
std::string_view Name(HookState state);          // "asked"

}  // namespace kcc
