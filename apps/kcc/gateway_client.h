// A gateway that runs, asked over its admin port.
#pragma once

#include <string>

#include "apps/kcc/commands_gateway.h"
#include "kcc/base/result.h"

namespace kcc::cli {

struct GatewayReply {
  int status = 0;
  std::string body;
};

// "/v1/status". Fails where nobody listens, where the token is not taken, and with the gateway's
// own words on any status but 200.
Result<std::string> AskGateway(const GatewayAddressFlags& flags, const std::string& path);

}  // namespace kcc::cli
