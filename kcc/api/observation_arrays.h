// kcc_observation and the monitor's own form of it, both ways.
#pragma once

#include <string>
#include <vector>

#include "include/kcc.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/monitor/observation.h"

namespace kcc::api {

inline constexpr size_t kObservationFirstSize = sizeof(kcc_observation);

// Copies what the caller's arrays hold. `contract`: whose token metrics a column may name.
Result<MonitorObservation> ObservationOf(const kcc_observation* given, const Contract& contract);

// The columns of the tokens as views. The names and the tokens must outlive them.
std::vector<kcc_column> ColumnsOf(const ObservedTokens& tokens,
                                  const std::vector<std::string>& slot_names);
// By slot.
std::vector<std::string> SlotNames();

}  // namespace kcc::api
