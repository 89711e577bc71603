#include "kcc/measure/measure.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kcc/measure/device_source.h"
#include "kcc/measure/exact_quantiles.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/measure/trace_source.h"
#include "kcc/summary/accumulator.h"
#include "kcc/summary/plan_slices.h"
#include "kcc/summary/series.h"
#include "kcc/trace/request_set.h"

namespace kcc {
namespace {

// One thread's statistics.
class SummaryVisitor final : public PairVisitor {
 public:
  SummaryVisitor(const Plan& plan, std::span<const WantedQuantile> quantiles, TokenSink* sink)
      : accumulator_(plan, {}), quantiles_(quantiles, plan), sink_(sink) {}

  Result<> BeginRequest(size_t index, const RequestPair& request, const SliceBits& bits) override {
    index_ = index;
    if (sink_ != nullptr) sink_->Begin(index, request);
    accumulator_.BeginRequest(request, bits);
    if (request.rows_missing > 0) accumulator_.AddMissingTokens(request.rows_missing);
    if (!quantiles_.empty()) quantiles_.AddRequest(request, bits);
    return {};
  }
  Result<> Read(const TokenEvidence& train, const TokenEvidence& infer) override {
    const float advantage = std::isnan(train.advantage) ? infer.advantage : train.advantage;
    if (std::fabs(advantage) > advantage_abs_max_) advantage_abs_max_ = std::fabs(advantage);
    return {};
  }
  void NoteUnvouched(std::span<const Unvouched> unvouched) override {
    for (const Unvouched& one : unvouched) accumulator_.AddUnvouched(one);
  }
  Result<> Add(const MeasuredToken& token) override {
    if (sink_ != nullptr) sink_->Take(index_, token);
    if (!quantiles_.empty()) quantiles_.AddToken(token);
    const auto& estimates = token.reading.estimates;
    return accumulator_.AddToken({token.position, token.token, token.reading.gold},
                                 token.reading.drift, token.bits, estimates ? &*estimates : nullptr,
                                 token.own);
  }
  Result<> EndRequest() override {
    accumulator_.EndRequest();
    return {};
  }
  Result<Summary> Finish() {
    KCC_TRY(Summary summary, accumulator_.Finish());
    summary.advantage_abs_max = static_cast<double>(advantage_abs_max_);
    return summary;
  }
  QuantileCollector& quantiles() { return quantiles_; }

