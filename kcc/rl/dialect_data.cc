#include "kcc/rl/dialect_data.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// Halfway between the largest float32 and the next power of two: what rounds to infinity.
constexpr double kFloatOverflow = 3.4028235677973366e38;

Doubles ReadTokens(const RlBatch& batch, const RlArray& array,
                   const std::vector<int64_t>& offsets) {
  Doubles out;
  if (!array) return out;
  out.reserve(static_cast<size_t>(offsets.back()));
  for (int64_t r = 0; r < batch.rows; ++r) {
    const int64_t begin = batch.RowBegin(array, r);
    for (int64_t t = 0; t < batch.RowLength(r); ++t) out.push_back(array.At(begin + t));
  }
  return out;
}

Doubles ReadRows(const RlBatch& batch, const RlArray& array) {
  Doubles out;
  for (int64_t r = 0; array && r < batch.rows; ++r) out.push_back(array.At(r));
  return out;
}

}  // namespace

double DialectInput::Count(size_t row) const {
  double count = 0;
  for (size_t i = begin(row); i < end(row); ++i) count += mask[i];
  return count;
}

double DialectInput::Count() const {
  double count = 0;
  for (const uint8_t m : mask) count += m;
  return count;
}

double DialectInput::RowSum(const Doubles& x, size_t row) const {
  double sum = 0;
  for (size_t i = begin(row); i < end(row); ++i) {
    if (mask[i] != 0) sum += x[i];
  }
  return sum;
}

double DialectInput::RowMean(const Doubles& x, size_t row) const {
  return RowSum(x, row) / std::max(1.0, Count(row));
}

double DialectInput::Sum(const Doubles& x) const {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (mask[i] != 0) sum += x[i];
  }
  return sum;
}

double DialectInput::Mean(const Doubles& x) const { return Sum(x) / std::max(1.0, Count()); }

Doubles DialectInput::RowSums(const Doubles& x) const {
  return MapTokens(rows, [&](size_t r) { return RowSum(x, r); });
}

Doubles DialectInput::RowMeans(const Doubles& x) const {
  return MapTokens(rows, [&](size_t r) { return RowMean(x, r); });
}

Doubles DialectInput::Valid(const Doubles& x) const {
  Doubles out;
  for (size_t i = 0; i < x.size(); ++i) {
    if (mask[i] != 0) out.push_back(x[i]);
  }
  return out;
}

Doubles DialectInput::Spread(const Doubles& by_row) const {
  Doubles out(size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = begin(r); i < end(r); ++i) out[i] = by_row[r];
  }
  return out;
}

Result<DialectInput> LoadDialectInput(const RlBatch& batch, const DialectExtras& extras) {
  KCC_TRY_VOID(CheckRlBatch(batch));
  DialectInput in;
  in.rows = static_cast<size_t>(batch.rows);
  in.offsets = {0};
  for (int64_t r = 0; r < batch.rows; ++r) {
    in.offsets.push_back(in.offsets.back() + batch.RowLength(r));
  }
  in.train = ReadTokens(batch, batch.train, in.offsets);
  in.rollout = ReadTokens(batch, batch.rollout, in.offsets);
  in.d = MapTokens(in.train.size(), [&](size_t i) { return in.train[i] - in.rollout[i]; });
  const Doubles mask = ReadTokens(batch, batch.mask, in.offsets);
  in.mask.assign(in.d.size(), 1);
  for (size_t r = 0; r < in.rows && !mask.empty(); ++r) {
    for (size_t i = in.begin(r); i < in.end(r); ++i) {
      if (std::isnan(mask[i])) {
        return BadMaskError(static_cast<int64_t>(r), static_cast<int64_t>(i - in.begin(r)));
      }
      in.mask[i] = mask[i] != 0;
    }
  }
  if (batch.advantages && batch.advantage_per_row) {
    for (int64_t r = 0; r < batch.rows; ++r) in.row_advantage.push_back(batch.RowAdvantage(r));
    in.advantage = in.Spread(in.row_advantage);
  } else {
    in.advantage = ReadTokens(batch, batch.advantages, in.offsets);
  }
  in.tool_mask = ReadTokens(batch, extras.tool_mask, in.offsets);
  in.current = ReadTokens(batch, extras.current_logprobs, in.offsets);
  in.sample_mask = ReadRows(batch, extras.sample_mask);
  in.rewards = ReadRows(batch, extras.rewards);
  return in;
}

Doubles MapTokens(size_t count, const std::function<double(size_t)>& f) {
  Doubles out(count);
  for (size_t i = 0; i < count; ++i) out[i] = f(i);
  return out;
}

Doubles MapValues(const Doubles& x, const std::function<double(double)>& f) {
  Doubles out;
  out.reserve(x.size());
  for (const double value : x) out.push_back(f(value));
  return out;
}

double Exp32(double x) {
  const double y = Exp(x);
  return y >= kFloatOverflow ? kInf : y;
}

double Clamp(double x, double low, double high) {
  if (std::isnan(x)) return x;
  return std::min(std::max(x, low), high);
}

double MeanOf(const Doubles& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
}

double MaxOf(const Doubles& x) {
  double best = -kInf;
  for (const double value : x) {
    if (std::isnan(value)) return value;
    best = std::max(best, value);
  }
  return best;
}

double MinOf(const Doubles& x) {
  double best = kInf;
  for (const double value : x) {
    if (std::isnan(value)) return value;
    best = std::min(best, value);
  }
  return best;
}

double SampleSd(const Doubles& x) {
  if (x.size() < 2) return kNaN;
  const double mean = MeanOf(x);
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(x.size() - 1));
}

void ResultBuilder::Array(std::string_view name, const DialectInput& in, Doubles values) {
  result_.arrays.push_back({std::string(name), in.offsets, std::move(values)});
}

void ResultBuilder::Column(std::string_view name, Doubles by_row) {
  DialectArray array{std::string(name), {}, std::move(by_row)};
  for (size_t r = 0; r <= array.values.size(); ++r) {
    array.offsets.push_back(static_cast<int64_t>(r));
  }
  result_.arrays.push_back(std::move(array));
}

}  // namespace kcc
