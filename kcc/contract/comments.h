// Comments of a YAML document, carried to its re-written form.
//
// A comment belongs to what it stands beside or above: a clause, a slice, an override (found by
// the marks the reader left) or a key (found by its path, "spec/escalation/L2"). In the new text it
// goes to the same place, or, where the layout has none, above the nearest thing that encloses it.
// Line based: it need not understand YAML beyond quotes, flow brackets and block scalars, because
// the result is checked — same contract, same comments — before it is handed out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kcc/contract/contract.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/contract/policy.h"

namespace kcc {

bool HasComments(std::string_view yaml);

// `formatted` with the comments of `source`; both texts are given with what they were read as.
// None if a comment cannot be carried, or if the result would mean something else.
std::optional<std::string> CarryComments(std::string_view source, const Contract& source_contract,
                                         std::string_view formatted,
                                         const Contract& formatted_contract);
std::optional<std::string> CarryComments(std::string_view source,
                                         const PromotionPolicy& source_policy,
                                         std::string_view formatted,
                                         const PromotionPolicy& formatted_policy);
std::optional<std::string> CarryComments(std::string_view source,
                                         const MonitorPolicy& source_policy,
                                         std::string_view formatted,
                                         const MonitorPolicy& formatted_policy);
std::optional<std::string> CarryComments(std::string_view source,
                                         const GatewayConfig& source_config,
                                         std::string_view formatted,
                                         const GatewayConfig& formatted_config);

}  // namespace kcc
