// The commands of `kcc monitor` (commands.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/kcc/console.h"

namespace kcc::cli {

struct MonitorRunOptions {
  std::string contract, policy;
  std::string observations = "-";
  std::string log, state;  // empty: none
  int64_t sync_every = 1000, save_every = 100'000;
  bool skip_folded = false;
  bool strict = false;  // a line that cannot be read ends the run
  std::string stage = "full";
};
int RunMonitorRun(const MonitorRunOptions& options, Console& console);

struct MonitorReplayOptions {
  std::vector<std::string> logs;  // the files of one log, in their order
  std::string contract, policy;
  std::string head;  // empty: not known
};
int RunMonitorReplay(const MonitorReplayOptions& options, Console& console);

struct MonitorExplainOptions {
  std::string contract, policy;
  double audited_rate = 0;  // share of requests; 0: the policy's
  std::string stage = "full";
};
int RunMonitorExplain(const MonitorExplainOptions& options, Console& console);

struct MonitorSimulateOptions {
  std::string contract, policy, clause;
  int64_t runs = 400;
  int64_t observations_max = 50'000;  // of one run
  uint64_t seed = 1;
  std::string output;  // a directory
  std::string stage = "full";
};
int RunMonitorSimulate(const MonitorSimulateOptions& options, Console& console);

}  // namespace kcc::cli