 private:
  Accumulator accumulator_;
  QuantileCollector quantiles_;
  TokenSink* const sink_;  // null: none
  size_t index_ = 0;       // of the request
  float advantage_abs_max_ = -1;
};

// The columns and fields that decide what counts and that the train trace lacks. Rising.
std::vector<std::string> InferAlone(const PairedTraces& pair) {
  using Tensor = std::optional<TensorInfo> TokenFile::*;
  std::vector<std::string> alone;
  for (const auto& [name, tensor] :
       {std::pair<const char*, Tensor>("advantage", &TokenFile::advantage),
        {"gold", &TokenFile::gold},
        {"mask", &TokenFile::mask}}) {
    const auto has = [tensor = tensor](const TraceReader& reader) {
      return std::any_of(reader.files().begin(), reader.files().end(),
                         [tensor](const TokenFile& file) { return (file.*tensor).has_value(); });
    };
    if (has(pair.infer()) && !has(pair.train())) alone.emplace_back(name);
  }
  if (pair.prompt_by_infer()) alone.emplace_back("prompt_tokens");
  for (const char* field : {"ordinal", "replay_group", "started_at_ms"}) {
    for (size_t i = 0; i < pair.requests().size(); ++i) {
      const auto at = static_cast<int32_t>(i);
      if (!pair.infer_request(at).fields.contains(field) ||
          pair.train_request(at).fields.contains(field)) {
        continue;
      }
      alone.emplace_back(field);
      break;
    }
  }
  std::sort(alone.begin(), alone.end());
  return alone;
}

SourceSide DescribeSide(const TraceReader& reader) {
  const TraceInfo& info = reader.info();
  SourceSide side;
  side.identity = reader.identity();
  side.kernel_fingerprint = info.kernel_fingerprint;
  side.model_digest = info.model_digest;
  side.evidence = info.evidence;
  side.semantics = info.semantics;
  side.path = info.path;
  side.declares = info.declares;
  return side;
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
  source.sampling_temperature = pair.sampling_temperature();
  source.infer_alone = InferAlone(pair);
  source.vocab_size = pair.vocab_size();
  source.requests = pair.requests().size();
  source.tokens = static_cast<uint64_t>(pair.token_count());
  for (const PairedRequest& request : pair.requests()) source.manifest += HashText(request.id);
  return source;
}

Result<Summary> MeasureSource(const PairSource& source, std::span<const int32_t> order,
                              const Plan& plan, const MeasureOptions& options) {
  if (options.threads < 1) return InvalidError("threads: at least 1");
  KCC_TRY(const SliceEvaluator slices, MakeSliceEvaluator(plan));
  const size_t threads = std::clamp<size_t>(static_cast<size_t>(options.threads), 1,
                                            std::max<size_t>(1, order.size()));
  std::vector<WantedQuantile> quantiles;
  if (options.exact_for != nullptr) quantiles = QuantilesOf(*options.exact_for, plan);
  std::vector<std::unique_ptr<SummaryVisitor>> parts;
  std::vector<PairVisitor*> visitors;
  for (size_t t = 0; t < threads; ++t) {
    parts.push_back(std::make_unique<SummaryVisitor>(plan, quantiles, options.tokens));
    visitors.push_back(parts.back().get());
  }
  WalkOptions walk;
  walk.wanted = plan.slots();
  walk.own = plan.own_token_series();
  walk.target = options.target;
  if (options.progress) {
    MeasureProgress totals;
    totals.requests_total = static_cast<int64_t>(order.size());
    for (const int32_t i : order) totals.tokens_total += source.tokens(static_cast<size_t>(i));
    walk.progress = [&options, totals](const WalkProgress& at) {
      MeasureProgress progress = totals;
      progress.requests = at.requests;
      progress.tokens = at.tokens;
      progress.bytes = at.bytes;
      options.progress(progress);
    };
  }
  KCC_TRY_VOID(WalkPairs(source, order, slices, walk, visitors));
  KCC_TRY(Summary summary, parts[0]->Finish());
  for (size_t t = 1; t < threads; ++t) {
    KCC_TRY(const Summary part, parts[t]->Finish());
    KCC_TRY_VOID(MergeInto(part, &summary));
    parts[0]->quantiles().Merge(std::move(parts[t]->quantiles()));
  }
  parts[0]->quantiles().Finish(&summary);
  return summary;
}

namespace {

bool ReadsOutputs(const Plan& plan) {
  for (size_t series = TokenSeriesCount(); series < SeriesCount(); ++series) {
    const bool outputs = SeriesQuantity(series).evidence == EvidenceNeeded::kOutputs;
    if (outputs && plan.Keeps(series)) return true;
  }
  return false;
}

}  // namespace

Result<Summary> Measure(const PairedTraces& pair, const Plan& plan, const MeasureOptions& options) {
  Source source = DescribeSource(pair);
  if (options.request_set) {
    KCC_TRY(const RequestSet set, RequestSet::Of(pair.train()));
    source.request_set = set.Digest();
  }
  if (options.verify) {
    KCC_TRY(const TraceReader::Verified train, pair.train().VerifyPayload());
    KCC_TRY(const TraceReader::Verified infer, pair.infer().VerifyPayload());
    source.train.payload_digest = train.payload_digest;
    source.infer.payload_digest = infer.payload_digest;
  }
  // Scored traces have the tokens that they were given: that they agree shows nothing.
  std::vector<OutputComparison> outputs;
  if (pair.mode() == TraceMode::kGenerated && ReadsOutputs(plan)) {
    KCC_TRY(outputs, CompareOutputs(pair));
  }
  const TraceSource traces(pair, options.asked, std::move(outputs));
  const std::vector<int32_t> order = pair.Order(options.shard);
  std::optional<DeviceSource> on_device;
  if (options.device != nullptr) {
    if (pair.evidence() != EvidenceLevel::kLogits) {
      return InvalidError(
          "a device measures full logits, and one of the traces holds none; measure on the CPU");
    }
    on_device.emplace(traces, *options.device, plan.slots());
    source.backend = options.device->name();
  }
  const PairSource& rows = on_device ? static_cast<const PairSource&>(*on_device) : traces;
  KCC_TRY(Summary summary, MeasureSource(rows, order, plan, options));
  summary.sources = {std::move(source)};
  return summary;
}

}  // namespace kcc
