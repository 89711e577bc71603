// What the admin port of a gateway answers, as JSON Schemas for those who read it.
#pragma once

#include <string>

namespace kcc {

std::string GatewayStatusSchema();   // kcc schema --status; docs/gateway-status.schema.json
std::string GatewayVerdictSchema();  // kcc schema --verdict; docs/gateway-verdict.schema.json

}  // namespace kcc
