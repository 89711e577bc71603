// Views of the caller's arrays, and the valid tokens of a row brought together run by run, so that
// conversion and subtraction are plain loops whatever the mask.
#include "kcc/rl/batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

template <class T>
const T* As(const void* data) {
  return static_cast<const T*>(data);
}

// Calls f with a typed pointer.
template <class F>
void WithType(const void* data, RlType type, F f) {
  switch (type) {
    case RlType::kF32:
      return f(As<float>(data));
    case RlType::kF64:
      return f(As<double>(data));
    case RlType::kU8:
      return f(As<uint8_t>(data));
    case RlType::kI32:
      return f(As<int32_t>(data));
    case RlType::kI64:
      return f(As<int64_t>(data));
  }
}

void Widen(const RlArray& array, int64_t begin, int64_t count, double* to) {
  WithType(array.data, array.type, [&](auto* from) {
    from += begin;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
  });
}

Result<> CheckArray(const RlBatch& batch, const RlArray& array, std::string_view name,
                    bool logprobs) {
  if (!array) return {};
  if (logprobs && array.type != RlType::kF32 && array.type != RlType::kF64) {
    return InvalidError(std::string(name) + " must be float32 or float64");
  }
  if (!batch.packed() && array.row_stride < batch.columns) {
    return InvalidError(std::string(name) + " has " + std::to_string(array.row_stride) +
                        " elements a row, less than the batch's " + std::to_string(batch.columns) +
                        " columns");
  }
  return {};
}

Error BadToken(int64_t row, int64_t column, std::string_view side, double value,
               std::string_view why) {
  return BrokenEvidenceError(std::string(side) + " log-prob at row " + std::to_string(row) +
                             ", column " + std::to_string(column) + " is " + ShortestNumber(value) +
                             ": " + std::string(why));
}

Result<> CheckToken(int64_t row, int64_t column, double train, double rollout) {
  const std::pair<std::string_view, double> sides[] = {{"train", train}, {"rollout", rollout}};
  for (const auto& [side, value] : sides) {
    if (std::isnan(value)) {
      return BadToken(row, column, side, value, "mask the token out or repair the array");
    }
    if (value > kRlLogProbMax) {
      return BadToken(row, column, side, value,
                      "a log-prob is at most 0; pass log-probs, not probabilities or logits");
    }
  }
  if (std::isinf(train) && std::isinf(rollout)) {
    return BadToken(row, column, "train and rollout", train, "neither side could sample the token");
  }
  return {};
}

}  // namespace

double RlNumber(const void* data, RlType type, int64_t element) {
  double value = 0;
  WithType(data, type, [&](auto* from) { value = static_cast<double>(from[element]); });
  return value;
}

size_t RlTypeBytes(RlType type) {
  size_t bytes = 0;
  WithType(nullptr, type, [&](auto* from) { bytes = sizeof(*from); });
  return bytes;
}

double RlArray::At(int64_t element) const { return RlNumber(data, type, element); }

int64_t RlBatch::RowLength(int64_t row) const {
  if (!packed()) return columns;
  const auto at = static_cast<size_t>(row);
  return offsets[at + 1] - offsets[at];
}

int64_t RlBatch::RowBegin(const RlArray& array, int64_t row) const {
  return packed() ? offsets[static_cast<size_t>(row)] : row * array.row_stride;
}

double RlBatch::RowAdvantage(int64_t row) const {
  if (!advantages || !advantage_per_row) return 0;
  return advantages.At(row * std::max<int64_t>(1, advantages.row_stride));
}

int64_t RlBatch::TokensMax() const {
  if (!packed()) return columns;
  int64_t longest = 0;
  for (int64_t r = 0; r < rows; ++r) longest = std::max(longest, RowLength(r));
  return longest;
}

