// `kcc gateway`: the plane, the scorer, the evaluator and the admin API as one process.
//
//   clients -> plane -> kernels          I/O threads (plane.h); records into rings
//                 \-> rescorer           one thread: records to evidence
//                       \-> evaluator    one thread: evidence to decisions, the route, history
//   admin port -> API                    one thread: reads what the others know
//   RunGateway                           the caller's thread: signals, and once a second the rest
//
// SIGTERM and SIGINT drain: no new connection, requests finish. SIGHUP reads the configuration
// again and takes it whole or not at all.
#pragma once

#include <functional>
#include <string>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/control/gateway_files.h"

namespace kcc {

struct GatewayStarted {
  std::string url, admin_url, model;
};

struct GatewayRun {
  GatewayDocuments documents;
  std::string kcc_version;
  const Clock* clock = &TheSystemClock();
  // Called once connections are taken.
  std::function<void(const GatewayStarted&)> started;
};

// Serves until a signal ends it. Fails where it cannot start: a port that is taken, a state of
// another contract, a register that another gateway has.
Result<> RunGateway(GatewayRun run);

}  // namespace kcc
