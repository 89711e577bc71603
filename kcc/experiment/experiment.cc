#include "kcc/experiment/experiment.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kcc/lab/engine.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/measure/measure.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/summary/population.h"
#include "kcc/trace/evidence_check.h"

namespace kcc {
namespace {

// Two kernels' logits of the same requests, in memory.
// Through the same driver as files and arrays, so that an experiment's figures are what kcc measure
// would give for the same kernels.
class ScoredSource final : public PairSource {
 public:
  ScoredSource(const ScoredLogits& train, const ScoredLogits& infer,
               std::span<const KernelRequest> requests, size_t vocab)
      : train_(train), infer_(infer), requests_(requests), vocab_(vocab) {}

  MeterSettings settings() const override {
    MeterSettings settings;
    settings.evidence = EvidenceLevel::kLogits;
    settings.vocab_size = static_cast<int64_t>(vocab_);
    return settings;
  }
  size_t requests() const override { return requests_.size(); }
  RequestPair request(size_t i) const override {
    const Request& request = requests_[i].request;
    return {request.id, &request, &request, {}, {}};
  }
  int64_t tokens(size_t i) const override {
    return static_cast<int64_t>(train_.rows[i].size() / vocab_);
  }
  std::unique_ptr<PairRows> Rows() const override { return std::make_unique<RowsOf>(*this); }
  Error At(size_t request, int32_t position, const Error& why) const override {
    return Error(why.code(), "request '" + requests_[request].request.id + "', position " +
                                 std::to_string(position) + ": " + why.message());
  }

 private:
  class RowsOf final : public PairRows {
   public:
    explicit RowsOf(const ScoredSource& source) : source_(source) {}
    void Seek(size_t request) override {
      request_ = request;
      next_ = 0;
    }
    Result<RowPairView> Next() override {
      if (static_cast<int64_t>(next_) >= source_.tokens(request_)) return RowPairView();
      Load(source_.train_, &train_);
      Load(source_.infer_, &infer_);
      ++next_;
      const EvidenceLimits limits = source_.limits();
      for (const TokenEvidence* side : {&train_, &infer_}) {
        const Result<> checked = CheckEvidenceScalars(limits, *side);
        if (!checked) return source_.At(request_, side->position, checked.error());
      }
      return RowPairView{&train_, &infer_};
    }

   private:
    void Load(const ScoredLogits& side, TokenEvidence* to) const {
      const KernelRequest& request = source_.requests_[request_];
      // Rows are of the output alone, in order: the engine gives each position once.
      to->position = request.prompt_tokens + static_cast<int32_t>(next_);
      to->token = request.tokens[static_cast<size_t>(to->position)];
      to->logits = &side.rows[request_][next_ * source_.vocab_];
      to->logits_dtype = DType::kF32;
    }

    const ScoredSource& source_;
    size_t request_ = 0;
    size_t next_ = 0;
    TokenEvidence train_;
    TokenEvidence infer_;
  };

  EvidenceLimits limits() const {
    EvidenceLimits limits;
    limits.evidence = EvidenceLevel::kLogits;
    limits.vocab_size = static_cast<int64_t>(vocab_);
    return limits;
  }

  const ScoredLogits& train_;
  const ScoredLogits& infer_;
  std::span<const KernelRequest> requests_;
  const size_t vocab_;
};

// Keeps every value, where a summary would keep statistics: the experiments' pages need percentiles
// by request, by margin and by slice at once. Lab kernels give full logits, so that each quantity
// is one number (lo = hi).
class TableVisitor final : public PairVisitor {
 public:
  TableVisitor(std::span<const size_t> slots, size_t requests) : slots_(slots) {
    table_.slots = slots.size();
    table_.values.resize(requests);
  }
  Result<> BeginRequest(size_t index, const RequestPair&, const SliceBits&) override {
    request_ = index;
    return {};
  }
  Result<> Add(const MeasuredToken& token) override {
    for (const size_t slot : slots_) {
      table_.values[request_].push_back(token.reading.drift.lo[slot]);
    }
    return {};
  }
  DriftTable Finish() { return std::move(table_); }

