#include "kcc/rl/summary_pass.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>

#include "kcc/measure/parallel.h"

namespace kcc {
namespace {

// Bucket counts are 32 bits wide while rows are added.
constexpr int64_t kTokensPerFlush = int64_t{1} << 31;

int64_t CountBitEqual(const RlRow& row) {
  int64_t equal = 0;
  for (size_t i = 0; i < static_cast<size_t>(row.tokens); ++i) {
    equal += static_cast<float>(row.train[i]) == static_cast<float>(row.rollout[i]);
  }
  return equal;
}

void AddTv(RlSliceState& state, double sum, int64_t tokens) {
  if (tokens == 0) return;
  const double tv = sum / static_cast<double>(tokens);
  ++state.tv_row_count;
  state.tv_rows.Add(tv);
  state.tv_rows_square.Add(tv * tv);
}

struct RowRange {
  int64_t begin = 0, end = 0;
};

// Threads take shares from one counter, so a share is handed out after all rows before it. That
// makes the error of a batch the same for any number of threads. Example, rows 3 and 7 are broken:
// whoever takes row 7 may find it first and close the queue, but row 3 was handed out before, and
// its thread goes on to the end of its share. Both faults are known then, and the one of row 3 is
// reported.
//
// Rows in order, in shares that shrink towards the end.
class RowQueue {
 public:
  RowQueue(int64_t rows, int64_t parts) : rows_(rows), parts_(parts) {}

  std::optional<RowRange> Take() {
    int64_t at = next_.load();
    while (at < rows_) {
      const int64_t end =
          parts_ == 1 ? rows_ : at + std::max<int64_t>(1, (rows_ - at) / (4 * parts_));
      if (next_.compare_exchange_weak(at, end)) return RowRange{at, end};
    }
    return std::nullopt;
  }
  void Close() { next_.store(rows_); }

 private:
  const int64_t rows_, parts_;
  std::atomic<int64_t> next_ = 0;
};

}  // namespace

int64_t RlParts(int64_t rows, int threads) {
  return std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, rows));
}

Result<> ForRlRows(int64_t rows, int threads,
                   const std::function<Result<>(size_t, int64_t)>& visit) {
  struct Fault {
    int64_t row = std::numeric_limits<int64_t>::max();
    Result<> what;
  };
  const int64_t parts = RlParts(rows, threads);
  RowQueue queue(rows, parts);
  std::vector<Fault> faults(static_cast<size_t>(parts));
  const auto work = [&](size_t part) {
    while (const auto share = queue.Take()) {
      for (int64_t row = share->begin; row < share->end; ++row) {
        Result<> result = visit(part, row);
        if (result.has_value()) continue;
        queue.Close();  // what is not handed out comes after this row
        faults[part] = {row, std::move(result)};
        return;
      }
    }
  };
  ParallelFor(faults.size(), work);
  return std::move(
      std::min_element(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
        return a.row < b.row;
      })->what);
}

// The states of a pass are one thread's own and need no lock. Which thread adds a row changes no
// bit of the merged summary: what is summed is exact (ExactSum, WideSum) or counts.

RlPass::RlPass(const RlBatch& batch, Target target) : batch_(batch), target_(target) {
  states_.resize(batch.slice_of_row.empty() ? 1 : batch.slice_names.size());
}

void RlPass::AddRow(int64_t at, RlRowTerms* terms) {
  Local& local = Of(at);
  ++local.state.rows;
  if (terms->direct) {
    AddDirect(local, *terms);
  } else {
    AddLoaded(local, *terms);
  }
  // After the row: its tokens are already in the 32-bit counts.
  if (local.tokens > kTokensPerFlush) Flush(local);
}

void RlPass::MergeInto(RlSummary* summary) {
  for (size_t s = 0; s < states_.size(); ++s) {
    if (states_[s] == nullptr) continue;
    Flush(*states_[s]);
    const std::string name = batch_.slice_of_row.empty() ? "" : batch_.slice_names[s];
    auto& found = summary->slices_[name];
    if (found == nullptr) {
      found = std::make_unique<RlSliceState>(std::move(states_[s]->state));
    } else {
      found->Merge(states_[s]->state);
    }
  }
}

