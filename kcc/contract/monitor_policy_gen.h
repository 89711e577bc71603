// Test only: monitor policies with a given part, and random ones.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "kcc/contract/draws_gen.h"
#include "kcc/contract/false_alarms.h"
#include "kcc/contract/hostile_text_gen.h"
#include "kcc/contract/monitor_reader.h"

namespace kcc {

inline constexpr std::string_view kMonitorHead =
    "apiVersion: kcc/v1\n"
    "kind: MonitorPolicy\n"
    "metadata: {name: a, version: 1.0.0}\n"
    "spec:\n"
    "  kernels: [{name: i, role: infer}, {name: f, role: fallback}, {name: c, role: candidate}]\n";
inline constexpr std::string_view kBudget = "  falseAlarms: 1 per 10^6 requests\n";
inline constexpr std::string_view kPanic = "  panic: serve-safest\n";

// The three kernels, the budget, the panic rule and what is given.
inline MonitorOutcome ReadRest(const std::string& rest) {
  return ReadMonitorPolicy(std::string(kMonitorHead) + std::string(kBudget) + std::string(kPanic) +
                           rest);
}

inline MonitorPolicy ValidRest(const std::string& rest) {
  const MonitorOutcome outcome = ReadRest(rest);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    if (diagnostic.kind != DiagnosticKind::kError) continue;
    ADD_FAILURE() << diagnostic.code << ": " << diagnostic.message;
  }
  return outcome.policy.value_or(MonitorPolicy());
}

inline FalseAlarmBudget DrawBudget() {
  FalseAlarmBudget budget;
  budget.alarms = Pick<double>({0.5, 1, 3});
  if (Flip()) {
    budget.span_ms = Pick<int64_t>({3'600'000, 86'400'000, 2'592'000'000});
    CountRequests(Pick<double>({5, 0.3, 1.0 / 60, 1e3 / 86400}), &budget);
  } else {
    budget.requests = Pick<int64_t>({5, 12'345, 100'000, 1'000'000, 1'000'000'000'000'000});
  }
  return budget;
}

inline RouteOverride DrawRoute() {
  RouteOverride route;
  if (Flip()) route.family = Word<Family>(4);
  if (Flip()) route.level = Word<ViolationLevel>(3);
  if (Flip()) route.action = Word<Action>(5);
  const bool moves = !route.action || RoleFor(*route.action);
  if (moves && (!route.action || Flip())) route.target = Pick<std::string>({"i", "g", "f"});
  return route;
}

inline MonitorPolicy DrawMonitor() {
  MonitorPolicy policy;
  policy.name = "m-1";
  policy.version = "0.1.2";
  if (Flip()) policy.owner = *GenHostileText();
  if (Flip()) policy.description = *GenHostileText();
  if (Flip()) policy.labels = {{"team", *GenHostileText()}};
  policy.false_alarms = DrawBudget();
  policy.detector = Word<DetectorWord>(2);
  policy.shifts = Pick<std::vector<double>>({{}, {2}, {1.0000001, 3, 1e9}});
  policy.window_requests = Pick<int64_t>({1, 1000});
  policy.block_requests = Pick<int64_t>({200, 999'999'999});
  policy.audit.rate = Pick<double>({0, 0.05, 0.123456789, 1});
  policy.audit.probe_rate = Pick<double>({0, 0.05, 1});
  policy.audit.once_per_session = Flip();
  policy.audit.session_epoch_ms = Pick<int64_t>({1, 90'000, 86'400'000});
  policy.audit.session_filter_bits = Pick<int64_t>({8192, 8 * 1025, 8'388'608});
  policy.release.alpha = Pick<double>({0.5, 0.05, 1e-9});
  policy.release.strikes_max = Pick<int64_t>({0, 10});
  policy.release.clean = Pick<int64_t>({1, 3000});
  policy.release.probation = Pick<int64_t>({0, 1000});
  policy.panic = Word<PanicRule>(3);
  for (int64_t i = Whole(0, 3); i > 0; --i) policy.overrides.push_back(DrawRoute());
  policy.kernels = {{"i", KernelRole::kInfer, "", {}},
                    {"f", KernelRole::kFallback, "", {}},
                    {"g", KernelRole::kGuard, "", {}},
                    {"k", Word<KernelRole>(5), "", {}}};
  if (Flip()) policy.kernels[3].fingerprint = *GenHostileText();
  if (Flip()) std::swap(policy.kernels[0], policy.kernels[3]);
  if (Flip()) policy.kernels.push_back({"x", Word<KernelRole>(5), "", {}});
  return policy;
}

}  // namespace kcc
