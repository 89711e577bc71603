// RlSummary: rows into slices' states, in parallel, and to bytes and back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include "kcc/rl/diagnostics.h"
#include "kcc/rl/slice_state.h"

namespace kcc {
namespace {

constexpr std::string_view kMagic = "kccrl1\n";
// Bucket counts are 32 bits wide while rows are added.
constexpr int64_t kTokensPerFlush = int64_t{1} << 31;

int64_t CountBitEqual(const RlRow& row) {
  int64_t equal = 0;
  for (size_t i = 0; i < static_cast<size_t>(row.tokens); ++i) {
    equal += static_cast<float>(row.train[i]) == static_cast<float>(row.rollout[i]);
  }
  return equal;
}

}  // namespace

// One thread's share of a batch: local states by slice number, merged when all rows went well.
class RlPass {
 public:
  RlPass(const RlBatch& batch, Target target) : batch_(batch), target_(target) {
    const size_t slices = batch.slice_of_row.empty() ? 1 : batch.slice_names.size();
    states_.resize(slices);
  }

  Result<> AddRows(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      KCC_TRY_VOID(row_.Load(batch_, r));
      const size_t slice = batch_.slice_of_row.empty()
                               ? 0
                               : static_cast<size_t>(batch_.slice_of_row[static_cast<size_t>(r)]);
      Local& local = Of(slice);
      AddRow(local);
      if (local.tokens > kTokensPerFlush) Flush(local);
    }
    return {};
  }

  void MergeInto(RlSummary* summary) {
    for (size_t s = 0; s < states_.size(); ++s) {
      if (states_[s] == nullptr) continue;
      Flush(*states_[s]);
      const std::string name = batch_.slice_of_row.empty() ? "" : batch_.slice_names[s];
      auto& state = summary->slices_[name];
      if (state == nullptr) state = std::make_unique<RlSliceState>();
      state->Merge(states_[s]->state);
    }
  }

 private:
  struct Local {
    RlSliceState state;
    std::vector<uint32_t> buckets;
    int64_t tokens = 0;
  };

  Local& Of(size_t slice) {
    if (states_[slice] == nullptr) {
      states_[slice] = std::make_unique<Local>();
      states_[slice]->buckets.assign(kRlBuckets, 0);
    }
    return *states_[slice];
  }

  static void Flush(Local& local) {
    local.state.AddBuckets(local.buckets);
    std::fill(local.buckets.begin(), local.buckets.end(), 0);
    local.tokens = 0;
  }

  void AddRow(Local& local) {
    RlSliceState& state = local.state;
    ++state.rows;
    state.zero_ratio += static_cast<uint64_t>(row_.zero_ratio);
    state.infinite_ratio += static_cast<uint64_t>(row_.infinite_ratio);
    const int64_t judged = row_.tokens - row_.infinite_ratio;  // zero ratios are TV of 1
    row_.KeepFinite();
    const auto count = static_cast<size_t>(row_.tokens);
    excess_.resize(count + kRlLanes);
    const bool by_token = !row_.advantage.empty();
    const RlRowSums sums = SumRlRow(row_.log_ratio.data(), row_.train.data(), row_.rollout.data(),
                                    count, by_token ? excess_.data() : nullptr, target_);
    if (judged > 0) {
      const double tv =
          (sums.below + static_cast<double>(row_.zero_ratio)) / static_cast<double>(judged);
      ++state.tv_row_count;
      state.tv_rows.Add(tv);
      state.tv_rows_square.Add(tv * tv);
    }
    if (row_.tokens == 0) {
      state.empty_rows += judged == 0;
      return;
    }
    local.tokens += row_.tokens;
    CountRlBuckets(row_.log_ratio.data(), count, local.buckets.data());
    state.bit_equal += static_cast<uint64_t>(CountBitEqual(row_));
    state.train.Add(sums.train);
    state.rollout.Add(sums.rollout);
    state.level[0].AddRow(sums, row_.tokens);
    state.level[1].AddUnit(sums.d);
    state.level[2].AddUnit(sums.d / static_cast<double>(row_.tokens));
    AddSegments(state, sums);
    if (batch_.advantages) AddSkew(state.skew, sums, by_token);
    if (batch_.old) AddOld(state);
  }

  void AddSegments(RlSliceState& state, const RlRowSums& sums) {
    if (row_.runs.size() == 1) {
      state.level[3].AddUnit(sums.d);
      return;
    }
    for (const RlRow::Run& run : row_.runs) {
      double sum = 0;
      for (int64_t i = 0; i < run.length; ++i) {
        sum += row_.log_ratio[static_cast<size_t>(run.token + i)];
      }
      state.level[3].AddUnit(sum);
    }
  }

