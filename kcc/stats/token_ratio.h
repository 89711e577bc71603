// The ratio e-test for a token rate with requests as the independent unit (docs/math.md C.3b).
//
// Request i has T_i <= T_max tokens, X_i of them bad. H0: E[X] >= eps E[T]. Then
//   u_i = eps + (X_i - eps T_i)/T_max = (X_i + eps (T_max - T_i))/T_max
// lies in [0,1] and has mean >= eps under H0, whatever the dependence inside a request; betting.h
// tests u against m = eps, PASS and FAIL alike.
#pragma once

#include <optional>

#include "kcc/stats/betting.h"

namespace kcc {

// u for one request; nothing unless 0 <= bad <= tokens <= tokens_max, tokens_max >= 1 and
// 0 <= rate <= 1. u is 1 exactly when every one of tokens_max tokens is bad.
// `bad` is a count of bad tokens, or their bad mass where each is bad to a degree in [0,1].
std::optional<UnitValue> RatioObservation(double bad, double tokens, double tokens_max,
                                          double rate);

}  // namespace kcc
