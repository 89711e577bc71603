#include "kcc/measure/pair_walk.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/drift/row_check.h"
#include "kcc/measure/parallel.h"
#include "kcc/summary/own_values.h"

namespace kcc {
namespace {

// A run should fill a cursor's window a few times, so that threads do not map pages for nothing.
constexpr int64_t kRunBytes = int64_t{32} << 20;
constexpr int64_t kRunRequestsMax = 4096;

struct Run {
  size_t first = 0;  // in the order of reading
  size_t last = 0;
};

std::vector<Run> MakeRuns(const PairSource& source, std::span<const int32_t> order,
                          size_t threads) {
  const auto tokens_of = [&](int32_t i) { return source.tokens(static_cast<size_t>(i)); };
  int64_t tokens_all = 0;
  for (const int32_t i : order) tokens_all += tokens_of(i);
  // At least four runs per thread, so that none ends long before the others.
  const int64_t fair = tokens_all / (int64_t{4} * static_cast<int64_t>(threads)) + 1;
  const int64_t tokens_max = std::min(kRunBytes / source.bytes_per_token() + 1, fair);
  std::vector<Run> runs;
  Run run;
  int64_t tokens = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    tokens += tokens_of(order[i]);
    run.last = i + 1;
    const auto requests = static_cast<int64_t>(run.last - run.first);
    if (tokens < tokens_max && requests < kRunRequestsMax) continue;
    runs.push_back(run);
    run.first = run.last;
    tokens = 0;
  }
  if (run.first < order.size()) runs.push_back({run.first, order.size()});
  return runs;
}

// One thread's reading of requests.
// The row pipeline. The meter works on two rows at a time: the tv of row n is finished while row n
// + 1 is read (drift/simd.h). So a token goes to the visitor one row late:
//
//     row 0   Take(0)
//     row 1   Take(1)   Give(0)
//     row 2   Take(2)   Give(1)
//     end     Finish    Give(2)
//
// Invariant: taken_[n % 2] stays where it is, untouched, from Take(n) to Give(n), since the meter
// writes into it in between. Two places in turn are therefore enough, and one would not be.
class Walker {
 public:
  Walker(const PairSource& source, const SliceEvaluator& slices, const WalkOptions& options,
         PairVisitor* visitor)
      : source_(source),
        slices_(slices),
        measures_(options.wanted.any()),
        own_(options.own),
        visitor_(*visitor),
        rows_(source.Rows()),
        meter_(source.settings(), options.wanted, options.target.value_or(BestTarget())) {}

  void Announce(std::span<const int32_t> requests) { rows_->Announce(requests); }

  Result<> Walk(size_t index) {
    request_index_ = index;
    request_ = source_.request(index);
    sides_ = {request_.asked, request_.train, request_.infer, request_.output_rows, {}};
    for (const Side side : {Side::kInfer, Side::kTrain}) {
      sides_.length_unknown[static_cast<size_t>(side)] = request_.LengthUnknown(side);
    }
    KCC_TRY_VOID(slices_.ForRequest(sides_, &bits_, &unvouched_));
    KCC_TRY_VOID(visitor_.BeginRequest(index, request_, bits_));
    if (!unvouched_.empty()) visitor_.NoteUnvouched(unvouched_);
    rows_->Seek(index);
    const Closing closing{&meter_};
    size_t count = 0;
    while (true) {
      KCC_TRY(const RowPairView rows, rows_->Next());
      if (rows.infer == nullptr) break;
      // A token is handed on once the next one has been begun: only then is all of it known.
      MeasuredToken& now = taken_[count % 2];
      const Result<> read = Take(rows, &now);
      // The row before a broken one is whole. It is given on first, so that of two faults the
      // earlier one is reported.
      if (!read) meter_.Finish();
      if (count > 0) KCC_TRY_VOID(Give(taken_[(count - 1) % 2]));
      if (!read) return source_.At(index, rows.infer->position, read.error());
      ++count;
    }
    meter_.Finish();
    if (count > 0) KCC_TRY_VOID(Give(taken_[(count - 1) % 2]));
    return visitor_.EndRequest();
  }

 private:
  // Leaves the meter with nothing to write into a reading that is gone, however a request ends.
  struct Closing {
    TokenMeter* meter;
    ~Closing() { meter->Finish(); }
  };

  Result<> Take(const RowPairView& rows, MeasuredToken* to) {
    KCC_TRY_VOID(visitor_.Read(*rows.train, *rows.infer));
    if (measures_ && rows.measured != nullptr) {
      KCC_TRY_VOID(meter_.Take(*rows.measured, *rows.train, *rows.infer, &to->reading));
    } else if (measures_) {
      KCC_TRY_VOID(meter_.Begin(*rows.train, *rows.infer, &to->reading));
    }
    to->position = rows.infer->position;
    to->token = rows.infer->token;
    to->bits = bits_;
    if (!own_.empty()) TakeOwn(rows, &to->own);
    if (slices_.any_reads_token()) {
      unvouched_.clear();
      slices_.ForToken(sides_, *rows.train, *rows.infer, &to->bits, &unvouched_);
      if (!unvouched_.empty()) visitor_.NoteUnvouched(unvouched_);
    }
    return {};
  }

