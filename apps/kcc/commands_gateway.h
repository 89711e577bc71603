// The commands of a gateway (commands.h).
#pragma once

#include <string>

#include "apps/kcc/console.h"

namespace kcc::cli {

struct GatewayCommandOptions {
  std::string file;    // the configuration
  bool check = false;  // say what is wrong, and start nothing
  bool reach = false;  // with check: ask the kernels too
};
int RunGatewayCommand(const GatewayCommandOptions& options, Console& console);

// A gateway that runs: by the address of its admin port, or by its configuration.
struct GatewayAddressFlags {
  std::string where;       // an address or a file; empty: gateway.yaml, if it is here
  std::string token_file;  // of the admin port; empty: the configuration's
};

struct GatewayWhyOptions {
  std::string what;  // a time or a request
  GatewayAddressFlags gateway;
};
int RunGatewayWhy(const GatewayWhyOptions& options, Console& console);

struct StatusOptions {
  GatewayAddressFlags gateway;
};
int RunStatus(const StatusOptions& options, Console& console);

}  // namespace kcc::cli
