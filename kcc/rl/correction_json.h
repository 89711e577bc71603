// The one writer of corrections, for the versions of the RL JSON, which spell one key differently.
#pragma once

#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/rl/correction.h"

namespace kcc {

inline constexpr std::string_view kBatchNormalizeKey = "batchNormalize";  // "batch_normalize" in 1

// {"weight": {…}, "reject": […], "veto": {…}}, as ParseCorrection reads it.
void WriteCorrection(const RlCorrection& correction, std::string_view normalize_key,
                     JsonWriter* json);

}  // namespace kcc
