// Rows of any logit format as float32: exact, since every format is a subset of it.
#pragma once

#include <cstddef>

#include "kcc/base/dtype.h"
#include "kcc/numeric/target.h"

namespace kcc {

// Precondition: F32, F16, BF16, F8_E4M3 or F8_E5M2; the CPU has the target.
void WidenToFloat(const void* from, DType dtype, size_t count, Target target, float* to);

}  // namespace kcc
