// The JSON Schema of the contract language (draft 2020-12), for editors. Generated from the same
// key tables that the reader checks against and from the metric catalog.
#pragma once

#include <string>

namespace kcc {

std::string ContractJsonSchema();
std::string PolicyJsonSchema();
std::string MonitorJsonSchema();
std::string GatewayJsonSchema();

}  // namespace kcc
