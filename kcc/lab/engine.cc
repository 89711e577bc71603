#include "kcc/lab/engine.h"

#include <algorithm>
#include <limits>

#include "kcc/kernel/exec_protocol.h"
#include "kcc/lab/sampler.h"

namespace kcc {
namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

}  // namespace

struct Engine::Batch {
  std::span<const KernelRequest> requests;
  std::vector<Sequence> sequences;
  std::vector<RequestOutcome> outcomes;
  std::vector<uint64_t> seeds;       // of generation
  std::vector<size_t> variant_from;  // position from which the other kernel variant is taken
  const Sampling* sampling = nullptr;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Scheduler> scheduler;
  double started_s = 0;
};

Engine::Engine(const LabModel& model, const LabSwitches& switches, const Clock& clock)
    : model_(model),
      switches_(switches),
      clock_(clock),
      pool_(switches.threads),
      forward_(model, switches_, pool_) {}

Result<> Engine::CheckRequests(std::span<const KernelRequest> batch, size_t extra_tokens) const {
  for (const KernelRequest& request : batch) {
    const std::string who = "request '" + request.request.id + "'";
    const auto prompt = static_cast<size_t>(std::max(request.prompt_tokens, 0));
    if (prompt < 1 || prompt > request.tokens.size()) {
      return InvalidError(who +
                          " needs at least one prompt token: the first token of a sequence "
                          "has nothing to predict it from");
    }
    const size_t length = extra_tokens == 0 ? request.tokens.size() : prompt + extra_tokens;
    if (length > model_.config.positions) {
      return InvalidError(who + " has up to " + std::to_string(length) +
                          " tokens, but the model has " + std::to_string(model_.config.positions) +
                          " positions");
    }
    for (const int32_t token : request.tokens) {
      if (token < 0 || static_cast<size_t>(token) >= model_.config.vocab) {
        return InvalidError(who + " holds token " + std::to_string(token) +
                            ", but the vocabulary has " + std::to_string(model_.config.vocab) +
                            "; were its ids made by the tokenizer of this model?");
      }
    }
  }
  return {};
}

// Requests are spread by the hash of their id, so that a request has one replica wherever it runs.
size_t Engine::VariantFrom(const KernelRequest& request) const {
  if (switches_.route.kind == RouteKind::kShape) return switches_.route.n;
  if (switches_.route.kind == RouteKind::kReplica) {
    return RequestSeed(0, request.request.id) % switches_.route.n % 2 == 1 ? 0 : kNever;
  }
  return kNever;
}

// The only place where a step's size reaches the arithmetic. With batch=invariant it returns the
// same for every size.
StepChoice Engine::ChoiceFor(size_t step_tokens, bool variant) const {
  StepChoice choice{1, switches_.attention};
  if (variant) choice = {4, {AttentionKind::kSplit, 2}};
  if (!switches_.dynamic_batch) return choice;
  // Few rows leave cores idle unless the sums are split: the usual heuristic, by powers of four.
  const int split = step_tokens <= 16 ? 8 : step_tokens <= 64 ? 4 : step_tokens <= 256 ? 2 : 1;
  choice.split_k *= split;
  if (split > 1) {
    choice.attention = {AttentionKind::kSplit, static_cast<size_t>(split) * (variant ? 2 : 1)};
  }
  return choice;
}

Result<std::vector<RequestOutcome>> Engine::Score(std::span<const KernelRequest> requests,
                                                  const LogitsSink& sink) {
  KCC_TRY_VOID(CheckRequests(requests, 0));
  Batch batch;
  batch.requests = requests;
  for (size_t i = 0; i < requests.size(); ++i) {
    Sequence sequence;
    sequence.request = i;
    sequence.tokens = requests[i].tokens;
    // The last token predicts nothing that is scored.
    sequence.tokens.pop_back();
    sequence.prompt = static_cast<size_t>(requests[i].prompt_tokens);
    sequence.one_by_one = switches_.path == TracePath::kDecode;
    sequence.emitted = std::min(sequence.prompt - 1, sequence.tokens.size());
    batch.sequences.push_back(std::move(sequence));
  }
  KCC_TRY_VOID(Drive(&batch, sink));
  return std::move(batch.outcomes);
}

