// What the gateway that decides records of its route, and what those that follow it make of that.
// The route is an event of the register, route.changed; what changes more often (which requests are
// sampled, how the evaluator is) stands in the notice beside it (register/gateway_peers.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/control/evaluator.h"
#include "kcc/control/route_plan.h"

namespace kcc {

// Whose decision it is, and by what. Those that follow must have the same documents.
struct PeerDocuments {
  std::string contract, policy;  // digests
  std::string stage;
  std::string model;

  bool operator==(const PeerDocuments&) const = default;
};
std::string DocumentsText(const PeerDocuments& documents);
// In words, for an error: in what the other's differ. Empty: they are the same.
std::string WhatDiffers(const std::string& theirs, const PeerDocuments& ours);

struct RouteRecord {
  PeerDocuments documents;
  std::string gateway, instance;
  int64_t term = 0;
  std::string serves;  // empty: nobody
  std::string canary;
  double canary_share = 0;
  std::vector<std::string> allowed;  // that may serve at all
  std::vector<std::string> guarded;  // that must not, by evidence
  std::string wished_canary;         // the share that somebody asked for, and that no alarm took
  double wished_share = 0;
  bool panic = false;
  std::string reason;
  int64_t observations = 0;  // of the decision log, when it was decided
  std::string head;

  // Whether requests go elsewhere: reasons and numbers left out.
  bool SameRoute(const RouteRecord& other) const;
};
// As the body of the event, and back.
std::string RouteBody(const RouteRecord& record);
Result<RouteRecord> ReadRouteBody(std::string_view body);

// `kernels`: the pool's, in its order. Documents, gateway and term are the caller's.
RouteRecord RecordOf(const RoutePlan& plan, const MonitorStatus& status, const RouteWishes& wishes,
                     const std::vector<std::string>& kernels);

// What is beside the route.
struct LiveWords {
  double audit_share = 0;
  std::string probed;
  double probe_share = 0;
  std::string shadow;
  std::string evaluator = "running";  // EvaluatorState
  std::string log_error;

  bool operator==(const LiveWords&) const = default;
};
std::string LiveText(const LiveWords& live);
Result<LiveWords> ReadLive(std::string_view text);

// The route that a gateway follows. Fails where it names a kernel that the pool lacks.
Result<RoutePlan> PlanOf(const RouteRecord& record, const LiveWords& live,
                         const std::vector<std::string>& kernels);

}  // namespace kcc
