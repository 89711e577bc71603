// How a clause is watched: which observation each request, or block of requests, makes of it, and
// which detectors and PASS tests read that.
//
//   kProof      one unit beyond the threshold refutes it (a maximum, a share that must be 0); no
//               sample certifies it.
//   kExistence  one unit within the threshold shows it (a maximum at least t).
//   kUnit       X = 1 where the request lies beyond the threshold, m the share that may: soft
//               clauses by request, percentiles and rates of requests, shares of requests.
//   kMass       X = the ratio of summary/bad_mass.h, m its mean: rates, percentiles and bounded
//               means of tokens; means of requests; gaps, by two signs. An unbounded mean is cut
//               off at kTruncation times the threshold: it can be refuted and never certified.
//   kFlagGap    X = (1 + d)/2 of the difference d of a flag, by two signs.
//   kBlock      X = 1 where the metric of a block lies beyond the threshold: soft clauses by N
//               requests or by time, m their exceedance. A hard metric of a population that has no
//               test is judged on each block as a population of its own.
//   kNone       nothing decides it here; `why` says why. So throughput, unless every request is
//               audited: the tokens of a share of the requests are a share of it.
//
// Clauses about events read every line, audited or not: that a line was written as it should be
// needs nobody's audit, and to count bad lines among all and good ones among the audited would
// count a bad one many times. Their detectors look more often by as much, and have a level that is
// higher by as much, so that the budget of false alarms holds for audited requests as stated.
//
// What holds under dependence. Detectors: in control means E[X | past] <= m for every observation;
// then the bound on false alarms holds whatever the dependence. PASS: at any time at which it
// certifies, the average over the observations so far of E[X | past] is below m, with the stated
// confidence (stats/running_bets.h). For requests of distinct sessions that is the clause itself;
// for windows of time it is the chance of a bad window given the ones before, averaged over the
// windows seen. A hard block that lies beyond its threshold is a fact about that block, under any
// dependence; it is no part of the budget of false alarms, and never makes a clause satisfied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/stats/betting.h"
#include "kcc/stats/change.h"
#include "kcc/summary/plan.h"

namespace kcc {

// Values of an unbounded mean count as at most this many times the threshold.
inline constexpr double kTruncation = 30;

enum class SignalKind : uint8_t { kProof, kExistence, kUnit, kMass, kFlagGap, kBlock, kNone };

// What a violation orders.
struct Order {
  Action action = Action::kLog;
  std::string target;  // where requests go; empty: they stay
  bool moves() const { return !target.empty(); }
};

struct ClauseSignal {
  const Clause* clause = nullptr;
  SignalKind kind = SignalKind::kNone;
  std::string metric;                   // its name
  double limit = 0;                     // m; of a proof the threshold
  std::vector<PlanTest> tests;          // kMass: one, or one for each sign
  std::vector<DetectorPlan> detectors;  // none: it cannot be refuted by a test
  std::vector<BettingPlan> passes;      // none: there is nothing to certify with
  bool certifies = false;               // whether the passes can make it satisfied
  size_t window = 0;                    // soft or kBlock: row of the plan's windows
  size_t field_set = 0;                 // of a coverage clause: of the plan's field sets
  double alpha = 0.05;                  // 1 - confidence of the clause
  bool of_events = false;               // every line is an observation of it
  Order order;
  std::string why;  // why no evidence here makes it satisfied; empty: some may
};

// A clause on one of the plan's slices.
struct SignalPair {
  size_t signal = 0;  // place in SignalPlan::signals
  size_t slice = 0;   // of the plan
  bool of_train = false;
  size_t first_detector = 0;  // places in the arrays of KernelSignals
  size_t first_pass = 0;
  int block = -1;     // place among blocks; -1: none
  double weight = 0;  // lambda of its clause
};

// All that is fixed before the first observation.
struct SignalPlan {
  Plan plan = Plan::Default();
  std::vector<ClauseSignal> signals;
  std::vector<SignalPair> pairs;
  size_t detectors = 0;
  size_t passes = 0;
  size_t blocks = 0;
  double alarm_level = 0;
  double eta2 = 1;
  bool events = false;  // whether a signal is of events
};

// The contract and the policy must outlive the plan. Fails where no clause is of the stage.
Result<SignalPlan> MakeSignalPlan(const Contract& contract, const MonitorPolicy& policy,
                                  Stage stage);

// Where requests go on an order: the override's target, else the first kernel of the action's role;
// empty for actions that leave them where they are (log, freeze).
Order OrderFor(const Contract& contract, const MonitorPolicy& policy, const Clause& clause);
Order OrderFor(const MonitorPolicy& policy, Action action);

}  // namespace kcc