Result<std::vector<RequestOutcome>> Engine::Generate(std::span<const KernelRequest> requests,
                                                     const Sampling& sampling,
                                                     const LogitsSink& sink) {
  if (sampling.output_tokens_max < 1) {
    return InvalidError("generation needs room for at least one token (output_tokens_max)");
  }
  KCC_TRY_VOID(CheckRequests(requests, static_cast<size_t>(sampling.output_tokens_max)));
  Batch batch;
  batch.requests = requests;
  batch.sampling = &sampling;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto prompt = static_cast<size_t>(requests[i].prompt_tokens);
    Sequence sequence;
    sequence.request = i;
    sequence.tokens.assign(requests[i].tokens.begin(),
                           requests[i].tokens.begin() + requests[i].prompt_tokens);
    sequence.prompt = prompt;
    sequence.one_by_one = true;
    sequence.open_ended = true;
    sequence.emitted = prompt - 1;
    batch.sequences.push_back(std::move(sequence));
    batch.seeds.push_back(RequestSeed(sampling.seed, requests[i].request.id));
  }
  KCC_TRY_VOID(Drive(&batch, sink));
  return std::move(batch.outcomes);
}

// Positions and rows: the logits of token t predict token t + 1. A request with prompt p and n
// tokens in all is computed for tokens 0 to n - 2, and the logits of tokens p - 1 to n - 2 go to
// the sink as positions p to n - 1. Example: p = 2, tokens A B C D. A, B and C are computed, B's
// logits are those of position 2 (C) and C's those of position 3 (D).
//
// `emitted` says up to where logits have been given out. It survives a preemption, unlike
// `computed`, so that no position reaches the sink twice.
Result<> Engine::Drive(Batch* batch, const LogitsSink& sink) {
  const size_t extra =
      batch->sampling == nullptr ? 0 : static_cast<size_t>(batch->sampling->output_tokens_max);
  // By default as many blocks as the sequences that run at once can need.
  std::vector<size_t> needs;
  for (const Sequence& sequence : batch->sequences) {
    needs.push_back((sequence.tokens.size() + extra + switches_.page - 1) / switches_.page + 1);
  }
  std::sort(needs.rbegin(), needs.rend());
  size_t blocks = 1;
  for (size_t i = 0; i < std::min(needs.size(), switches_.concurrency); ++i) blocks += needs[i];
  if (switches_.kv_tokens > 0) blocks = std::max<size_t>(1, switches_.kv_tokens / switches_.page);
  batch->cache = std::make_unique<KvCache>(model_.config, switches_.kv, switches_.page, blocks);
  SchedulerLimits limits;
  limits.chunk = switches_.chunk;
  limits.concurrency = switches_.concurrency;
  limits.step_tokens = switches_.chunk + switches_.concurrency;
  batch->scheduler = std::make_unique<Scheduler>(limits, batch->cache.get());
  batch->outcomes.resize(batch->sequences.size());
  for (Sequence& sequence : batch->sequences) {
    RequestOutcome& outcome = batch->outcomes[sequence.request];
    outcome.audit = AuditTrail(model_.config.layers, sequence.tokens.size(), switches_.audit);
    batch->variant_from.push_back(VariantFrom(batch->requests[sequence.request]));
    if (!sequence.tokens.empty()) batch->scheduler->Add(&sequence);
  }
  batch->started_s = clock_.MonotonicSeconds();
  while (!batch->scheduler->idle()) {
    KCC_TRY(const std::vector<ScheduledRun> runs, batch->scheduler->Next());
    KCC_TRY_VOID(Step(batch, runs, sink));
    batch->scheduler->Retire();
  }
  stats_.preemptions += batch->scheduler->preemptions();
  const size_t cache_bytes = batch->cache->blocks() * batch->cache->block_bytes();
  stats_.peak_bytes =
      std::max(stats_.peak_bytes, model_.weight_bytes() + cache_bytes + forward_.scratch_bytes());
  return {};
}

