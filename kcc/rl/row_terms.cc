#include "kcc/rl/row_terms.h"

#include <algorithm>

namespace kcc {
namespace {

const void* Element(const RlArray& array, int64_t at) {
  return static_cast<const std::byte*>(array.data) +
         static_cast<size_t>(at) * RlTypeBytes(array.type);
}

// The room only grows: a resize for each row would fill memory that is overwritten at once.
template <class T>
T* Room(std::vector<T>* buffer, size_t count) {
  if (buffer->size() < count) buffer->resize(count);
  return buffer->data();
}

// What LoadDirect will read of a row: its mask and, if its run begins where this one's does, the
// first of its tokens; the kernel fetches the others itself.
void FetchRow(const RlBatch& batch, int64_t row, int64_t column, RlFetch (&to)[3]) {
  if (row >= batch.rows) return;
  const int64_t length = batch.RowLength(row);
  const auto part = [&](const RlArray& array, int64_t first, int64_t count) -> RlFetch {
    if (!array || count <= 0) return {};
    return {Element(array, batch.RowBegin(array, row) + first),
            static_cast<size_t>(count) * RlTypeBytes(array.type)};
  };
  constexpr int64_t kFirstTokens = 512;
  const int64_t first = std::min(length - column, kFirstTokens);
  to[0] = part(batch.mask, 0, length);
  to[1] = part(batch.train, column, first);
  to[2] = part(batch.rollout, column, first);
}

}  // namespace

bool RlRowTerms::LoadDirect(const RlBatch& batch, int64_t at, Wanted wanted, Target target) {
  const bool by_token = batch.advantages && !batch.advantage_per_row;
  if (batch.old || by_token || batch.train.type != batch.rollout.type) return false;
  const auto length = static_cast<size_t>(batch.RowLength(at));
  size_t begin = 0, end = length;
  if (batch.mask && !FindOneRun(Element(batch.mask, batch.RowBegin(batch.mask, at)),
                                batch.mask.type, length, &begin, &end, target)) {
    return false;
  }
  const size_t count = end - begin;
  const size_t room = (count + kRlRoom - 1) / kRlRoom * kRlRoom;
  const auto column = static_cast<int64_t>(begin);
  RlPairInput in;
  in.count = count;
  if (count > 0) {
    in.train = Element(batch.train, batch.RowBegin(batch.train, at) + column);
    in.rollout = Element(batch.rollout, batch.RowBegin(batch.rollout, at) + column);
    in.is_double = batch.train.type == RlType::kF64;
  }
  FetchRow(batch, at + 1, column, in.next);
  RlPairOutput out;
  out.excess = Room(&excess_, room);
  if (wanted.log_ratio) out.log_ratio = Room(&log_ratio_, room);
  if (wanted.buckets) out.buckets = Room(&buckets_, room);
  const RlPairSums pair = SumRlPair(in, out, target);
  if (!pair.usual || !IsNearRow(pair.row, static_cast<int64_t>(count))) return false;
  tokens = static_cast<int64_t>(count);
  if (count > 0) runs.push_back({column, 0, tokens});
  sums = pair.row;
  bit_equal = pair.equal;
  log_ratio = out.log_ratio;
  excess = out.excess;
  buckets = out.buckets;
  return true;
}

Result<> RlRowTerms::Load(const RlBatch& batch, int64_t at, Wanted wanted, Target target) {
  runs.clear();
  direct = usual = near = LoadDirect(batch, at, wanted, target);
  row_advantage = batch.RowAdvantage(at);
  if (direct) return tokens > 0 ? CheckRowAdvantage(at, row_advantage) : Result<>();
  KCC_TRY_VOID(row.Load(batch, at));
  tokens = row.tokens;
  runs = row.runs;
  usual = row.zero_ratio + row.infinite_ratio == 0;
  const auto count = static_cast<size_t>(tokens);
  const double* d = row.log_ratio.data();
  if (!usual) {
    double* held = Room(&log_ratio_, count);
    for (size_t i = 0; i < count; ++i) held[i] = std::clamp(d[i], -kRlLogRatioMax, kRlLogRatioMax);
    d = held;
  }
  log_ratio = d;
  double* filled = Room(&excess_, count + kRlRoom);
  excess = filled;
  buckets = nullptr;
  sums = SumRlRow(d, row.rollout.data(), count, filled, target);
  near = IsNearRow(sums, tokens);
  return {};
}

}  // namespace kcc
