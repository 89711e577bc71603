// How a call reaches the code that Highway compiled for a target: its namespaces exist only where
// the compiler can make them.
#pragma once

// Before Highway's own: it says which targets there are.
#include "kcc/numeric/highway_targets.h"

#include "hwy/detect_targets.h"
#include "kcc/base/check.h"
#include "kcc/numeric/target.h"

#if HWY_TARGETS & HWY_AVX2
#define KCC_WHERE_AVX2(...) __VA_ARGS__
#else
#define KCC_WHERE_AVX2(...)
#endif
#if HWY_TARGETS & HWY_AVX3
#define KCC_WHERE_AVX512(...) __VA_ARGS__
#else
#define KCC_WHERE_AVX512(...)
#endif

#if HWY_TARGETS & HWY_NEON
#define KCC_WHERE_NEON(...) __VA_ARGS__
#else
#define KCC_WHERE_NEON(...)
#endif

// The end of a function that has a `target`: returns the expression, of the target's namespace.
#define KCC_RETURN_BY_TARGET(target, ...)                                               \
  KCC_WHERE_AVX2(if ((target) == ::kcc::Target::kAvx2) return N_AVX2::__VA_ARGS__;)     \
  KCC_WHERE_AVX512(if ((target) == ::kcc::Target::kAvx512) return N_AVX3::__VA_ARGS__;) \
  KCC_WHERE_NEON(if ((target) == ::kcc::Target::kNeon) return N_NEON::__VA_ARGS__;)     \
  KCC_CHECK((target) == ::kcc::Target::kScalar);                                        \
  return N_SCALAR::__VA_ARGS__
