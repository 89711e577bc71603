#include "kcc/measure/device_table.h"

#include <algorithm>
#include <cstddef>

#include "kcc/base/check.h"
#include "kcc/drift/simd.h"

namespace kcc {
namespace {

// A launch with what lies around it takes about as long as so many rows of 128,000 entries.
constexpr int64_t kGapRows = 256;

const std::byte* RowAt(const void* first, int64_t row, int64_t stride, DType dtype) {
  const auto bytes = static_cast<int64_t>(DTypeBits(dtype) / 8);
  return static_cast<const std::byte*>(first) + row * stride * bytes;
}

RowBlock BlockOf(const RowBlock& all, const RowRange& range) {
  RowBlock block = all;
  block.train = RowAt(all.train, range.first, all.train_stride, all.train_dtype);
  block.infer = RowAt(all.infer, range.first, all.infer_stride, all.infer_dtype);
  block.rows = range.count;
  if (!all.tokens.empty()) {
    block.tokens =
        all.tokens.subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }
  return block;
}

}  // namespace

std::vector<RowRange> JoinRanges(std::vector<RowRange> ranges, int64_t gap_max) {
  std::erase_if(ranges, [](const RowRange& range) { return range.count == 0; });
  std::sort(ranges.begin(), ranges.end(),
            [](const RowRange& a, const RowRange& b) { return a.first < b.first; });
  std::vector<RowRange> joined;
  for (const RowRange& range : ranges) {
    if (joined.empty() || range.first - (joined.back().first + joined.back().count) > gap_max) {
      joined.push_back(range);
      continue;
    }
    RowRange& last = joined.back();
    last.count = std::max(last.count, range.first + range.count - last.first);
  }
  return joined;
}

Result<DeviceTable> DeviceTable::Begin(const RowDevice& device, const DeviceTensors& tensors,
                                       std::vector<RowRange> ranges, const SlotSet& wanted) {
  DeviceTable table(tensors, wanted);
  table.ranges_ = JoinRanges(std::move(ranges), kGapRows);
  int64_t rows = 0;
  for (const RowRange& range : table.ranges_) {
    table.rows_before_.push_back(rows);
    rows += range.count;
  }
  KCC_TRY(table.run_, device.Begin(wanted, rows, tensors.place));
  for (const RowRange& range : table.ranges_) {
    KCC_TRY_VOID(table.run_->Add(BlockOf(tensors.all, range)));
  }
  return table;
}

Result<TokenDrift> DeviceTable::Row(int64_t row) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), row,
      [](int64_t wanted_row, const RowRange& range) { return wanted_row < range.first; });
  KCC_CHECK(after != ranges_.begin());
  const auto range = static_cast<size_t>(after - ranges_.begin() - 1);
  KCC_CHECK(row - ranges_[range].first < ranges_[range].count);
  TokenDrift drift;
  if (run_->Get(rows_before_[range] + row - ranges_[range].first, &drift)) return drift;
  return RowOnHost(row);
}

// The CPU's word counts, with the CPU's errors: the row is copied here.
Result<TokenDrift> DeviceTable::RowOnHost(int64_t row) const {
  const RowBlock& all = tensors_.all;
  const auto vocab = static_cast<size_t>(all.vocab);
  std::vector<std::byte> train(vocab * DTypeBits(all.train_dtype) / 8);
  std::vector<std::byte> infer(vocab * DTypeBits(all.infer_dtype) / 8);
  KCC_TRY_VOID(run_->Read(RowAt(all.train, row, all.train_stride, all.train_dtype), train.size(),
                          train.data()));
  KCC_TRY_VOID(run_->Read(RowAt(all.infer, row, all.infer_stride, all.infer_dtype), infer.size(),
                          infer.data()));
  RowPair pair;
  pair.train = train.data();
  pair.infer = infer.data();
  pair.train_dtype = all.train_dtype;
  pair.infer_dtype = all.infer_dtype;
  pair.vocab = vocab;
  pair.temperature = all.temperature;
  if (!all.tokens.empty()) pair.token = all.tokens[static_cast<size_t>(row)];
  TokenDrift drift;
  RowScratch scratch;
  KCC_TRY_VOID(MeasureRowSimd(pair, wanted_, BestTarget(), &scratch, &drift));
  return drift;
}

}  // namespace kcc
