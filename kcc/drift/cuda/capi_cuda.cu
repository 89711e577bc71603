// The rows' part of libkcc_cuda.so's C interface (include/kcc.h); sessions are in session_cuda.cu.
#include "kcc/drift/cuda/capi_cuda.h"

#include "include/kcc.h"
#include "kcc/drift/c_dtype.h"
#include "kcc/drift/cuda/drift_cuda.h"

namespace kcc {

static_assert(int{kCudaWantTopK} == int{KCC_CUDA_TOP_K} &&
              int{kCudaWantReverseChi2} == int{KCC_CUDA_REVERSE_CHI2} &&
              int{kCudaWantOnDemand} == int{KCC_CUDA_ON_DEMAND});
static_assert(int{kCudaRowFast} == int{KCC_CUDA_ROW_FAST} &&
              int{kCudaRowCareful} == int{KCC_CUDA_ROW_CAREFUL} &&
              int{kCudaRowBadTrain} == int{KCC_CUDA_ROW_BAD_TRAIN} &&
              int{kCudaRowBadInfer} == int{KCC_CUDA_ROW_BAD_INFER} &&
              int{kCudaRowNoSupport} == int{KCC_CUDA_ROW_NO_SUPPORT} &&
              int{kCudaRowBadToken} == int{KCC_CUDA_ROW_BAD_TOKEN} &&
              int{kCudaRowUnsound} == int{KCC_CUDA_ROW_UNSOUND});

const char* ArgsOf(const kcc_cuda_rows* rows, CudaDriftArgs* args) {
  if (rows == nullptr) return "the rows are NULL";
  if (rows->struct_size != sizeof(kcc_cuda_rows)) {
    return "struct_size must be sizeof(kcc_cuda_rows)";
  }
  const auto side = [&](const kcc_array& from, CudaLogits* to) {
    const std::optional<DType> dtype = DTypeOf(from.dtype);
    if (!dtype) return false;
    *to = {from.data, *dtype, from.row_stride == 0 ? rows->vocab_size : from.row_stride};
    return true;
  };
  if (!side(rows->train, &args->train) || !side(rows->infer, &args->infer)) {
    return "a dtype that kcc.h does not have";
  }
  args->rows = rows->rows;
  args->vocab = rows->vocab_size;
  args->temperature = rows->temperature;
  args->wanted = rows->wanted;
  args->tokens = rows->tokens;
  args->values = rows->values;
  args->argmax = rows->argmax;
  args->status = rows->status;
  args->workspace = rows->workspace;
  args->workspace_bytes = rows->workspace_bytes;
  args->stream = rows->stream;
  return nullptr;
}

}  // namespace kcc

extern "C" {

int kcc_cuda_abi_version(void) { return KCC_CUDA_ABI_VERSION; }
int kcc_cuda_values(void) { return kcc::kCudaValues; }
const char* kcc_cuda_value_name(int value) { return kcc::CudaValueName(value); }

size_t kcc_cuda_workspace_bytes(const kcc_cuda_rows* rows) {
  kcc::CudaDriftArgs args;
  return kcc::ArgsOf(rows, &args) == nullptr ? kcc::CudaDriftWorkspaceBytes(args) : 0;
}

const char* kcc_cuda_measure(const kcc_cuda_rows* rows) {
  kcc::CudaDriftArgs args;
  if (const char* problem = kcc::ArgsOf(rows, &args)) return problem;
  return kcc::MeasureDriftCuda(args);
}

}  // extern "C"
