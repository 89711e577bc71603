// What the dialects share: the batch as plain doubles, masked means, and float32's overflow.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/dialect.h"

namespace kcc {

using Doubles = std::vector<double>;

// The batch, with padding, as doubles: frameworks' results may depend on it. All arrays of tokens
// have one entry per element; row r is [offsets[r], offsets[r+1]).
struct DialectInput {
  size_t rows = 0;
  std::vector<int64_t> offsets;
  Doubles train, rollout;
  Doubles d;  // train - rollout, everywhere
  std::vector<uint8_t> mask;
  Doubles advantage;                                 // per token; empty if there are none
  Doubles row_advantage;                             // per row; empty if there are none per row
  Doubles tool_mask, current, sample_mask, rewards;  // empty if not given

  size_t begin(size_t row) const { return static_cast<size_t>(offsets[row]); }
  size_t end(size_t row) const { return static_cast<size_t>(offsets[row + 1]); }
  size_t size() const { return d.size(); }
  double Count(size_t row) const;  // valid tokens
  double Count() const;
  // Over valid tokens; a mean of none is 0.
  double RowSum(const Doubles& x, size_t row) const;
  double RowMean(const Doubles& x, size_t row) const;
  double Sum(const Doubles& x) const;
  double Mean(const Doubles& x) const;
  Doubles RowSums(const Doubles& x) const;
  Doubles RowMeans(const Doubles& x) const;
  // The valid tokens' values, in order.
  Doubles Valid(const Doubles& x) const;
  // One value per row, at every element of the row.
  Doubles Spread(const Doubles& by_row) const;
};

Result<DialectInput> LoadDialectInput(const RlBatch& batch, const DialectExtras& extras);

// f(i) for every element.
Doubles MapTokens(size_t count, const std::function<double(size_t)>& f);
Doubles MapValues(const Doubles& x, const std::function<double(double)>& f);

// e^x as float32 has it: +inf from its overflow on.
double Exp32(double x);
double Clamp(double x, double low, double high);  // NaN stays
double MeanOf(const Doubles& x);                  // 0 of none
double MaxOf(const Doubles& x);                   // as torch: NaN if any; -inf of none
double MinOf(const Doubles& x);
double SampleSd(const Doubles& x);  // divisor n - 1; NaN for one or none

// Builds a DialectResult.
class ResultBuilder {
 public:
  explicit ResultBuilder(std::string prefix = "") : prefix_(std::move(prefix)) {}
  void Add(std::string_view name, double value) {
    result_.metrics.emplace_back(prefix_ + std::string(name), value);
  }
  void Array(std::string_view name, const DialectInput& in, Doubles values);
  void Column(std::string_view name, Doubles by_row);
  DialectResult Take() { return std::move(result_); }

 private:
  std::string prefix_;
  DialectResult result_;
};

}  // namespace kcc
