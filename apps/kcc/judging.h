// From the flags of judge, run and calibrate to the judge's options.
#pragma once

#include "apps/kcc/commands.h"
#include "kcc/judge/judge.h"

namespace kcc::cli {

JudgeOptions ToJudgeOptions(const JudgeFlags& flags);

}  // namespace kcc::cli
