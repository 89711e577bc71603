#include "kcc/rl/slice_state.h"

namespace kcc {

void RlSkewState::Merge(const RlSkewState& other) {
  tokens += other.tokens;
  tokens_positive += other.tokens_positive;
  tokens_negative += other.tokens_negative;
  positive.Merge(other.positive);
  negative.Merge(other.negative);
  abs_advantage.Merge(other.abs_advantage);
  bound.Merge(other.bound);
}

void RlSkewState::Visit(Archive& archive, int version) {
  for (uint64_t* count : {&tokens, &tokens_positive, &tokens_negative}) archive.U64(*count);
  for (RlSum* sum : {&positive, &negative, &abs_advantage, &bound}) sum->Visit(archive, version);
}

void RlSliceState::AddBuckets(const std::vector<uint32_t>& counts) {
  if (counts.empty()) return;
  buckets.resize(kRlBuckets);
  for (size_t i = 0; i < counts.size(); ++i) buckets[i] += counts[i];
}

void RlSliceState::Merge(const RlSliceState& other) {
  rows += other.rows;
  empty_rows += other.empty_rows;
  zero_ratio += other.zero_ratio;
  infinite_ratio += other.infinite_ratio;
  bit_equal += other.bit_equal;
  for (size_t l = 0; l < level.size(); ++l) level[l].Merge(other.level[l]);
  train.Merge(other.train);
  rollout.Merge(other.rollout);
  tv_row_count += other.tv_row_count;
  tv_rows.Merge(other.tv_rows);
  tv_rows_square.Merge(other.tv_rows_square);
  skew.Merge(other.skew);
  mismatch.Merge(other.mismatch);
  staleness.Merge(other.staleness);
  if (!other.buckets.empty()) {
    buckets.resize(kRlBuckets);
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  }
}

void RlSliceState::Visit(Archive& archive, int version) {
  for (uint64_t* count :
       {&rows, &empty_rows, &zero_ratio, &infinite_ratio, &bit_equal, &tv_row_count}) {
    archive.U64(*count);
  }
  for (RlLevelState& state : level) state.Visit(archive, version);
  for (RlSum* sum : {&train, &rollout, &tv_rows, &tv_rows_square}) sum->Visit(archive, version);
  skew.Visit(archive, version);
  mismatch.Visit(archive, version);
  staleness.Visit(archive, version);
  std::vector<std::pair<uint32_t, uint64_t>> used;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] > 0) used.emplace_back(static_cast<uint32_t>(i), buckets[i]);
  }
  archive.Each(
      used,
      [](Archive& a, std::pair<uint32_t, uint64_t>& entry) {
        a.U32(entry.first);
        a.U64(entry.second);
      },
      2);
  if (!archive.reading()) return;
  if (!used.empty()) buckets.resize(kRlBuckets);
  for (size_t i = 0; i < used.size(); ++i) {
    const auto& [bucket, count] = used[i];
    if (bucket >= kRlBuckets || count == 0 || (i > 0 && bucket <= used[i - 1].first)) {
      archive.Fail("buckets of log-ratios that are not in order");
      return;
    }
    buckets[bucket] = count;
  }
}

}  // namespace kcc
