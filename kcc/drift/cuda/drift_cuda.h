// The CUDA backend: every token quantity of the catalog that full logits give, measured where the
// logits are. Raw pointers, strides and a stream; plain C++, so that callers need no CUDA headers.
//
// Per row the same definitions as drift/reference.h, within 1e-5 of them (KL >= 1e-9, TV >= 1e-6);
// same bits on every run, for every batch size and order of rows: how a row is measured depends on
// the row, the vocabulary, the formats and the device alone. Nothing here synchronises.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kcc/base/dtype.h"

namespace kcc {

// The rows of CudaDriftArgs::values. Names as in the catalog (CudaValueName).
enum CudaValue : int {
  kCudaSpan,
  kCudaLinf,
  kCudaL2,
  kCudaRawLinf,
  kCudaRawL2,
  kCudaKl,
  kCudaReverseKl,
  kCudaTv,
  kCudaChi2,
  kCudaReverseChi2,  // with kCudaWantReverseChi2 or kCudaWantOnDemand
  kCudaEntropy,
  kCudaTrainEntropy,
  kCudaEntropyGap,
  kCudaMargin,
  kCudaTrainMargin,
  kCudaTop1Overlap,
  kCudaTop5Overlap,   // with kCudaWantTopK
  kCudaTop10Overlap,  // with kCudaWantTopK
  kCudaLogRatio,      // this and the next two only where a token was given
  kCudaLogprob,
  kCudaTrainLogprob,
  kCudaConfidence,
  kCudaTrainConfidence,
  kCudaJs,  // the rest with kCudaWantOnDemand
  kCudaHellinger,
  kCudaRank,
  kCudaTrainRank,
  kCudaValues,
};

const char* CudaValueName(int value);

enum CudaWant : unsigned {
  kCudaWantTopK = 1,
  kCudaWantReverseChi2 = 2,
  kCudaWantOnDemand = 4,  // js, hellinger, rank: every row is measured in double
};

// What a row came to.
enum CudaRowStatus : int32_t {
  kCudaRowFast = 0,       // measured by the fast kernel
  kCudaRowCareful = 1,    // measured in double
  kCudaRowBadTrain = 2,   // NaN or +inf among the train logits: values are NaN
  kCudaRowBadInfer = 3,   // the same on the infer side
  kCudaRowNoSupport = 4,  // one side is -inf throughout
  kCudaRowBadToken = 5,   // the token lies outside the vocabulary or is -inf on both sides: what is
                          // said of it is NaN, the row's own values are measured
  kCudaRowUnsound = 6,    // the values break drift/row_rules.h: a mistake of measurement
};

struct CudaLogits {
  const void* data = nullptr;  // on the device; rows need only their element's alignment
  DType dtype = DType::kBF16;  // BF16, F16, F32, F8_E4M3 or F8_E5M2
  int64_t row_stride = 0;      // in elements; >= vocab
};

struct CudaDriftArgs {
  CudaLogits train;
  CudaLogits infer;
  int64_t rows = 0;
  int64_t vocab = 0;  // entries at or beyond it are padding and are never read
  double temperature = 1;
  const int32_t* tokens = nullptr;  // device, by row, -1 for none; null: no tokens
  unsigned wanted = 0;              // CudaWant
  double* values = nullptr;         // device: [kCudaValues][rows]; what was not asked for is NaN
  int32_t* argmax = nullptr;        // device: [2][rows], infer then train; may be null
  int32_t* status = nullptr;        // device: [rows], CudaRowStatus
  void* workspace = nullptr;        // device, CudaDriftWorkspaceBytes, 256-byte aligned
  size_t workspace_bytes = 0;
  void* stream = nullptr;  // cudaStream_t
};

// 0, or a message that names what is wrong with the arguments or what CUDA said. Static text.
const char* CheckCudaDrift(const CudaDriftArgs& args);
size_t CudaDriftWorkspaceBytes(const CudaDriftArgs& args);
// Enqueues the measurement. Null on success, else as CheckCudaDrift.
const char* MeasureDriftCuda(const CudaDriftArgs& args);

// How the fast kernel would cut the rows of this format on the current device; for benchmarks and
// tests. warps == 0: every row is measured in double.
struct CudaPlan {
  int warps = 0;   // of a block; 0: not for the fast kernel
  int blocks = 0;  // of a row
  int rows = 0;    // under way at once
};
CudaPlan PlanCudaDrift(const CudaDriftArgs& args);

}  // namespace kcc
