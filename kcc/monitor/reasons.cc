#include "kcc/monitor/reasons.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/monitor/release.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// e^x for people; beyond what a double holds, the largest.
std::string EValueText(double log_e) { return ReadableNumber(Exp(std::min(log_e, 690.0))); }

std::string Bound(const Clause& clause) {
  return std::string(Name(clause.bound)) + " " + ShortestNumber(clause.threshold);
}

// What X is, so that a rate can be read.
std::string RateText(const ClauseSignal& signal, double value) {
  const std::string number = ReadableNumber(value);
  const std::string limit = ReadableNumber(signal.limit);
  switch (signal.kind) {
    case SignalKind::kUnit:
      if (signal.of_events && signal.clause->hard()) {
        return "a share of " + number + " of the recent lines does not keep to the published " +
               "schema, where " + limit + " may";
      }
      return "a share of " + number + " of the recent requests lies beyond " +
             Bound(*signal.clause) + ", where " + limit + " may";
    case SignalKind::kBlock:
      return "a share of " + number + " of the recent windows lies beyond " +
             Bound(*signal.clause) + ", where " + limit + " may";
    case SignalKind::kMass:
    case SignalKind::kFlagGap:
      return signal.metric + " " + Bound(*signal.clause) +
             ": on the scale of its test the recent " + "mean is " + number + ", where " + limit +
             " may be";
    case SignalKind::kProof:
    case SignalKind::kExistence:
    case SignalKind::kNone:
      break;
  }
  return signal.metric + " " + Bound(*signal.clause);
}

// What brings the pair back.
std::string ReturnText(const ClauseSignal& signal, const ReleasePolicy& policy, bool broken) {
  if (broken) {
    return "it returns after " + std::to_string(policy.clean) +
           " audited requests that break nothing";
  }
  if (signal.passes.empty()) {
    return "it returns after " + std::to_string(policy.clean) +
           (signal.of_events ? " lines that keep to it"
                             : " audited requests without a value beyond it");
  }
  std::string text = "it returns when the PASS test of what comes now certifies it";
  if (!signal.certifies) {
    text += " and " + std::to_string(policy.clean) + " audited requests in a row stay below " +
            ReadableNumber(kTruncation) + " times the threshold";
  }
  return text;
}

// The event that is a proof.
std::string EventText(const Alert& alert, const std::string& request) {
  if (request.empty()) return "a line could not be read, and every one must be";
  return "the line of request '" + request + "' does not keep to the published schema" +
         (alert.fault.empty() ? "" : " (" + alert.fault + ")") + ", and every one must";
}

}  // namespace

std::string SliceName(const SignalPlan& plan, const SignalPair& pair) {
  const std::string& name = plan.plan.slices()[pair.slice].name;
  // A twin is named after the slice, with something that no contract can write.
  for (const std::string& of_clause : plan.signals[pair.signal].clause->slices) {
    if (name == of_clause || name == OutcomeTwin(of_clause)) return of_clause;
  }
  return name;
}

std::string AlertReason(const SignalPlan& plan, const MonitorPolicy& policy, const Alert& alert,
                        const std::string& request, const MonitorChange& change) {
  const ClauseSignal& signal = plan.signals[plan.pairs[alert.pair].signal];
  const std::string where = "clause '" + change.clause + "' on slice '" + change.slice + "': ";
  const bool broken = alert.kind == Alert::Kind::kBroken;
  const std::string back = "; " + ReturnText(signal, policy.release, broken);
  switch (alert.kind) {
    case Alert::Kind::kAlarm:
      return where + RateText(signal, change.value) + "; the evidence of a change weighs " +
             ReadableNumber(change.e_value) + ", and " + ReadableNumber(change.e_level) +
             " is an alarm" + back;
    case Alert::Kind::kProof:
      if (signal.kind == SignalKind::kBlock) {
        return where + signal.metric + " is " + ReadableNumber(change.value) +
               " in the block that ends with request '" + request + "', and must be " +
               Bound(*signal.clause) + back;
      }
      if (signal.of_events) return where + EventText(alert, request) + back;
      return where + "request '" + request + "' has a value beyond " + Bound(*signal.clause) +
             ", and none may" + back;
    case Alert::Kind::kBroken:
      break;
  }
  return where + "request '" + request +
         "' has a value that cannot be, or breaks assumptions.tokensMax or rewardMax" + back;
}

std::string RecoveredReason(const SignalPlan& plan, const ReleasePolicy& policy,
                            const KernelRecord& record, size_t pair) {
  const ClauseSignal& signal = plan.signals[plan.pairs[pair].signal];
  const PairRecord& state = record.signals.pair(pair);
  std::string text =
      "clause '" + signal.clause->id + "' on slice '" + SliceName(plan, plan.pairs[pair]) + "': ";
  if (state.broken || signal.passes.empty()) {
    return text + std::to_string(state.clean) + " audited requests since the last alarm show " +
           "nothing of it";
  }
  const double alpha = signal.order.moves() ? ReleaseAlpha(policy, record) : signal.alpha;
  return text + "over " + std::to_string(state.observations) +
         " observations since the last alarm the evidence for it weighs " +
         EValueText(record.signals.LogPass(plan, pair)) + ", where " + ReadableNumber(1 / alpha) +
         " shows it";
}

std::string VerdictReason(const SignalPlan& plan, const MonitorPolicy& policy,
                          const KernelRecord& record, size_t pair) {
  const ClauseSignal& signal = plan.signals[plan.pairs[pair].signal];
  const PairRecord& state = record.signals.pair(pair);
  const Clause& clause = *signal.clause;
  if (state.alarmed) {
    return std::to_string(state.alarms) + (state.alarms == 1 ? " alarm; " : " alarms; ") +
           std::to_string(state.observations) + " observations since the last; " +
           ReturnText(signal, policy.release, state.broken);
  }
  if (signal.kind == SignalKind::kNone) return signal.why;
  if (state.observations == 0 && signal.kind == SignalKind::kBlock) {
    return "no window is complete yet; " + std::to_string(state.requests) +
           " requests were audited so far";
  }
  if (state.observations == 0) {
    return signal.of_events ? "nothing was logged on this slice yet"
                            : "nothing was audited on this slice yet";
  }
  if (state.requests < clause.min_samples.requests || state.tokens < clause.min_samples.tokens) {
    return "below minSamples: " + std::to_string(state.requests) + " requests and " +
           std::to_string(state.tokens) + " tokens so far";
  }
  if (signal.kind == SignalKind::kExistence) {
    return state.shown ? "a value within it was seen" : "no value within it was seen yet";
  }
  if (!signal.certifies) return signal.why;
  return "over " + std::to_string(state.observations) +
         " observations the evidence for it weighs " +
         EValueText(record.signals.LogPass(plan, pair)) + ", where " +
         ReadableNumber(1 / signal.alpha) + " shows it";
}

}  // namespace kcc
