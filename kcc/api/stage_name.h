// Stages by the names that callers give.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"

namespace kcc::api {

inline Result<Stage> StageOf(std::string_view name) {
  for (const Stage each : {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull}) {
    if (Name(each) == name) return each;
  }
  return InvalidError("stage: '" + std::string(name) +
                      "' is none of offline, shadow, canary, full");
}

}  // namespace kcc::api