Result<> CheckRlBatch(const RlBatch& batch) {
  if (batch.rows < 0 || batch.columns < 0) {
    return InvalidError("rows and columns must not be negative");
  }
  if (batch.packed()) {
    if (batch.offsets.size() != static_cast<size_t>(batch.rows) + 1 || batch.offsets[0] != 0) {
      return InvalidError("offsets must be rows + 1 = " + std::to_string(batch.rows + 1) +
                          " numbers that start at 0");
    }
    for (size_t r = 0; r + 1 < batch.offsets.size(); ++r) {
      if (batch.offsets[r + 1] < batch.offsets[r]) {
        return InvalidError("offsets fall after row " + std::to_string(r));
      }
    }
  }
  const bool no_tokens = batch.TokensMax() == 0 || batch.rows == 0;
  if (!batch.train && !no_tokens) return InvalidError("train log-probs are missing");
  if (!batch.rollout && !no_tokens) return InvalidError("rollout log-probs are missing");
  KCC_TRY_VOID(CheckArray(batch, batch.train, "train", true));
  KCC_TRY_VOID(CheckArray(batch, batch.rollout, "rollout", true));
  KCC_TRY_VOID(CheckArray(batch, batch.old, "old", true));
  KCC_TRY_VOID(CheckArray(batch, batch.mask, "mask", false));
  if (!batch.advantage_per_row) {
    KCC_TRY_VOID(CheckArray(batch, batch.advantages, "advantages", false));
  }
  if (!batch.slice_of_row.empty()) {
    if (batch.slice_of_row.size() != static_cast<size_t>(batch.rows)) {
      return InvalidError("slice_of_row has " + std::to_string(batch.slice_of_row.size()) +
                          " entries for " + std::to_string(batch.rows) + " rows");
    }
    for (size_t r = 0; r < batch.slice_of_row.size(); ++r) {
      const int32_t slice = batch.slice_of_row[r];
      if (slice < 0 || static_cast<size_t>(slice) >= batch.slice_names.size()) {
        return InvalidError("row " + std::to_string(r) + " is of slice " + std::to_string(slice) +
                            ", but there are " + std::to_string(batch.slice_names.size()) +
                            " slice names");
      }
    }
    for (size_t i = 0; i < batch.slice_names.size(); ++i) {
      if (batch.slice_names[i].empty()) {
        return InvalidError("slice " + std::to_string(i) +
                            " has an empty name, which stands for everything");
      }
    }
  }
  return {};
}

Result<> CheckRowAdvantage(int64_t row, double advantage) {
  if (std::isfinite(advantage)) return {};
  return BrokenEvidenceError("the advantage of row " + std::to_string(row) + " is " +
                             ShortestNumber(advantage) + ", not a finite number");
}

Error BadMaskError(int64_t row, int64_t column) {
  return BrokenEvidenceError("the mask at row " + std::to_string(row) + ", column " +
                             std::to_string(column) +
                             " is nan: it must be 0, or not 0 where the token counts");
}

// valid_: 1 where the row's token counts.
Result<> RlRow::LoadMask(const RlBatch& batch, int64_t row) {
  const auto size = static_cast<size_t>(batch.RowLength(row));
  if (!batch.mask) {
    valid_.assign(size, 1);
    return {};
  }
  valid_.resize(size);
  size_t numbers = size;
  WithType(batch.mask.data, batch.mask.type, [&](auto* from) {
    from += batch.RowBegin(batch.mask, row);
    for (size_t i = 0; i < size; ++i) valid_[i] = from[i] != 0;
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(*from)>>) {
      const auto* nan = std::find_if(from, from + size, [](auto v) { return std::isnan(v); });
      numbers = static_cast<size_t>(nan - from);
    }
  });
  if (numbers < size) return BadMaskError(row, static_cast<int64_t>(numbers));
  return {};
}

// Appends the runs of valid_, counting tokens.
void RlRow::FindRuns() {
  const size_t size = valid_.size();
  for (size_t at = 0; at < size;) {
    const auto* first = static_cast<const uint8_t*>(std::memchr(&valid_[at], 1, size - at));
    if (first == nullptr) break;
    const auto begin = static_cast<size_t>(first - valid_.data());
    const auto* last = static_cast<const uint8_t*>(std::memchr(first, 0, size - begin));
    const size_t end = last == nullptr ? size : static_cast<size_t>(last - valid_.data());
    runs.push_back({static_cast<int64_t>(begin), tokens,
                    static_cast<int64_t>(end) - static_cast<int64_t>(begin)});
    tokens += runs.back().length;
    at = end;
  }
}

