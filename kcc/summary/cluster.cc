#include "kcc/summary/cluster.h"

namespace kcc {

void ClusterSums::Add(const Tally& request, size_t thresholds) {
  ++requests;
  // 128 bits: the squares of requests of a million tokens pass 2^64 after 18 million of them.
  const __int128 tokens = request.count;
  token_squares += tokens * tokens;
  // A request with an infinite value has no sum. It is counted, so that a bound that needs the sums
  // can see that they do not speak for every request.
  if (request.finite() == request.count) {
    const double sum = request.sum.Round();
    if (std::isfinite(sum)) {
      sum_squares.AddProduct(sum, sum);
      sum_tokens.AddProduct(sum, static_cast<double>(request.count));
    }
  } else {
    ++infinite;
  }
  if (thresholds == 0) return;
  if (splits.empty()) splits.resize(thresholds);
  // intervals holds, for thresholds t0 < t1 < …: below t0, at t0, between t0 and t1, at t1, … One
  // pass gives below, at and above for each of them.
  uint64_t below = 0;
  for (size_t i = 0; i < thresholds; ++i) {
    below += request.intervals[2 * i];
    const uint64_t at = request.intervals[2 * i + 1];
    const uint64_t above = request.count - below - at;
    ClusterSplit& split = splits[i];
    split.any_above += above != 0 ? 1 : 0;
    split.any_below += below != 0 ? 1 : 0;
    split.above_squares += static_cast<__int128>(above) * above;
    split.below_squares += static_cast<__int128>(below) * below;
    split.above_tokens += static_cast<__int128>(above) * tokens;
    split.below_tokens += static_cast<__int128>(below) * tokens;
    below += at;
  }
}

void ClusterSums::Merge(const ClusterSums& other) {
  if (other.requests == 0) return;
  requests += other.requests;
  infinite += other.infinite;
  token_squares += other.token_squares;
  sum_squares.Merge(other.sum_squares);
  sum_tokens.Merge(other.sum_tokens);
  if (other.splits.empty()) return;
  if (splits.empty()) splits.resize(other.splits.size());
  for (size_t i = 0; i < splits.size(); ++i) {
    const ClusterSplit& from = other.splits[i];
    splits[i].any_above += from.any_above;
    splits[i].any_below += from.any_below;
    splits[i].above_squares += from.above_squares;
    splits[i].below_squares += from.below_squares;
    splits[i].above_tokens += from.above_tokens;
    splits[i].below_tokens += from.below_tokens;
  }
}

void ClusterSums::Visit(Archive& archive, size_t thresholds) {
  archive.U64(requests);
  if (requests == 0) return;
  archive.U64(infinite);
  archive.I128(token_squares);
  archive.Sum(sum_squares);
  archive.Sum(sum_tokens);
  if (thresholds == 0 || !archive.ok()) return;
  // The number of thresholds is the plan's and not in the file: a file cannot claim more memory
  // than its plan.
  splits.resize(thresholds);
  for (ClusterSplit& split : splits) {
    archive.U64(split.any_above);
    archive.U64(split.any_below);
    archive.I128(split.above_squares);
    archive.I128(split.below_squares);
    archive.I128(split.above_tokens);
    archive.I128(split.below_tokens);
    if (archive.reading() && (split.any_above > requests || split.any_below > requests)) {
      archive.Fail("more requests beyond a threshold than there are");
    }
  }
}

// Ends are there only where a value was an interval: most evidence has none.
void ClusterStats::Merge(const ClusterStats& other) {
  point.Merge(other.point);
  if (other.ends.empty()) return;
  if (ends.empty()) ends.resize(2);
  ends[0].Merge(other.ends[0]);
  ends[1].Merge(other.ends[1]);
}

void ClusterStats::Visit(Archive& archive, size_t thresholds) {
  point.Visit(archive, thresholds);
  bool intervals = !ends.empty();
  archive.Bool(intervals);
  if (!intervals || !archive.ok()) return;
  ends.resize(2);
  for (ClusterSums& end : ends) end.Visit(archive, thresholds);
  if (archive.reading() && archive.ok() && ends[0].requests == 0) archive.Fail("empty intervals");
}

}  // namespace kcc
