// The C interface of libkcc_cuda.so, for ctypes and for other languages. Messages are static text;
// a null message is success.
#include "kcc/drift/cuda/drift_cuda.h"
#include "kcc/drift/cuda/summary_cuda.h"

namespace {

kcc::CudaDriftArgs ArgsOf(const void* train, const void* infer, int train_dtype, int infer_dtype,
                          int64_t train_stride, int64_t infer_stride, int64_t rows, int64_t vocab,
                          double temperature, unsigned wanted) {
  kcc::CudaDriftArgs args;
  args.train = {train, static_cast<kcc::DType>(train_dtype), train_stride};
  args.infer = {infer, static_cast<kcc::DType>(infer_dtype), infer_stride};
  args.rows = rows;
  args.vocab = vocab;
  args.temperature = temperature;
  args.wanted = wanted;
  return args;
}

}  // namespace

extern "C" {

int kcc_cuda_values() { return kcc::kCudaValues; }
const char* kcc_cuda_value_name(int value) { return kcc::CudaValueName(value); }

size_t kcc_cuda_workspace_bytes(int train_dtype, int infer_dtype, int64_t rows, int64_t vocab,
                                unsigned wanted) {
  return kcc::CudaDriftWorkspaceBytes(
      ArgsOf(nullptr, nullptr, train_dtype, infer_dtype, vocab, vocab, rows, vocab, 1, wanted));
}

const char* kcc_cuda_measure(const void* train, const void* infer, int train_dtype, int infer_dtype,
                             int64_t train_stride, int64_t infer_stride, int64_t rows,
                             int64_t vocab, double temperature, unsigned wanted,
                             const int32_t* tokens, double* values, int32_t* argmax,
                             int32_t* status, void* workspace, size_t workspace_bytes,
                             void* stream) {
  kcc::CudaDriftArgs args = ArgsOf(train, infer, train_dtype, infer_dtype, train_stride,
                                   infer_stride, rows, vocab, temperature, wanted);
  args.tokens = tokens;
  args.values = values;
  args.argmax = argmax;
  args.status = status;
  args.workspace = workspace;
  args.workspace_bytes = workspace_bytes;
  args.stream = stream;
  return kcc::MeasureDriftCuda(args);
}

}  // extern "C"
