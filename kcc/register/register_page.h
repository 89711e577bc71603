// The register as one self-contained page: triples by stage, promotions through time with who
// approved, the verdict of each clause from evaluation to evaluation, and the evidence behind them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kcc/base/result.h"
#include "kcc/register/register.h"

namespace kcc {

// The page shows at most so many of each, the last ones, and says what it leaves out.
inline constexpr int64_t kPageEvaluationsMax = 300;
inline constexpr int64_t kPageMomentsMax = 300;
inline constexpr int64_t kPageTriplesMax = 300;

// `time_text` writes a time for people. The same register gives the same bytes.
Result<std::string> RegisterPage(Register& source,
                                 const std::function<std::string(int64_t)>& time_text);

}  // namespace kcc