RlPass::Local& RlPass::Of(int64_t row) {
  const size_t slice = batch_.slice_of_row.empty()
                           ? 0
                           : static_cast<size_t>(batch_.slice_of_row[static_cast<size_t>(row)]);
  if (states_[slice] == nullptr) {
    states_[slice] = std::make_unique<Local>();
    states_[slice]->buckets.assign(kRlBuckets, 0);
  }
  return *states_[slice];
}

void RlPass::Flush(Local& local) {
  local.state.AddBuckets(local.buckets);
  std::fill(local.buckets.begin(), local.buckets.end(), 0);
  local.tokens = 0;
}

// A row that was read where it lies: one run, plain numbers, near. The levels are token, sequence,
// geometric mean and segment; with one run the segment is the sequence.
void RlPass::AddDirect(Local& local, const RlRowTerms& terms) {
  RlSliceState& state = local.state;
  AddTv(state, terms.sums.below, terms.tokens);
  if (terms.tokens == 0) {
    ++state.empty_rows;
    return;
  }
  local.tokens += terms.tokens;
  CountRlBuckets(terms.buckets, static_cast<size_t>(terms.tokens), local.buckets.data());
  state.bit_equal += static_cast<uint64_t>(terms.bit_equal);
  state.level[0].AddRow(terms.sums, terms.tokens);
  state.level[3].AddUnit(AddSums(state, terms.sums, terms.tokens));
  if (batch_.advantages) AddRowSkew(state.skew, terms.sums, terms.tokens, terms.row_advantage);
}

// Every other row. Ratios of 0 and infinity are counted apart and taken out first (KeepFinite): one
// of them would decide every mean. What is left is summed anew, unless the sums of the terms are of
// it already (usual).
void RlPass::AddLoaded(Local& local, RlRowTerms& terms) {
  RlSliceState& state = local.state;
  RlRow& row = terms.row;
  state.zero_ratio += static_cast<uint64_t>(row.zero_ratio);
  state.infinite_ratio += static_cast<uint64_t>(row.infinite_ratio);
  const int64_t judged = row.tokens - row.infinite_ratio;  // zero ratios are TV of 1
  row.KeepFinite();
  const auto count = static_cast<size_t>(row.tokens);
  excess_.resize(count + kRlRoom);
  RlRowSums sums = terms.sums;
  if (terms.usual) {
    std::copy_n(terms.excess, count, excess_.data());
  } else {
    sums = SumRlRow(row.log_ratio.data(), row.rollout.data(), count, excess_.data(), target_);
  }
  AddTv(state, sums.below + static_cast<double>(row.zero_ratio), judged);
  if (row.tokens == 0) {
    state.empty_rows += judged == 0;
    return;
  }
  local.tokens += row.tokens;
  CountRlBuckets(row.log_ratio.data(), count, local.buckets.data());
  state.bit_equal += static_cast<uint64_t>(CountBitEqual(row));
  AddTokens(state.level[0], sums, row.log_ratio.data(), row.tokens);
  AddSegments(state, AddSums(state, sums, row.tokens), row);
  if (batch_.advantages && !IsNearRow(sums, row.tokens)) {
    AddFarSkew(state.skew, row);
  } else if (!row.advantage.empty()) {
    AddTokenSkew(state.skew, row);
  } else if (batch_.advantages) {
    AddRowSkew(state.skew, sums, row.tokens, row.row_advantage);
  }
  if (batch_.old) AddOld(state, row);
}

// Returns the whole sequence as a unit.
RlUnit RlPass::AddSums(RlSliceState& state, const RlRowSums& sums, int64_t tokens) {
  state.train.Add(sums.train);
  state.rollout.Add(sums.rollout);
  const RlUnit whole(sums.d);
  state.level[1].AddUnit(whole);
  state.level[2].AddUnit(RlUnit(sums.d / static_cast<double>(tokens)));
  return whole;
}