Result<> RlRow::Load(const RlBatch& batch, int64_t row) {
  tokens = 0;
  zero_ratio = infinite_ratio = 0;
  runs.clear();
  KCC_TRY_VOID(LoadMask(batch, row));
  FindRuns();
  // A few entries more, so that kernels may run over the end (row_kernel.h).
  const auto room = static_cast<size_t>(tokens) + 8;
  for (auto* array : {&train, &rollout, &log_ratio}) array->resize(room);
  old.resize(batch.old ? room : 0);
  advantage.resize(batch.advantages && !batch.advantage_per_row ? room : 0);
  row_advantage = batch.RowAdvantage(row);
  if (tokens > 0) KCC_TRY_VOID(CheckRowAdvantage(row, row_advantage));
  for (const Run& run : runs) {
    Widen(batch.train, batch.RowBegin(batch.train, row) + run.column, run.length,
          train.data() + run.token);
    Widen(batch.rollout, batch.RowBegin(batch.rollout, row) + run.column, run.length,
          rollout.data() + run.token);
    if (batch.old) {
      Widen(batch.old, batch.RowBegin(batch.old, row) + run.column, run.length,
            old.data() + run.token);
    }
    if (!advantage.empty()) {
      Widen(batch.advantages, batch.RowBegin(batch.advantages, row) + run.column, run.length,
            advantage.data() + run.token);
    }
  }
  KCC_TRY_VOID(CheckExtras(row));
  const auto count = static_cast<size_t>(tokens);
  // One flag for everything unusual keeps the common loop plain; the faults are found afterwards.
  bool usual = true;
  for (size_t i = 0; i < count; ++i) {
    const double d = train[i] - rollout[i];
    log_ratio[i] = d;
    // One comparison of the largest keeps the loop free of branches; NaN fails it too.
    const double over = std::max(train[i], rollout[i]);
    usual &= std::fabs(d) <= kRlLogRatioMax;
    usual &= over <= kRlLogProbMax;
  }
  for (size_t i = count; i < room; ++i) train[i] = rollout[i] = log_ratio[i] = 0;
  if (usual) return {};
  for (const Run& run : runs) {
    for (int64_t i = 0; i < run.length; ++i) {
      const auto at = static_cast<size_t>(run.token + i);
      KCC_TRY_VOID(CheckToken(row, run.column + i, train[at], rollout[at]));
      zero_ratio += log_ratio[at] < -kRlLogRatioMax;
      infinite_ratio += log_ratio[at] > kRlLogRatioMax;
    }
  }
  return {};
}

// What is not log-probs of the two sides.
Result<> RlRow::CheckExtras(int64_t row) const {
  for (const Run& run : runs) {
    for (int64_t i = 0; i < run.length; ++i) {
      const auto at = static_cast<size_t>(run.token + i);
      if (!old.empty() && std::isnan(old[at])) {
        return BadToken(row, run.column + i, "old", old[at],
                        "mask the token out or repair the array");
      }
      if (advantage.empty() || std::isfinite(advantage[at])) continue;
      return BrokenEvidenceError("the advantage at row " + std::to_string(row) + ", column " +
                                 std::to_string(run.column + i) + " is " +
                                 ShortestNumber(advantage[at]) + ", not a finite number");
    }
  }
  return {};
}

void RlRow::KeepFinite() {
  if (zero_ratio + infinite_ratio == 0) return;
  size_t to = 0;
  for (Run& run : runs) {
    const size_t begin = to;
    for (int64_t i = 0; i < run.length; ++i) {
      const auto at = static_cast<size_t>(run.token + i);
      if (!(std::fabs(log_ratio[at]) <= kRlLogRatioMax)) continue;
      for (auto* array : {&train, &rollout, &log_ratio, &old, &advantage}) {
        if (!array->empty()) (*array)[to] = (*array)[at];
      }
      ++to;
    }
    run.token = static_cast<int64_t>(begin);
    run.length = static_cast<int64_t>(to - begin);
  }
  tokens = static_cast<int64_t>(to);
  std::erase_if(runs, [](const Run& run) { return run.length == 0; });
  for (size_t i = to; i < std::min(to + 8, train.size()); ++i) {
    train[i] = rollout[i] = log_ratio[i] = 0;
  }
}

}  // namespace kcc
