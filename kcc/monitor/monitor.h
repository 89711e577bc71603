// The monitor: a pure fold from a contract, a policy and a stream of observations to verdicts,
// health, actions and the kernel that serves (docs/design.md section 17; paper section 7.2). No
// clock, no I/O: time is data, and the same observations give the same decisions, bytes and all,
// on every machine.
//
// Every clause is watched on every slice it names, for each kernel apart (signal.h):
//   proof     one exceedance of a clause that allows none: violated at once;
//   detector  rates and means, by e-detectors over requests (stats/change.h). All of them together
//             raise a false alarm within T audited requests with a chance of at most
//             T * alarms / requests of the policy;
//   block     windows of requests or of time, and metrics of a population, block by block.
// Evidence is what was audited; that a line was written as it should be is read from every line.
// *Satisfied* needs the anytime-valid PASS test over the audited requests since the last alarm.
// What no test can decide stays inconclusive. Inconclusive orders nothing here: a kernel serves
// because it was promoted on evidence, and evidence takes it away.
//
// An alarm whose action moves requests guards the kernel. Requests go to the target of the order; a
// guarded kernel is shown probes, and is released only by evidence since its last alarm
// (release.h): silence, time and what was not audited release nothing.
//
// State is of a fixed size whatever the traffic. Not thread-safe: one evaluator folds what replicas
// measured, in one order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/judge/verdict.h"
#include "kcc/monitor/observation.h"

namespace kcc {

enum class MonitorChangeKind : uint8_t {
  kAlarm,         // a detector reached its level
  kProof,         // an exceedance where none is allowed, or a block beyond its threshold
  kBroken,        // evidence that contradicts itself
  kGuard,         // a kernel must not serve until it is released
  kRecovered,     // the evidence since an alarm certifies a clause that alarmed
  kRelease,       // a guarded kernel may serve again, on probation
  kProbationEnd,  // and has passed it
  kPanic,         // every kernel that could serve is guarded
  kPanicEnd,
  kRoute,  // another kernel serves
  kRenew,  // a kernel's evidence begins anew: another build bears its name
};
std::string_view Name(MonitorChangeKind kind);  // "alarm", "probation-end"

// One thing that an observation changed, with the numbers that show it.
struct MonitorChange {
  MonitorChangeKind kind = MonitorChangeKind::kAlarm;
  std::string kernel;  // kRoute: the one that serves from now on; empty: none does
  std::string clause;  // empty: not about one clause
  std::string slice;
  std::optional<Action> action;  // that is ordered
  std::string target;            // where requests go
  double e_value = 0;            // the statistic, where there is one
  double e_level = 0;            // and what it had to reach
  double value = 0;              // the recent rate or mean, or the value that is the proof
  double limit = 0;              // what it is held to
  int64_t observations = 0;      // audited ones that the evidence rests on
  std::string reason;            // a sentence: what shows it, and what would return it

  bool operator==(const MonitorChange&) const = default;
};

// What became of an observation.
enum class Handling : uint8_t {
  kCounted,
  kUnaudited,  // counted as served; evidence of nothing
  kDuplicate,  // the request's id was seen in this epoch
  kSession,    // a request of its session was audited in this epoch
  kLate,       // of an epoch that is over
  kUnread,     // a line that could not be read; evidence of nothing good
  kRenewed,    // no observation: a kernel's evidence began anew
};
std::string_view Name(Handling handling);  // "counted"

struct MonitorDecision {
  int64_t number = 0;  // of the observation, from 1
  Handling handling = Handling::kCounted;
  std::vector<MonitorChange> changes;
  std::string serves;  // after the observation; empty: no kernel does