  void TakeOwn(const RowPairView& rows, std::vector<double>* values) const {
    values->clear();
    for (const OwnSeries& row : own_) {
      const std::optional<double> value =
          OwnTokenValue(*row.quantity, request_, row.side, *rows.train, *rows.infer);
      values->push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
    }
  }

  Result<> Give(const MeasuredToken& token) {
    // A row begins before the last one's tv is known, so what rows obey is asked here.
    Result<> done = measures_ ? CheckRow(token.reading.drift) : Result<>();
    if (done) done = visitor_.Add(token);
    if (done) return {};
    return source_.At(request_index_, token.position, done.error());
  }

  const PairSource& source_;
  const SliceEvaluator& slices_;
  const bool measures_;
  const std::span<const OwnSeries> own_;
  PairVisitor& visitor_;
  std::unique_ptr<PairRows> rows_;
  TokenMeter meter_;
  size_t request_index_ = 0;
  RequestPair request_;
  RequestSides sides_;
  SliceBits bits_;
  std::vector<Unvouched> unvouched_;
  std::array<MeasuredToken, 2> taken_;
};

// What the threads share. Runs are handed out in order, so when a fault is found every earlier run
// is already in some thread's hands and will be finished: the earliest fault wins.
class Work {
 public:
  Work(const PairSource& source, std::span<const int32_t> order, const WalkOptions& options,
       size_t threads)
      : source_(source),
        order_(order),
        options_(options),
        runs_(MakeRuns(source, order, threads)) {}

  size_t runs() const { return runs_.size(); }

  void WalkRuns(Walker* walker) {
    for (size_t r = next_.fetch_add(1); r < runs_.size() && !After(r); r = next_.fetch_add(1)) {
      walker->Announce(order_.subspan(runs_[r].first, runs_[r].last - runs_[r].first));
      for (size_t i = runs_[r].first; i < runs_[r].last; ++i) {
        Result<> done = walker->Walk(static_cast<size_t>(order_[i]));
        if (!done) {
          Report(r, std::move(done.error()));
          break;
        }
      }
      Advance(runs_[r]);
    }
  }

  Result<> Outcome() {
    if (fault_) return std::move(*fault_);
    return {};
  }

 private:
  // Later runs alone are skipped. An earlier one may hold an earlier fault, and which of two is
  // reported must not depend on the threads.
  bool After(size_t run) {
    const std::lock_guard lock(mutex_);
    return fault_ && run > fault_run_;
  }

  void Report(size_t run, Error error) {
    const std::lock_guard lock(mutex_);
    if (fault_ && fault_run_ <= run) return;
    fault_ = std::move(error);
    fault_run_ = run;
  }

  void Advance(const Run& run) {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    int64_t tokens = 0;
    for (size_t i = run.first; i < run.last; ++i) {
      tokens += source_.tokens(static_cast<size_t>(order_[i]));
    }
    progress_.requests += static_cast<int64_t>(run.last - run.first);
    progress_.tokens += tokens;
    progress_.bytes += tokens * source_.bytes_per_token();
    options_.progress(progress_);
  }

  const PairSource& source_;
  std::span<const int32_t> order_;
  const WalkOptions& options_;
  std::vector<Run> runs_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  WalkProgress progress_;
  std::optional<Error> fault_;
  size_t fault_run_ = 0;
};

}  // namespace

Result<> PairVisitor::BeginRequest(size_t, const RequestPair&, const SliceBits&) { return {}; }
void PairVisitor::NoteUnvouched(std::span<const Unvouched>) {}
Result<> PairVisitor::Read(const TokenEvidence&, const TokenEvidence&) { return {}; }
Result<> PairVisitor::EndRequest() { return {}; }

Result<> WalkPairs(const PairSource& source, std::span<const int32_t> order,
                   const SliceEvaluator& slices, const WalkOptions& options,
                   std::span<PairVisitor* const> visitors) {
  KCC_CHECK(!visitors.empty());
  Work work(source, order, options, visitors.size());
  const size_t threads = std::clamp<size_t>(visitors.size(), 1, std::max<size_t>(1, work.runs()));
  ParallelFor(threads, [&](size_t t) {
    Walker walker(source, slices, options, visitors[t]);
    work.WalkRuns(&walker);
  });
  return work.Outcome();
}

}  // namespace kcc
