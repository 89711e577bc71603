// RowDevice: what measures full logits where the CPU's row kernels do not, a GPU. It gives back the
// same TokenDrift a row that they do; evidence checks, masks, slices and statistics stay on the
// host, over these few numbers, and are written once.
//
// A device never has the last word about a row it could not measure: the CPU's kernels then do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/drift/token_drift.h"

namespace kcc {

// Of several devices, which; and the order of work there, as the device knows it (cudaStream_t):
// what was enqueued before is done before rows are read.
struct DevicePlace {
  int index = -1;  // -1: the current one
  void* stream = nullptr;
};

// Rows of both sides at one stride each.
struct RowBlock {
  const void* train = nullptr;  // the first row
  const void* infer = nullptr;
  DType train_dtype = DType::kF32;
  DType infer_dtype = DType::kF32;
  int64_t train_stride = 0;  // entries
  int64_t infer_stride = 0;
  int64_t rows = 0;
  int64_t vocab = 0;
  double temperature = 1;
  std::span<const int32_t> tokens;  // by row, -1: none; empty: no tokens
  bool on_host = false;             // the rows lie in the host's memory and are copied
};

// One measurement. Used by one thread until Wait has returned; then Get and Read by any number.
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  // Starts to measure the rows and returns; they must stay as they are until Wait has returned, or
  // the run has ended. Those on the host may change at once, as tokens may.
  virtual Result<> Add(const RowBlock& block) = 0;
  virtual Result<> Wait() = 0;
  // The wanted quantities of the n-th row that was added. False: the device does not answer for
  // this row (NaN, +inf, a token of probability 0, values that cannot be): the CPU has to measure
  // it, or to say what is wrong with it. Precondition: Wait has succeeded.
  virtual bool Get(int64_t row, TokenDrift* to) const = 0;
  // Copies from the device's memory to the host's.
  virtual Result<> Read(const void* from, size_t bytes, void* to) const = 0;
};

class RowDevice {
 public:
  virtual ~RowDevice() = default;
  virtual std::string_view name() const = 0;  // as summaries record it: "cuda"
  // For at most `rows` rows. Fails where the device lacks a wanted quantity.
  virtual Result<std::unique_ptr<DeviceRun>> Begin(const SlotSet& wanted, int64_t rows,
                                                   const DevicePlace& place) const = 0;
};

}  // namespace kcc