  void AddSkew(RlSkewState& skew, const RlRowSums& sums, bool by_token) {
    skew.tokens += static_cast<uint64_t>(row_.tokens);
    double positive = 0, negative = 0, size = 0, bound = 0;
    if (!by_token) {
      const double a = row_.row_advantage;
      const auto n = static_cast<double>(row_.tokens);
      (a > 0 ? positive : negative) = -sums.e * a;
      size = std::fabs(a) * n;
      bound = std::fabs(a) * sums.abs_e;
      skew.tokens_positive += a > 0 ? static_cast<uint64_t>(row_.tokens) : 0;
      skew.tokens_negative += a < 0 ? static_cast<uint64_t>(row_.tokens) : 0;
    } else {
      for (size_t i = 0; i < static_cast<size_t>(row_.tokens); ++i) {
        const double a = row_.advantage[i];
        const double c = -excess_[i] * a;
        (a > 0 ? positive : negative) += c;
        size += std::fabs(a);
        bound += std::fabs(c);
        skew.tokens_positive += a > 0;
        skew.tokens_negative += a < 0;
      }
    }
    skew.positive.Add(positive);
    skew.negative.Add(negative);
    skew.abs_advantage.Add(size);
    skew.bound.Add(bound);
  }

  void AddOld(RlSliceState& state) {
    const auto count = static_cast<size_t>(row_.tokens);
    const auto add = [&](RlLevelState& to, const std::vector<double>& a,
                         const std::vector<double>& b) {
      part_.assign(count + kRlLanes, 0);
      size_t kept = 0;
      for (size_t i = 0; i < count; ++i) {
        const double d = a[i] - b[i];
        if (std::fabs(d) <= kRlLogRatioMax) part_[kept++] = d;
      }
      std::fill(part_.begin() + static_cast<std::ptrdiff_t>(kept), part_.end(), 0.0);
      to.AddRow(SumRlRow(part_.data(), nullptr, nullptr, kept, nullptr, target_),
                static_cast<int64_t>(kept));
    };
    add(state.mismatch, row_.old, row_.rollout);
    add(state.staleness, row_.train, row_.old);
  }

  const RlBatch& batch_;
  Target target_;
  RlRow row_;
  std::vector<double> excess_, part_;
  std::vector<std::unique_ptr<Local>> states_;
};

RlSummary::RlSummary() = default;
RlSummary::~RlSummary() = default;
RlSummary::RlSummary(RlSummary&&) noexcept = default;
RlSummary& RlSummary::operator=(RlSummary&&) noexcept = default;
RlSummary::RlSummary(const RlSummary& other) { Merge(other); }
RlSummary& RlSummary::operator=(const RlSummary& other) {
  if (this != &other) {
    slices_.clear();
    Merge(other);
  }
  return *this;
}

Result<> RlSummary::Add(const RlBatch& batch, int threads) {
  KCC_TRY_VOID(CheckRlBatch(batch));
  const int64_t parts = std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, batch.rows));
  std::vector<RlPass> passes;
  for (int64_t p = 0; p < parts; ++p) passes.emplace_back(batch, BestTarget());
  std::vector<Result<>> results(static_cast<size_t>(parts));
  const auto work = [&](int64_t part) {
    const auto at = static_cast<size_t>(part);
    results[at] = passes[at].AddRows(batch.rows * part / parts, batch.rows * (part + 1) / parts);
  };
  std::vector<std::thread> workers;
  for (int64_t p = 1; p < parts; ++p) workers.emplace_back(work, p);
  work(0);
  for (std::thread& worker : workers) worker.join();
  for (Result<>& result : results) KCC_TRY_VOID(std::move(result));  // the first row's error
  for (RlPass& pass : passes) pass.MergeInto(this);
  return {};
}

void RlSummary::Merge(const RlSummary& other) {
  for (const auto& [name, state] : other.slices_) {
    auto& own = slices_[name];
    if (own == nullptr) own = std::make_unique<RlSliceState>();
    own->Merge(*state);
  }
}

std::string RlSummary::Serialize() const {
  Archive archive = Archive::Writer();
  size_t count = slices_.size();
  archive.Length(count);
  for (const auto& [name, state] : slices_) {
    std::string text = name;
    archive.Text(text);
    RlSliceState copy = *state;
    copy.Visit(archive);
  }
  return std::string(kMagic) + archive.Take();
}

Result<RlSummary> RlSummary::Parse(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return InvalidError("not an RL summary: it starts otherwise");
  Archive archive = Archive::Reader(bytes.substr(kMagic.size()));
  RlSummary summary;
  size_t count = 0;
  archive.Length(count);
  std::optional<std::string> last;
  for (size_t i = 0; i < count && archive.ok(); ++i) {
    std::string name;
    archive.Text(name);
    if (last.has_value() && name <= *last) archive.Fail("slices that are not in order");
    auto state = std::make_unique<RlSliceState>();
    state->Visit(archive);
    if (!archive.ok()) break;
    last = name;
    summary.slices_.emplace(std::move(name), std::move(state));
  }
  if (archive.ok() && !archive.AtEnd()) archive.Fail("bytes after the last slice");
  if (!archive.ok()) return InvalidError("a damaged RL summary: " + archive.fault());
  return summary;
}

int64_t RlSummary::tokens() const {
  uint64_t tokens = 0;
  for (const auto& [name, state] : slices_) tokens += state->level[0].units;
  return static_cast<int64_t>(tokens);
}

std::vector<std::string> RlSummary::slices() const {
  std::vector<std::string> names;
  for (const auto& [name, state] : slices_) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace kcc