  bool operator==(const MonitorDecision&) const = default;
};

// A clause on a slice, as it stands for one kernel.
struct PairStatus {
  std::string clause;
  std::string slice;
  bool of_train = false;  // the slice as train's outcomes select it; the clause must hold on both
  Verdict verdict = Verdict::kInconclusive;
  std::string reason;
  double level = 0;   // how far its detectors are towards an alarm, in [0, 1]
  double recent = 0;  // rate or mean over the recent window, on the scale of `limit`
  double limit = 0;
  int64_t observations = 0;  // since the last alarm or the start
  int64_t alarms = 0;
  double deviation = 0;  // phi
};

enum class KernelState : uint8_t { kServing, kGuarded, kProbation };
std::string_view Name(KernelState state);  // "serving", "guarded", "probation"

struct KernelStatus {
  std::string name;
  KernelRole role = KernelRole::kInfer;
  KernelState state = KernelState::kServing;
  std::optional<Action> action;  // that its alarms order
  std::string target;            // where its requests go while it is guarded
  Verdict verdict = Verdict::kInconclusive;
  double health = 0;  // H; < eta1: no L2 or L3 clause is violated, >= eta2: an L3 clause is
  double eta1 = 1;
  double eta2 = 1;
  double audit_rate = 0;          // share of its requests to audit now
  int64_t served = 0;             // observations of any kind, probes left out
  int64_t audited = 0;            // that counted
  int64_t strikes = 0;            // times it was guarded again after a release
  int64_t probation_left = 0;     // audited requests
  std::vector<PairStatus> pairs;  // in the order of the contract
};

struct MonitorStatus {
  std::string serves;  // empty: none
  bool panic = false;
  std::string reason;  // of the route as it is
  int64_t observations = 0;
  int64_t unaudited = 0;
  int64_t duplicates = 0;             // ignored
  int64_t sessions = 0;               // ignored: their session was audited in the epoch
  int64_t late = 0;                   // ignored
  int64_t unread = 0;                 // lines that could not be read
  int64_t detectors = 0;              // among which the budget of false alarms is split
  double alarm_level = 0;             // c of each
  std::vector<KernelStatus> kernels;  // in the order of the policy
};

struct MonitorOptions {
  Stage stage = Stage::kFull;  // clauses of other stages are left out
};

class Monitor {
 public:
  // Fails where the contract has no clause for the stage.
  static Result<Monitor> Make(Contract contract, MonitorPolicy policy,
                              const MonitorOptions& options = {});
  // What Save() wrote, for the same contract, policy and options: a monitor that decides as the
  // saved one would have. Fails on anything else; no bytes are believed further than they reach.
  static Result<Monitor> Restore(Contract contract, MonitorPolicy policy, std::string_view bytes,
                                 const MonitorOptions& options = {});
  Monitor(Monitor&&) noexcept;
  Monitor& operator=(Monitor&&) noexcept;
  ~Monitor();

  // Folds one observation. Fails, and changes nothing, where the observation cannot be read
  // (CheckObservation) or names a kernel that the policy lacks.
  Result<MonitorDecision> Observe(const MonitorObservation& observation);

  // Folds a line of the stream that could not be read as an observation. What it would have said is
  // missing for every clause, so that nothing becomes satisfied or is released by its being lost;
  // as an event it does not conform. `kernel`: whose line it is; where that is not known (empty, or
  // of no kernel of the policy) it may be any kernel's, and as an event it is put down to the one
  // that serves: a violation that belongs to nobody would be none.
  MonitorDecision ObserveUnread(std::string_view kernel);

  // Another build bears the kernel's name: what is known of the old one speaks neither for it nor
  // against it, and its evidence begins anew at `time_ms`; nothing good of requests that began
  // before counts. A guarded kernel stays guarded, and each clause that alarmed is to be certified
  // on the new one's evidence. Fails where the policy has no such kernel. Counts as an observation.
  Result<MonitorDecision> Renew(std::string_view kernel, int64_t time_ms, std::string_view reason);

  // Whether a request is to be audited, or shown to a guarded kernel as a probe: drawn by the hash
  // of its id at the kernel's current rate, and not of a session that was audited in this epoch. A
  // pure question; the session is taken once its observation is folded.
  bool ShouldAudit(std::string_view request, std::string_view session, std::string_view kernel,
                   int64_t time_ms) const;

  const std::string& serves() const;  // the kernel that serves; empty: none does
  MonitorStatus Status() const;
  const Contract& contract() const;
  const MonitorPolicy& policy() const;

  // The whole state. Equal states give equal bytes.
  std::string Save() const;

 private:
  struct State;
  explicit Monitor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kcc
