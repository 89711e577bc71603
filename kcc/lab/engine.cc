#include "kcc/lab/engine.h"

#include <algorithm>

#include "kcc/kernel/exec_protocol.h"
#include "kcc/lab/sampler.h"

namespace kcc {

struct Engine::Batch {
  std::span<const KernelRequest> requests;
  std::vector<Sequence> sequences;
  std::vector<RequestOutcome> outcomes;
  std::vector<uint64_t> seeds;  // of generation
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
      stepper_(model, switches_, pool_) {}

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
  batch->scheduler =
      std::make_unique<Scheduler>(SchedulerLimits::Of(switches_), batch->cache.get());
  batch->outcomes.resize(batch->sequences.size());
  for (Sequence& sequence : batch->sequences) {
    RequestOutcome& outcome = batch->outcomes[sequence.request];
    outcome.audit = AuditTrail(model_.config.layers, sequence.tokens.size(), switches_.audit);
    sequence.audit = &outcome.audit;
    sequence.variant_from = stepper_.VariantFrom(batch->requests[sequence.request].request.id);
    if (!sequence.tokens.empty()) batch->scheduler->Add(&sequence);
  }
  batch->started_s = clock_.MonotonicSeconds();
  const RowSink deliver = [&](Sequence* sequence, size_t position, std::span<const float> logits) {
    return Deliver(batch, sequence, position, logits, sink);
  };
  while (!batch->scheduler->idle()) {
    KCC_TRY(const std::vector<ScheduledRun> runs, batch->scheduler->Next());
    ++stats_.steps;
    for (const ScheduledRun& run : runs) stats_.tokens += run.tokens;
    KCC_TRY_VOID(stepper_.Step(runs, batch->cache.get(), deliver));
    const double now_ms = (clock_.MonotonicSeconds() - batch->started_s) * 1000;
    for (const ScheduledRun& run : runs) {
      RequestOutcome& outcome = batch->outcomes[run.sequence->request];
      outcome.latency_ms = now_ms;
      outcome.kv_bytes = std::max(outcome.kv_bytes,
                                  run.sequence->table.blocks.size() * batch->cache->block_bytes());
      outcome.preemptions = run.sequence->preemptions;
    }
    batch->scheduler->Retire();
  }
  stats_.preemptions += batch->scheduler->preemptions();
  const size_t cache_bytes = batch->cache->blocks() * batch->cache->block_bytes();
  stats_.peak_bytes =
      std::max(stats_.peak_bytes, model_.weight_bytes() + cache_bytes + forward().scratch_bytes());
  return {};
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

Result<> Engine::Deliver(Batch* batch, Sequence* sequence, size_t position,
                         std::span<const float> logits, const LogitsSink& sink) {
  const size_t request = sequence->request;
  RequestOutcome& outcome = batch->outcomes[request];
  if (outcome.ttft_ms == 0) {
    outcome.ttft_ms = (clock_.MonotonicSeconds() - batch->started_s) * 1000;
  }
  const int32_t token = sequence->open_ended
                            ? SampleToken(logits, *batch->sampling, batch->seeds[request], position)
                            : batch->requests[request].tokens[position];
  if (sequence->open_ended) Append(batch, token, sequence);
  return sink(request, position, token, logits);
}

}  // namespace kcc