// Tokens that take the other kernel variant are computed apart; within a sequence they follow the
// rest, so that its keys are there.
Result<> Engine::Step(Batch* batch, std::span<const ScheduledRun> runs, const LogitsSink& sink) {
  size_t step_tokens = 0;
  for (const ScheduledRun& run : runs) step_tokens += run.tokens;
  ++stats_.steps;
  stats_.tokens += step_tokens;
  std::vector<ScheduledRun> declared;
  std::vector<ScheduledRun> variant;
  for (const ScheduledRun& run : runs) {
    const size_t from = batch->variant_from[run.sequence->request];
    const size_t begin = run.sequence->computed;
    const size_t first = from <= begin ? 0 : std::min(run.tokens, from - begin);
    if (first > 0) declared.push_back({run.sequence, first});
    if (first < run.tokens) variant.push_back({run.sequence, run.tokens - first});
  }
  KCC_TRY_VOID(Compute(batch, declared, ChoiceFor(step_tokens, false), sink));
  return Compute(batch, variant, ChoiceFor(step_tokens, true), sink);
}

Result<> Engine::Compute(Batch* batch, std::span<const ScheduledRun> runs, const StepChoice& choice,
                         const LogitsSink& sink) {
  if (runs.empty()) return {};
  std::vector<StepRun> step;
  std::vector<size_t> logits_from;
  for (const ScheduledRun& run : runs) {
    Sequence& sequence = *run.sequence;
    const size_t end = sequence.computed + run.tokens;
    // Generation wants the last token's logits only, and nothing wants them twice.
    size_t from = std::max(sequence.emitted, sequence.computed);
    if (sequence.open_ended) from = end == sequence.tokens.size() ? end - 1 : end;
    from = std::min(from, end);
    logits_from.push_back(from);
    // Grown here, before threads write into it.
    AuditTrail* trail = &batch->outcomes[sequence.request].audit;
    trail->Grow(sequence.tokens.size());
    step.push_back({sequence.request,
                    std::span(sequence.tokens).subspan(sequence.computed, run.tokens),
                    sequence.computed, &sequence.table, from - sequence.computed,
                    trail->level() == AuditLevel::kOff ? nullptr : trail});
  }
  const std::span<const float> logits = forward_.Run(step, choice, batch->cache.get());
  return Deliver(batch, runs, logits_from, logits, sink);
}

// A sampled token, and whether it was the last.
void Engine::Append(Batch* batch, int32_t token, Sequence* sequence) {
  std::vector<int32_t>& output = batch->outcomes[sequence->request].output;
  output.push_back(token);
  const std::vector<int32_t>& stop = batch->sampling->stop;
  const auto most = static_cast<size_t>(batch->sampling->output_tokens_max);
  if (output.size() == most || std::find(stop.begin(), stop.end(), token) != stop.end()) {
    sequence->open_ended = false;
  } else {
    sequence->tokens.push_back(token);
  }
}

Result<> Engine::Deliver(Batch* batch, std::span<const ScheduledRun> runs,
                         std::span<const size_t> logits_from, std::span<const float> logits,
                         const LogitsSink& sink) {
  const size_t vocab = model_.config.vocab;
  const double now_ms = (clock_.MonotonicSeconds() - batch->started_s) * 1000;
  size_t row = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    Sequence& sequence = *runs[i].sequence;
    RequestOutcome& outcome = batch->outcomes[sequence.request];
    const size_t end = sequence.computed + runs[i].tokens;
    sequence.computed = end;
    for (size_t at = logits_from[i]; at < end; ++at, ++row) {
      const std::span<const float> values = logits.subspan(row * vocab, vocab);
      if (outcome.ttft_ms == 0) outcome.ttft_ms = now_ms;
      const int32_t token =
          sequence.open_ended
              ? SampleToken(values, *batch->sampling, batch->seeds[sequence.request], at + 1)
              : batch->requests[sequence.request].tokens[at + 1];
      if (sequence.open_ended) Append(batch, token, &sequence);
      KCC_TRY_VOID(sink(sequence.request, at + 1, token, values));
    }
    sequence.emitted = std::max(sequence.emitted, end);
    outcome.latency_ms = now_ms;
    outcome.kv_bytes =
        std::max(outcome.kv_bytes, sequence.table.blocks.size() * batch->cache->block_bytes());
    outcome.preemptions = sequence.preemptions;
  }
  return {};
}

}  // namespace kcc
