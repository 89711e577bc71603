#include "kcc/summary/measure.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kcc/summary/accumulator.h"
#include "kcc/summary/plan_slices.h"
#include "kcc/summary/token_meter.h"

namespace kcc {
namespace {

// A run should fill a cursor's window a few times, so that threads do not map pages for nothing.
constexpr int64_t kRunBytes = int64_t{32} << 20;
constexpr int64_t kRunRequestsMax = 4096;

struct Run {
  size_t first = 0;  // in the order of reading
  size_t last = 0;
};

int64_t BytesPerToken(const TraceReader& reader) {
  const int64_t tokens = std::max<int64_t>(1, reader.token_count());
  return std::max<int64_t>(1, reader.payload_bytes() / tokens);
}

std::vector<Run> MakeRuns(const PairedTraces& pair, const std::vector<int32_t>& order,
                          int threads) {
  const int64_t per_token = BytesPerToken(pair.train()) + BytesPerToken(pair.infer());
  int64_t tokens_all = 0;
  for (const int32_t i : order) tokens_all += pair.requests()[static_cast<size_t>(i)].tokens;
  const int64_t fair = tokens_all / (int64_t{4} * threads) + 1;
  const int64_t tokens_max = std::min(kRunBytes / per_token + 1, fair);
  std::vector<Run> runs;
  Run run;
  int64_t tokens = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    tokens += pair.requests()[static_cast<size_t>(order[i])].tokens;
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

// What the threads share. Runs are handed out in order, so when a fault is found every earlier run
// is already in some thread's hands and will be finished: the earliest fault wins.
class Work {
 public:
  Work(const PairedTraces& pair, const Plan& plan, const SliceEvaluator& slices,
       const MeasureOptions& options)
      : pair_(pair),
        plan_(plan),
        slices_(slices),
        options_(options),
        order_(pair.Order(options.shard)),
        runs_(MakeRuns(pair, order_, options.threads)) {
    progress_.requests_total = static_cast<int64_t>(order_.size());
    for (const int32_t i : order_) progress_.tokens_total += TokensOf(i);
  }

  size_t runs() const { return runs_.size(); }

  // One thread's part.
  Result<Summary> MeasureRuns() {
    Accumulator accumulator(plan_, {});
    TokenMeter meter(MeterSettings::Of(pair_), plan_.slots(),
                     options_.target.value_or(BestTarget()));
    PairCursor cursor(pair_);
    for (size_t r = next_.fetch_add(1); r < runs_.size() && !After(r); r = next_.fetch_add(1)) {
      for (size_t i = runs_[r].first; i < runs_[r].last; ++i) {
        Result<> done = MeasureRequest(order_[i], &cursor, &meter, &accumulator);
        if (!done) {
          Report(r, std::move(done.error()));
          break;
        }
      }
      Advance(runs_[r]);
    }
    return accumulator.Finish();
  }

  const std::optional<Error>& fault() const { return fault_; }

 private:
  int64_t TokensOf(int32_t i) const { return pair_.requests()[static_cast<size_t>(i)].tokens; }

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
    for (size_t i = run.first; i < run.last; ++i) tokens += TokensOf(order_[i]);
    progress_.requests += static_cast<int64_t>(run.last - run.first);
    progress_.tokens += tokens;
    progress_.bytes += tokens * (BytesPerToken(pair_.train()) + BytesPerToken(pair_.infer()));
    options_.progress(progress_);
  }

  Result<> MeasureRequest(int32_t i, PairCursor* cursor, TokenMeter* meter,
                          Accumulator* accumulator) const {
    const PairedRequest& paired = pair_.requests()[static_cast<size_t>(i)];
    const RequestPair request{paired.id, &pair_.train_request(i), &pair_.infer_request(i),
                              pair_.train().info().kernel_fingerprint,
                              pair_.infer().info().kernel_fingerprint};
    SliceBits bits;
    slices_.ForRequest(*request.train, *request.infer, &bits);
    accumulator->BeginRequest(request, bits);
    cursor->Seek(i);
    // A token is added once the next one has been begun: only then is all of it known.
    std::array<Taken, 2> taken;
    const Closing closing{meter};
    size_t count = 0;
    while (true) {
      KCC_TRY(const bool more, cursor->Next());
      if (!more) break;
      Taken& now = taken[count % 2];
      const Result<> read = Take(request, bits, *cursor, meter, &now);
      if (!read) meter->Finish();
      if (count > 0) KCC_TRY_VOID(Add(paired, taken[(count - 1) % 2], accumulator));
      if (!read) return Explain(paired, cursor->infer().position, read.error());
      ++count;
    }
    meter->Finish();
    if (count > 0) KCC_TRY_VOID(Add(paired, taken[(count - 1) % 2], accumulator));
    accumulator->EndRequest();
    return {};
  }

  // Leaves the meter with nothing to write into a reading that is gone, however a request ends.
  struct Closing {
    TokenMeter* meter;
    ~Closing() { meter->Finish(); }
  };

  struct Taken {
    TokenReading reading;
    TokenSample sample;
    SliceBits bits;
  };

  Result<> Take(const RequestPair& request, const SliceBits& bits, const PairCursor& cursor,
                TokenMeter* meter, Taken* to) const {
    const TokenEvidence& train = cursor.train();
    const TokenEvidence& infer = cursor.infer();
    KCC_TRY_VOID(meter->Begin(train, infer, &to->reading));
    to->sample = {infer.position, infer.token, to->reading.gold};
    to->bits = bits;
    if (slices_.any_reads_token()) {
      slices_.ForToken(*request.train, *request.infer, train, infer, &to->bits);
    }
    return {};
  }

  Result<> Add(const PairedRequest& paired, const Taken& token, Accumulator* accumulator) const {
    const auto& estimates = token.reading.estimates;
    const Result<> added = accumulator->AddToken(token.sample, token.reading.drift, token.bits,
                                                 estimates ? &*estimates : nullptr);
    if (!added) return Explain(paired, token.sample.position, added.error());
    return {};
  }

  Error Explain(const PairedRequest& request, int32_t position, const Error& why) const {
    return Error(why.code(),
                 "request '" + std::string(request.id) + "', position " + std::to_string(position) +
                     ": " + why.message() + " (train trace " + pair_.train().directory() + ")",
                 {pair_.infer().directory()});
  }

  const PairedTraces& pair_;
  const Plan& plan_;
  const SliceEvaluator& slices_;
  const MeasureOptions& options_;
  std::vector<int32_t> order_;
  std::vector<Run> runs_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  MeasureProgress progress_;
  std::optional<Error> fault_;
  size_t fault_run_ = 0;
};

SourceSide DescribeSide(const TraceReader& reader) {
  const TraceInfo& info = reader.info();
  return {reader.identity(), info.kernel_fingerprint, info.model_digest,
          info.evidence,     info.semantics,          info.path};
}

}  // namespace

Source DescribeSource(const PairedTraces& pair) {
  Source source;
  source.train = DescribeSide(pair.train());
  source.infer = DescribeSide(pair.infer());
  source.evidence = pair.evidence();
  source.mode = pair.mode();
  source.sampled_by = pair.infer().info().sampled_by;
  source.temperature = pair.temperature();
  source.vocab_size = pair.vocab_size();
  source.requests = pair.requests().size();
  source.tokens = static_cast<uint64_t>(pair.token_count());
  for (const PairedRequest& request : pair.requests()) source.manifest += HashText(request.id);
  return source;
}

Result<Summary> Measure(const PairedTraces& pair, const Plan& plan, const MeasureOptions& options) {
  if (options.threads < 1) return InvalidError("threads: at least 1");
  KCC_TRY(const SliceEvaluator slices, MakeSliceEvaluator(plan));
  Work work(pair, plan, slices, options);
  const size_t threads =
      std::clamp<size_t>(static_cast<size_t>(options.threads), 1, std::max<size_t>(1, work.runs()));
  std::vector<std::optional<Result<Summary>>> parts(threads);
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t) {
    others.emplace_back([&work, &part = parts[t]] { part.emplace(work.MeasureRuns()); });
  }
  parts[0].emplace(work.MeasureRuns());
  for (std::thread& other : others) other.join();
  if (work.fault()) return *work.fault();
  KCC_TRY(Summary summary, std::move(*parts[0]));
  for (size_t t = 1; t < threads; ++t) {
    if (!*parts[t]) return parts[t]->error();
    KCC_TRY_VOID(MergeInto(**parts[t], &summary));
  }
  summary.sources = {DescribeSource(pair)};
  return summary;
}

}  // namespace kcc
