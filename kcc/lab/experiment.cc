#include "kcc/lab/experiment.h"

#include <algorithm>
#include <cmath>

#include "kcc/lab/engine.h"
#include "kcc/summary/token_meter.h"

namespace kcc {

Result<ScoredLogits> ScoreInMemory(const LabModel& model, const LabSwitches& switches,
                                   std::span<const KernelRequest> requests) {
  const SystemClock clock;
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
  scored.preemptions = engine.stats().preemptions;
  return scored;
}

Result<DriftTable> MeasureDrift(const ScoredLogits& train, const ScoredLogits& infer,
                                std::span<const KernelRequest> requests, size_t vocab,
                                std::span<const size_t> slots) {
  SlotSet wanted;
  for (const size_t slot : slots) wanted.set(slot);
  MeterSettings settings;
  settings.evidence = EvidenceLevel::kLogits;
  settings.vocab_size = static_cast<int64_t>(vocab);
  TokenMeter meter(settings, wanted);
  TokenReading reading;
  DriftTable table;
  table.slots = slots.size();
  table.values.resize(requests.size());
  const auto evidence = [&](const std::vector<float>& rows, const KernelRequest& request,
                            size_t token) {
    TokenEvidence made;
    made.position = request.prompt_tokens + static_cast<int32_t>(token);
    made.token = request.tokens[static_cast<size_t>(made.position)];
    made.logits = &rows[token * vocab];
    made.logits_dtype = DType::kF32;
    return made;
  };
  for (size_t r = 0; r < requests.size(); ++r) {
    const size_t tokens = train.rows[r].size() / vocab;
    for (size_t t = 0; t < tokens; ++t) {
      KCC_TRY_VOID(meter.Read(evidence(train.rows[r], requests[r], t),
                              evidence(infer.rows[r], requests[r], t), &reading));
      for (const size_t slot : slots) table.values[r].push_back(reading.drift.lo[slot]);
    }
  }
  return table;
}

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
    slices.ForRequest(request.request, request.request, &bits);
    std::vector<bool>& own = members.emplace_back();
    for (size_t s = 0; s < slices.size(); ++s) own.push_back(bits.Test(s));
  }
  return members;
}

std::vector<KernelRequest> SpreadRequests(std::span<const KernelRequest> requests, size_t count,
                                          size_t shift) {
  const size_t total = requests.size();
  std::vector<KernelRequest> chosen;
  if (total == 0) return chosen;
  count = std::min(count, total);
  for (size_t i = 0; i < count; ++i) {
    chosen.push_back(requests[(i * total / count + shift % (total / count)) % total]);
  }
  return chosen;
}

KernelRequest InContext(const KernelRequest& request, std::span<const KernelRequest> pool,
                        size_t length) {
  KernelRequest made = request;
  const auto own = static_cast<size_t>(request.prompt_tokens);
  if (own >= length) return made;
  const auto self = std::find_if(pool.begin(), pool.end(), [&](const KernelRequest& other) {
    return other.request.id == request.request.id;
  });
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

double SortedQuantile(std::span<const double> sorted, double p) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size(), std::max<size_t>(rank, 1)) - 1];
}

}  // namespace kcc
