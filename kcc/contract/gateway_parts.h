// The parts of a gateway's document that need nothing of its others, each read into its member.
// Internal to contract/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kcc/contract/gateway_config.h"
#include "kcc/contract/mapping_reader.h"
#include "kcc/contract/problems.h"

namespace kcc {

// The text of one line; "" where there is none, and reported where it is there and empty.
std::string FilledText(const MappingReader& mapping, std::string_view key, Problems* problems);

// An address whose server has paths of its own, so that the document's must have none: none and
// reported if it is not. /v1 at its end is dropped with a warning: everyone writes it.
std::optional<GatewayUrl> ServerUrl(const MappingReader& mapping, std::string_view key,
                                    Problems* problems);

void ReadDecisionLog(const MappingReader& mapping, GatewayDecisionLog* log, Problems* problems);
void ReadScoring(const MappingReader& mapping, GatewayScoring* scoring, Problems* problems);
void ReadLimits(const MappingReader& mapping, GatewayLimits* limits, Problems* problems);
void ReadTimes(const MappingReader& mapping, GatewayTimes* times, Problems* problems);

// Both need the names of fields: `fields` first.
void ReadRequestFields(const YamlDocument& document, const MappingReader& spec,
                       GatewayConfig* config, Problems* problems);
void ReadGradeHooks(const YamlDocument& document, const MappingReader& spec, GatewayConfig* config,
                    Problems* problems);

}  // namespace kcc
