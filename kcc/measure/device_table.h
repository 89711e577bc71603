// DeviceTable: the rows of two tensors on a device, measured there, by row number.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/drift/token_drift.h"
#include "kcc/measure/row_device.h"

namespace kcc {

// Two tensors on a device, and which of their rows count.
struct DeviceTensors {
  RowBlock all;  // from row 0 on; rows and tokens (empty: none) cover every row
  DevicePlace place;
};

// Rows [first, first + count).
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Sorted ranges; those at most `gap_max` rows apart made one: to measure a few rows that nobody
// asked for costs less than another launch.
std::vector<RowRange> JoinRanges(std::vector<RowRange> ranges, int64_t gap_max);

class DeviceTable {
 public:
  // Starts to measure the ranges. The tensors must stay as they are until Wait has returned, and
  // for rows that the device does not answer for until the last Row.
  static Result<DeviceTable> Begin(const RowDevice& device, const DeviceTensors& tensors,
                                   std::vector<RowRange> ranges, const SlotSet& wanted);

  Result<> Wait() { return run_->Wait(); }
  // What the row amounts to, or the error that the CPU's kernels give for it. A row that the device
  // does not answer for is copied to the host and measured here. From any thread, after Wait.
  // Precondition: the row is in a range.
  Result<TokenDrift> Row(int64_t row) const;

 private:
  DeviceTable(const DeviceTensors& tensors, const SlotSet& wanted)
      : tensors_(tensors), wanted_(wanted) {}
  Result<TokenDrift> RowOnHost(int64_t row) const;

  DeviceTensors tensors_;
  SlotSet wanted_;
  std::vector<RowRange> ranges_;      // joined
  std::vector<int64_t> rows_before_;  // each range
  std::unique_ptr<DeviceRun> run_;
};

}  // namespace kcc
