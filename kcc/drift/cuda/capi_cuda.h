// What the two files of the CUDA library's C interface share.
#pragma once

#include "include/kcc.h"
#include "kcc/drift/cuda/drift_cuda.h"

namespace kcc {

// Null, or what is wrong with the struct. The rest is CheckCudaDrift's.
const char* ArgsOf(const kcc_cuda_rows* rows, CudaDriftArgs* args);

}  // namespace kcc
