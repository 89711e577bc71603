#include "kcc/monitor/signal.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"
#include "kcc/metric/metric.h"

namespace kcc {
namespace {

bool IsExtreme(const Clause& clause) {
  return clause.metric.aggregate == Aggregate::kMax || clause.metric.aggregate == Aggregate::kMin;
}

// Whether every unit must have the best value there is, so that one that has not is a proof.
bool AtBestPossible(const Clause& clause) {
  const Quantity& quantity = *clause.metric.quantity;
  const Aggregate aggregate = clause.metric.aggregate;
  const bool share = aggregate == Aggregate::kRate || aggregate == Aggregate::kMean ||
                     quantity.form == TestForm::kRequestShare ||
                     quantity.form == TestForm::kTokenShare;
  const double best = clause.at_most() ? MetricMin(clause.metric) : MetricMax(clause.metric);
  return share && clause.threshold == best;
}

// Of one request by itself: memory does, what compares repeats of a request does not.
bool LargestOfRequests(const Quantity& quantity) {
  return quantity.form == TestForm::kLargest && quantity.observation == Observation::kRequest;
}

// Whether the metric is of all requests of a span of time: of a share of them it is a share.
bool OfEveryRequest(const Quantity& quantity) { return quantity.unit == Unit::kTokensPerSecond; }

// What train says stands on audited lines alone.
bool ReadsEveryLine(const Metric& metric) {
  return metric.quantity->counts == RequestCounts::kConformance && metric.side == Side::kInfer;
}

// How many lines come for one that is audited.
double LinesPerAudit(const AuditPolicy& audit) {
  constexpr double kRateMin = 1e-6;  // a rate of 0 sees nothing, and is warned of
  return 1 / std::clamp(audit.rate, kRateMin, 1.0);
}

bool SeesEveryRequest(const AuditPolicy& audit) {
  return audit.rate >= 1 && !audit.once_per_session;
}

bool HasBlocks(const Clause& clause) {
  if (!clause.hard()) return clause.window.kind != Window::Kind::kRequest;
  const Quantity& quantity = *clause.metric.quantity;
  if (quantity.level != QuantityLevel::kPopulation || LargestOfRequests(quantity)) return false;
  return quantity.form == TestForm::kNone || quantity.form == TestForm::kReplayShare ||
         quantity.form == TestForm::kLargest;
}

SignalKind KindOf(const Clause& clause, const std::vector<PlanTest>& tests) {
  if (HasBlocks(clause)) return SignalKind::kBlock;
  if (!clause.hard()) return SignalKind::kUnit;
  const Quantity& quantity = *clause.metric.quantity;
  if (IsExtreme(clause)) {
    const bool forbids = (clause.metric.aggregate == Aggregate::kMax) == clause.at_most();
    return forbids ? SignalKind::kProof : SignalKind::kExistence;
  }
  if (AtBestPossible(clause) || LargestOfRequests(quantity)) return SignalKind::kProof;
  if (quantity.form == TestForm::kRequestShare) return SignalKind::kUnit;
  if (quantity.form == TestForm::kFlagGap) return SignalKind::kFlagGap;
  const bool counts =
      clause.metric.aggregate == Aggregate::kRate || PercentilePpm(clause.metric.aggregate) >= 0;
  if (quantity.level == QuantityLevel::kRequest && counts) return SignalKind::kUnit;
  return tests.empty() ? SignalKind::kNone : SignalKind::kMass;
}

// The share of units that may lie beyond the threshold.
double UnitLimit(const Clause& clause) {
  if (!clause.hard()) return clause.exceedance;
  const int ppm = PercentilePpm(clause.metric.aggregate);
  if (ppm >= 0) return (clause.at_most() ? 1000000 - ppm : ppm) / 1e6;
  return clause.at_most() ? clause.threshold : 1 - clause.threshold;
}

// The one test of an unbounded mean that the detectors use, in place of the judge's three caps.
std::vector<PlanTest> MonitorTests(const Clause& clause, const Assumptions& assumptions) {
  std::vector<PlanTest> tests = TestsOf(clause, assumptions);
  if (tests.empty() || !tests[0].truncated) return tests;
  tests.resize(1);
  tests[0].range_max = tests[0].range_min + kTruncation * (clause.threshold - tests[0].range_min);
  if (!std::isfinite(tests[0].range_max)) tests.clear();
  return tests;
}

struct Bets {
  DetectorKind kind;
  double alarm_level;
  std::vector<DetectorShift> shifts;
  std::vector<DetectorShift> cut_off_shifts;  // of means that are cut off
};

// A detector and a PASS test on X against m, from the observation of a perfect stream.
void AddTest(double m, double base, bool refutes, const Bets& bets, ClauseSignal* signal) {
  const bool cut_off = !signal->tests.empty() && signal->tests[0].truncated;
  const auto pass = MakeBettingPlan(m);
  if (!pass) return;
  signal->passes.push_back(*pass);
  if (!refutes) return;
  if (const auto plan =
          DetectorPlan::Make(bets.kind, m, bets.alarm_level,
                             cut_off ? bets.cut_off_shifts : bets.shifts, base < m ? base : 0)) {
    signal->detectors.push_back(*plan);
  }
}

std::string WhyNever(const Clause& clause, const ClauseSignal& signal) {
  switch (signal.kind) {
    case SignalKind::kProof:
      return "no sample shows that a value beyond " + ShortestNumber(clause.threshold) +
             " never occurs";
    case SignalKind::kBlock:
      return clause.hard() ? "no test of " + signal.metric +
                                 " is known; each block is judged by itself. A soft clause by "
                                 "requests can be certified"
                           : "";
    case SignalKind::kMass:
      return signal.certifies ? "" : "no sample can certify the mean of an unbounded quantity";
    case SignalKind::kNone:
      if (OfEveryRequest(*clause.metric.quantity)) {
        return signal.metric +
               " is of all requests, and a share of them is audited; audit each one "
               "(audit.rate: 1, oncePerSession: false)";
      }
      if (clause.metric.quantity->observation == Observation::kToken) {
        return "state assumptions.tokensMax, so that tokens can be tested with the request as unit";
      }
      if (clause.metric.quantity->bounded_by == BoundedBy::kRewardMax) {
        return "state assumptions.rewardMax, so that the mean of a reward can be tested";
      }
      return "no test of " + signal.metric + " over requests is known";
    case SignalKind::kExistence:
    case SignalKind::kUnit:
    case SignalKind::kFlagGap:
      break;
  }
  return "";
}

void AddTests(const Clause& clause, const Bets& bets, ClauseSignal* signal) {
  switch (signal->kind) {
    case SignalKind::kUnit:
      signal->limit = UnitLimit(clause);
      AddTest(signal->limit, 0, true, bets, signal);
      signal->certifies = !signal->passes.empty();
      break;
    case SignalKind::kBlock:
      signal->limit = clause.hard() ? clause.threshold : clause.exceedance;
      if (clause.hard()) break;
      AddTest(signal->limit, 0, true, bets, signal);
      signal->certifies = !signal->passes.empty();
      break;
    case SignalKind::kMass: {
      const PlanTest& test = signal->tests[0];
      const bool gap = signal->tests.size() > 1;
      signal->limit = TestMean(test);
      for (size_t i = 0; i < signal->tests.size(); ++i) {
        // A truncated mean is at most the true one: it can show that the truth is large.
        AddTest(signal->limit, gap ? 0.5 : 0, !test.truncated || clause.at_most(), bets, signal);
      }
      signal->certifies = !signal->passes.empty() && !(test.truncated && clause.at_most());
      break;
    }
    case SignalKind::kFlagGap:
      signal->limit = (1 + clause.threshold) / 2;
      for (int sign = 0; sign < 2; ++sign) AddTest(signal->limit, 0.5, true, bets, signal);
      signal->certifies = !signal->passes.empty();
      break;
    case SignalKind::kProof:
    case SignalKind::kExistence:
    case SignalKind::kNone:
      signal->limit = clause.threshold;
      break;
  }
}

std::vector<DetectorShift> ShiftsOf(const MonitorPolicy& policy) {
  if (policy.shifts.empty()) return {kDetectorShifts.begin(), kDetectorShifts.end()};
  std::vector<DetectorShift> shifts;
  for (const double factor : policy.shifts) shifts.push_back({factor, 1});
  return shifts;
}

std::vector<DetectorShift> CutOffShiftsOf(const MonitorPolicy& policy) {
  if (policy.shifts.empty()) return {kCutOffShifts.begin(), kCutOffShifts.end()};
  std::vector<DetectorShift> shifts = ShiftsOf(policy);
  for (DetectorShift& shift : shifts) shift.factor = 1 + kCutOffStretch * (shift.factor - 1);
  return shifts;
}

bool OfStage(const Clause& clause, Stage stage) {
  return std::find(clause.stages.begin(), clause.stages.end(), stage) != clause.stages.end();
}

Window BlockWindow(const Clause& clause, const MonitorPolicy& policy) {
  return clause.hard() ? Window{Window::Kind::kRequests, policy.block_requests} : clause.window;
}

// What is measured: a hard clause that is judged block by block has a window of its own there.
Contract MeasuredContract(const Contract& contract, const MonitorPolicy& policy, Stage stage) {
  Contract measured = contract;
  measured.clauses.clear();
  for (Clause clause : contract.clauses) {
    if (!OfStage(clause, stage)) continue;
    if (clause.hard() && HasBlocks(clause)) {
      clause.window = BlockWindow(clause, policy);
      clause.exceedance = 0.5;  // any: the block's value is read, not its share
    }
    measured.clauses.push_back(std::move(clause));
  }
  return measured;
}

// Where the plan keeps what the signal reads.
void FindRows(const Clause& clause, const Window& window, const Plan& plan, ClauseSignal* signal) {
  std::vector<std::string> fields = clause.fields;
  std::sort(fields.begin(), fields.end());
  fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
  if (!fields.empty()) signal->field_set = static_cast<size_t>(plan.FindFieldSet(fields));
  if (clause.hard() && signal->kind != SignalKind::kBlock) return;
  const int row = plan.FindWindow(clause.metric, window, fields);
  KCC_CHECK(row >= 0);
  signal->window = static_cast<size_t>(row);
}

void AddPairs(const ClauseSignal& signal, size_t place, const Contract& contract,
              SignalPlan* into) {
  for (const std::string& name : signal.clause->slices) {
    const Slice& slice = *contract.FindSlice(name);
    for (const Side outcomes : {Side::kInfer, Side::kTrain}) {
      const auto at = into->plan.FindSlice(slice, outcomes);
      if (!at || (outcomes == Side::kTrain && !ReadsOutcome(slice))) continue;
      SignalPair pair;
      pair.signal = place;
      pair.slice = *at;
      pair.of_train = outcomes == Side::kTrain;
      pair.first_detector = into->detectors;
      pair.first_pass = into->passes;
      into->detectors += signal.detectors.size();
      into->passes += signal.passes.size();
      if (signal.kind == SignalKind::kBlock) pair.block = static_cast<int>(into->blocks++);
      into->pairs.push_back(pair);
    }
  }
}

void SetWeights(SignalPlan* plan) {
  double l2_pairs = 0;
  const auto level = [&](const SignalPair& pair) {
    return plan->signals[pair.signal].clause->level;
  };
  for (const SignalPair& pair : plan->pairs) l2_pairs += level(pair) == ViolationLevel::kL2 ? 1 : 0;
  plan->eta2 = 1 + 2 * l2_pairs;
  for (SignalPair& pair : plan->pairs) {
    pair.weight = level(pair) == ViolationLevel::kL1   ? 0
                  : level(pair) == ViolationLevel::kL2 ? 1
                                                       : plan->eta2;
  }
}

}  // namespace

Order OrderFor(const MonitorPolicy& policy, Action action) {
  Order order{action, ""};
  const std::optional<KernelRole> role = RoleFor(action);
  if (!role) return order;  // serve what is there
  const MonitorKernel* kernel = policy.FirstOf(*role);
  // Without a guard, what would be guarded goes to the fallback.
  if (kernel == nullptr) kernel = policy.FirstOf(KernelRole::kFallback);
  if (kernel != nullptr) order.target = kernel->name;
  return order;
}

Order OrderFor(const Contract& contract, const MonitorPolicy& policy, const Clause& clause) {
  const Action given = ActionOf(contract.escalation, clause);
  for (const RouteOverride& row : policy.overrides) {
    if (row.family && *row.family != clause.family) continue;
    if (row.level && *row.level != clause.level) continue;
    Order order = OrderFor(policy, row.action.value_or(given));
    if (!row.target.empty()) order.target = row.target;
    return order;
  }
  return OrderFor(policy, given);
}

Result<SignalPlan> MakeSignalPlan(const Contract& contract, const MonitorPolicy& policy,
                                  Stage stage) {
  SignalPlan result;
  const Contract measured = MeasuredContract(contract, policy, stage);
  if (measured.clauses.empty()) {
    return InvalidError("the contract '" + contract.name + "' has no clause for the stage " +
                        std::string(Name(stage)) + ", so there is nothing to watch");
  }
  result.plan = Plan::FromContract(measured, Plan::Breadth::kClauses);
  // The level is that of the number of detectors, which are counted first with any level.
  for (const bool counting : {true, false}) {
    const double per_alarm =
        static_cast<double>(policy.false_alarms.requests) / policy.false_alarms.alarms;
    result.alarm_level =
        counting ? 2 : std::max(2.0, per_alarm * static_cast<double>(result.detectors));
    const Bets bets{policy.detector == DetectorWord::kCusum ? DetectorKind::kCusum
                                                            : DetectorKind::kShiryaevRoberts,
                    result.alarm_level, ShiftsOf(policy), CutOffShiftsOf(policy)};
    Bets of_events = bets;
    of_events.alarm_level *= LinesPerAudit(policy.audit);
    result.signals.clear();
    result.pairs.clear();
    result.detectors = result.passes = result.blocks = 0;
    for (const Clause& clause : contract.clauses) {
      if (!OfStage(clause, stage)) continue;
      ClauseSignal signal;
      signal.clause = &clause;
      signal.metric = MetricName(clause.metric);
      if (clause.hard()) signal.tests = MonitorTests(clause, contract.assumptions);
      signal.kind = KindOf(clause, signal.tests);
      if (OfEveryRequest(*clause.metric.quantity) && !SeesEveryRequest(policy.audit)) {
        signal.kind = SignalKind::kNone;
      }
      signal.of_events = ReadsEveryLine(clause.metric);
      result.events = result.events || signal.of_events;
      AddTests(clause, signal.of_events ? of_events : bets, &signal);
      signal.why = WhyNever(clause, signal);
      signal.alpha = 1 - clause.confidence.value_or(contract.decision.confidence);
      signal.order = OrderFor(contract, policy, clause);
      FindRows(clause, BlockWindow(clause, policy), result.plan, &signal);
      AddPairs(signal, result.signals.size(), contract, &result);
      result.signals.push_back(std::move(signal));
    }
  }
  SetWeights(&result);
  return result;
}

}  // namespace kcc
