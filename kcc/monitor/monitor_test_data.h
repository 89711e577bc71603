// For tests and benchmarks: small contracts and policies, and streams of observations made from a
// seed.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kcc/metric/token_slots.h"
#include "kcc/monitor/monitor.h"
#include "kcc/stats/simulation.h"

namespace kcc::testing {

inline Slice MonitorSlice(const std::string& name, const std::string& where = "") {
  Slice slice;
  slice.name = name;
  if (!where.empty()) slice.where = *Predicate::Parse(where);
  return slice;
}

inline Clause MonitorClause(const std::string& id, const std::string& metric, double threshold,
                            double exceedance = 0, std::vector<std::string> slices = {"all"}) {
  Clause clause;
  clause.id = id;
  clause.metric = *ParseMetric(metric);
  clause.bound = MetricDirection(clause.metric) == Direction::kHigherIsBetter ? BoundKind::kAtLeast
                                                                              : BoundKind::kAtMost;
  clause.threshold = threshold;
  clause.exceedance = exceedance;
  clause.slices = std::move(slices);
  clause.level = ViolationLevel::kL2;
  clause.stages = {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull};
  return clause;
}

inline Contract MonitorContract(std::vector<Clause> clauses,
                                std::vector<Slice> slices = {MonitorSlice("all")}) {
  Contract contract;
  contract.name = "watched";
  contract.version = "1";
  contract.slices = std::move(slices);
  contract.clauses = std::move(clauses);
  return contract;
}

inline MonitorPolicy TestPolicy() {
  MonitorPolicy policy;
  policy.name = "pool";
  policy.version = "1";
  policy.kernels = {{"fast", KernelRole::kInfer, "", {}},
                    {"careful", KernelRole::kGuard, "", {}},
                    {"reference", KernelRole::kFallback, "", {}}};
  policy.audit.session_filter_bits = 1 << 16;
  policy.release.clean = 50;
  policy.release.probation = 20;
  return policy;
}

// An audited request of its own session whose tokens have these values of KL.
inline MonitorObservation KlObservation(int64_t number, std::vector<double> kl,
                                        const std::string& kernel = "fast") {
  MonitorObservation observation;
  observation.time_ms = number;
  observation.kernel = kernel;
  observation.audited = true;
  observation.infer.id = "r" + std::to_string(number);
  observation.train.emplace().id = observation.infer.id;
  TokenColumn column;
  column.slot = TokenSlot("kl");
  for (size_t i = 0; i < kl.size(); ++i) {
    observation.tokens.position.push_back(static_cast<int32_t>(i));
  }
  column.lo = std::move(kl);
  observation.tokens.columns.push_back(std::move(column));
  return observation;
}

// A request that is beyond a limit of 1 on its one token, or far within it.
inline MonitorObservation GoodOrBad(int64_t number, bool bad, const std::string& kernel = "fast") {
  return KlObservation(number, {bad ? 2.0 : 0.25}, kernel);
}

inline Clause SoftKl(double exceedance = 0.01, std::vector<std::string> slices = {"all"}) {
  return MonitorClause("soft-kl", "max_kl", 1, exceedance, std::move(slices));
}

inline const KernelStatus& KernelIn(const MonitorStatus& status, const std::string& name) {
  for (const KernelStatus& kernel : status.kernels) {
    if (kernel.name == name) return kernel;
  }
  static const KernelStatus kNone;
  return kNone;
}

inline bool Has(const MonitorDecision& decision, MonitorChangeKind kind) {
  for (const MonitorChange& change : decision.changes) {
    if (change.kind == kind) return true;
  }
  return false;
}

}  // namespace kcc::testing
