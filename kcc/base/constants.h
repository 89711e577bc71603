// Numbers that formulas name.
#pragma once

#include <limits>

namespace kcc {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr float kFloatInf = std::numeric_limits<float>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLn2 = 0.6931471805599453;  // log 2, correctly rounded

}  // namespace kcc