// In a row that is not near, the sums of w - 1 lose digits or overflow.
// A row by its sums, if these say enough, else token by token.
void RlPass::AddTokens(RlLevelState& level, const RlRowSums& sums, const double* log_ratio,
                       int64_t tokens) {
  if (IsNearRow(sums, tokens)) {
    level.AddRow(sums, tokens);
    return;
  }
  for (int64_t i = 0; i < tokens; ++i) level.AddUnit(RlUnit(log_ratio[i]));
}

void RlPass::AddSegments(RlSliceState& state, const RlUnit& whole, const RlRow& row) {
  if (row.runs.size() == 1) {
    state.level[3].AddUnit(whole);
    return;
  }
  for (const RlRow::Run& run : row.runs) {
    double sum = 0;
    for (int64_t i = 0; i < run.length; ++i) {
      sum += row.log_ratio[static_cast<size_t>(run.token + i)];
    }
    state.level[3].AddUnit(RlUnit(sum));
  }
}

void RlPass::AddRowSkew(RlSkewState& skew, const RlRowSums& sums, int64_t tokens,
                        double advantage) {
  const auto count = static_cast<uint64_t>(tokens);
  skew.tokens += count;
  skew.tokens_positive += advantage > 0 ? count : 0;
  skew.tokens_negative += advantage < 0 ? count : 0;
  (advantage > 0 ? skew.positive : skew.negative).Add(-sums.e * advantage);
  skew.abs_advantage.Add(std::fabs(advantage) * static_cast<double>(tokens));
  skew.bound.Add(std::fabs(advantage) * sums.abs_e);
}

void RlPass::AddTokenSkew(RlSkewState& skew, const RlRow& row) {
  skew.tokens += static_cast<uint64_t>(row.tokens);
  double positive = 0, negative = 0, size = 0, bound = 0;
  for (size_t i = 0; i < static_cast<size_t>(row.tokens); ++i) {
    const double a = row.advantage[i];
    const double c = -excess_[i] * a;
    (a > 0 ? positive : negative) += c;
    size += std::fabs(a);
    bound += std::fabs(c);
    skew.tokens_positive += a > 0;
    skew.tokens_negative += a < 0;
  }
  skew.positive.Add(positive);
  skew.negative.Add(negative);
  skew.abs_advantage.Add(size);
  skew.bound.Add(bound);
}

// One by one: their sum may overflow where their mean over all rows does not.
void RlPass::AddFarSkew(RlSkewState& skew, const RlRow& row) {
  skew.tokens += static_cast<uint64_t>(row.tokens);
  for (size_t i = 0; i < static_cast<size_t>(row.tokens); ++i) {
    const double a = row.advantage.empty() ? row.row_advantage : row.advantage[i];
    const double c = -excess_[i] * a;
    (a > 0 ? skew.positive : skew.negative).Add(c);
    skew.abs_advantage.Add(std::fabs(a));
    skew.bound.Add(std::fabs(c));
    skew.tokens_positive += a > 0;
    skew.tokens_negative += a < 0;
  }
}

void RlPass::AddOld(RlSliceState& state, const RlRow& row) {
  const auto count = static_cast<size_t>(row.tokens);
  const auto add = [&](RlLevelState& to, const std::vector<double>& a,
                       const std::vector<double>& b) {
    part_.resize(count);
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      const double d = a[i] - b[i];
      if (std::fabs(d) <= kRlLogRatioMax) part_[kept++] = d;
    }
    AddTokens(to, SumRlRow(part_.data(), nullptr, kept, nullptr, target_), part_.data(),
              static_cast<int64_t>(kept));
  };
  add(state.mismatch, row.old, row.rollout);
  add(state.staleness, row.train, row.old);
}

}  // namespace kcc
