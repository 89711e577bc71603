// One event on one promotion. Internal to promotion/; what the events do stands in machine.cc, what
// a stage asks before it is left, and how it is left, in advance.cc.
//
// Invariants that the two files keep, and the tests hold them to:
//  - Advance() is reached from TryAdvance() alone, which returns unless progress.ready, and ready
//  is
//    set in one place, from an evaluation of the present stage that counted;
//  - a stage or step is entered by Enter() alone, which forgets what is known of the one before, so
//    nothing of one stage is ready in the next;
//  - End() and Supersede() are the ways out of live traffic, and route to the incumbent first.
// Time is the largest that any event told. A deadline takes effect before the event that brings its
// time does, so that it does not matter whether a tick came in between.
#pragma once

#include <string>
#include <vector>

#include "kcc/promotion/assess.h"
#include "kcc/promotion/promotion.h"

namespace kcc {

class Machine {
 public:
  Machine(const PromotionPolicy& policy, const PromotionState& state, const PromotionEvent& event);
  StepResult Run();

 private:
  PromotionState& s() { return out_.state; }
  StepProgress& progress() { return out_.state.progress; }
  // The phase that says what is live: of a frozen promotion the one it was frozen in.
  Phase Standing() { return s().phase == Phase::kFrozen ? s().frozen_from : s().phase; }
  bool Live() { return Standing() == Phase::kCanary || Standing() == Phase::kFull; }
  const CanaryStep& StepPolicy();
  std::string Place();  // "canary (step 2, 5% of traffic)"
  std::string Who() const { return event_.by.empty() ? "somebody" : event_.by; }
  std::string Why() const { return event_.text.empty() ? "" : ": " + event_.text; }

  void Note(std::string note);
  void Ignore();
  void Send(Command command) { out_.commands.push_back(std::move(command)); }
  void Route(double share, double mirror);
  void Hooks(HookPoint point, CommandKind kind, const std::string& text);
  // Every change is told to the hooks for events, and is the state's last reason.
  void Change(Phase to, std::string reason);

  // Events (machine.cc).
  void Deadline();
  void Start();
  void RememberTry();
  void Begin();
  void Evaluate();
  void Grow(const Evaluation& evaluation, const Assessment& found);
  void Count(const Evaluation& evaluation, const Assessment& found);
  void Tick();
  void Approve();
  void Answer();
  void Unfreeze();
  void Supersede();
  void Incident();
  void Guard(const std::string& why);
  void Unguard();
  void Freeze(std::string reason);
  void End(const std::string& why);

  // Forwards (advance.cc).
  void Enter(Stage stage, int64_t step, std::string reason);
  void TryAdvance();
  void Advance();
  bool LastStep();
  bool LookIsLeft();  // of those that the present stage plans, at what its evidence has now
  int64_t LeastRequests();
  int64_t Stability();
  ApprovalRule ApprovalsNeeded();
  std::vector<HookPoint> Gates();
  HookStatus* StatusOf(const PolicyHook& hook);
  void AskHooks(HookPoint point);
  bool AllYes(const std::vector<HookPoint>& points);
  std::vector<std::string> Missing();

  const PromotionPolicy& policy_;
  const PromotionEvent& event_;
  std::string cause_;
  StepResult out_;
};

std::string Joined(const std::vector<std::string>& texts);  // with "; "

}  // namespace kcc