 private:
  std::span<const size_t> slots_;
  DriftTable table_;
  size_t request_ = 0;
};

std::vector<int32_t> InOrder(size_t count) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

SourceSide DescribeSide(const KernelInfo& kernel) {
  SourceSide side;  // without the identity of a trace: there is none
  side.kernel_fingerprint = kernel.fingerprint;
  side.model_digest = kernel.model_digest;
  side.evidence = EvidenceLevel::kLogits;
  side.path = kernel.path;
  side.declares = DeclaredBy(kernel);
  return side;
}

// So that a contract that binds another model, engine or set of requests is not judged on these.
Source DescribePair(const ScoredLogits& train, const ScoredLogits& infer,
                    std::span<const KernelRequest> requests) {
  Source source;
  source.train = DescribeSide(train.kernel);
  source.infer = DescribeSide(infer.kernel);
  source.evidence = EvidenceLevel::kLogits;
  source.request_set = RequestSetOf(requests).Digest();
  source.vocab_size = train.kernel.vocab_size;
  source.requests = requests.size();
  for (size_t r = 0; r < requests.size(); ++r) {
    source.manifest += HashText(requests[r].request.id);
    source.tokens += train.rows[r].size() / static_cast<size_t>(source.vocab_size);
  }
  return source;
}

}  // namespace

Result<ScoredLogits> ScoreInMemory(const LabModel& model, const LabSwitches& switches,
                                   std::span<const KernelRequest> requests) {
  const SystemClock clock;
  // Nobody reads signatures here, and hashing takes time.
  LabSwitches quiet = switches;
  quiet.audit = AuditLevel::kOff;
  Engine engine(model, quiet, clock);
  ScoredLogits scored;
  scored.rows.resize(requests.size());
  const auto sink = [&](size_t request, size_t, int32_t, std::span<const float> logits) {
    scored.rows[request].insert(scored.rows[request].end(), logits.begin(), logits.end());
    return Result<>();
  };
  const Result<std::vector<RequestOutcome>> outcomes = engine.Score(requests, sink);
  if (!outcomes.has_value()) return outcomes.error();
  scored.kernel = LabKernelInfo(model, switches);
  scored.work = engine.stats();
  return scored;
}

Result<DriftTable> MeasureDrift(const ScoredLogits& train, const ScoredLogits& infer,
                                std::span<const KernelRequest> requests, size_t vocab,
                                std::span<const size_t> slots) {
  const ScoredSource source(train, infer, requests, vocab);
  TableVisitor visitor(slots, requests.size());
  WalkOptions walk;
  for (const size_t slot : slots) walk.wanted.set(slot);
  KCC_TRY(const SliceEvaluator no_slices, SliceEvaluator::Make({}));
  PairVisitor* const visitors[] = {&visitor};
  KCC_TRY_VOID(WalkPairs(source, InOrder(requests.size()), no_slices, walk, visitors));
  return visitor.Finish();
}

Result<Summary> SummarizeDrift(const ScoredLogits& train, const ScoredLogits& infer,
                               std::span<const KernelRequest> requests, const Plan& plan) {
  const ScoredSource source(train, infer, requests, static_cast<size_t>(train.kernel.vocab_size));
  KCC_TRY(Summary summary, MeasureSource(source, InOrder(requests.size()), plan, {}));
  summary.sources = {DescribePair(train, infer, requests)};
  return summary;
}

RequestSet RequestSetOf(std::span<const KernelRequest> requests) {
  RequestSet set;
  for (const KernelRequest& request : requests) {
    const auto prompt = static_cast<size_t>(request.prompt_tokens);
    set.Add(request.request.id, request.prompt_tokens, std::span(request.tokens).subspan(prompt));
  }
  return set;
}

// Experiments count requests, and a slice of tokens is no set of requests: those are left out.
Result<SliceEvaluator> RequestSlices(std::span<const Slice> slices) {
  std::vector<Slice> every = {Slice{"all", {}, {}}};
  for (const Slice& slice : slices) {
    if (slice.name != "all") every.push_back(slice);
  }
  KCC_TRY(const SliceEvaluator evaluator, SliceEvaluator::Make(every));
  std::vector<Slice> kept;
  for (size_t s = 0; s < every.size(); ++s) {
    if (!evaluator.reads_token(s)) kept.push_back(every[s]);
  }
  return SliceEvaluator::Make(std::move(kept));
}

std::vector<std::vector<bool>> SliceMembers(const SliceEvaluator& slices,
                                            std::span<const KernelRequest> requests) {
  std::vector<std::vector<bool>> members;
  for (const KernelRequest& request : requests) {
    SliceBits bits(slices.size());
    const RequestSides sides{&request.request, &request.request, &request.request, -1};
    // The lab asks in memory, so the request is its own train and infer side.
    (void)slices.ForRequest(sides, &bits);  // one witness cannot disagree with itself
    std::vector<bool>& own = members.emplace_back();
    for (size_t s = 0; s < slices.size(); ++s) own.push_back(bits.Test(s));
  }
  return members;
}

KernelRequest InContext(const KernelRequest& request, std::span<const KernelRequest> pool,
                        size_t length) {
  KernelRequest made = request;
  // A request that is long enough stays as it is, with its id: it is the same request.
  const auto own = static_cast<size_t>(request.prompt_tokens);
  if (own >= length) return made;
  const auto self = std::find_if(pool.begin(), pool.end(), [&](const KernelRequest& other) {
    return other.request.id == request.request.id;
  });
  // A conversation: whole other requests first, then its own prompt and output as before.
  // Strides through the pool, so that the context mixes what lies apart in it.
  const size_t stride = pool.size() / 5 + 1;
  size_t at = static_cast<size_t>(self - pool.begin()) + stride;
  std::vector<int32_t> context;
  while (context.size() < length - own) {
    const KernelRequest& other = pool[at % pool.size()];
    at += stride;
    if (other.request.id == request.request.id) continue;
    context.insert(context.begin(), other.tokens.begin(), other.tokens.end());
  }
  // The front is cut to the length asked for, but the token that begins a text stays.
  const int32_t begin = request.tokens[0];
  context.erase(context.begin(), context.end() - static_cast<std::ptrdiff_t>(length - own));
  context.front() = begin;
  made.tokens.insert(made.tokens.begin(), context.begin(), context.end());
  made.prompt_tokens = static_cast<int32_t>(length);
  made.request.id += "@" + std::to_string(length);
  made.request.fields["prompt_tokens"] = static_cast<double>(length);
  return made;
}

// Type 1, as in every verdict (docs/math.md C.1): a value that occurred, never one between two.
double SortedQuantile(std::span<const double> sorted, double p) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size(), std::max<size_t>(rank, 1)) - 1];
}

std::string_view FindingWord(const Finding& finding) {
  if (finding.open) return "not run";
  return finding.holds ? "yes" : "no";
}

}  // namespace kcc
