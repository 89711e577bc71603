#include "kcc/gateway/gateway_exchange.h"

#include <utility>

#include "kcc/base/check.h"
#include "kcc/gateway/exchange_state.h"
#include "kcc/gateway/gateway_metrics.h"
#include "kcc/gateway/header_rules.h"
#include "kcc/gateway/openai_error.h"

namespace kcc {
namespace {

void Lower(std::atomic<uint64_t>& gauge) {
  gauge.store(gauge.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

TryFailure Describe(UpstreamFailure failure) {
  switch (failure) {
    case UpstreamFailure::kConnect:
      return {0, "no connection"};
    case UpstreamFailure::kTimeout:
      return {0, "time-out", true};
    case UpstreamFailure::kTooLarge:
      return {0, "head too large"};
    case UpstreamFailure::kBroken:
      break;
  }
  return {0, "broken connection"};
}

// What a client gets when no kernel is left to ask, by the last failure.
GatewayAnswer NoAnswer(const TryFailure& failure, const std::string& retry_after) {
  const bool busy = failure.status == 429 || failure.status == 503;
  const int status = busy ? failure.status : failure.late ? 504 : 502;
  GatewayAnswer answer =
      status == 429
          ? ErrorAnswer(429, "all kernels are busy; come back later", "", "rate_limit_exceeded")
          : ErrorAnswer(status, "no kernel could answer", "", "no_answer");
  if (busy && !retry_after.empty()) answer.headers.emplace_back("retry-after", retry_after);
  return answer;
}

}  // namespace

GatewayExchange::GatewayExchange(GatewayCore& core, GatewayWorker& worker)
    : state_(std::make_unique<State>(core, worker)) {}

// Where the plane gives an exchange up without a word, memory ran out: counters add up all the
// same, and the scorer hears that a record is missing. Takes no memory.
GatewayExchange::~GatewayExchange() {
  if (state_->phase != ExchangePhase::kNew && state_->phase != ExchangePhase::kOver) {
    if (state_->owed) state_->Drop(*state_->kernel);
    state_->End(ExchangeEnd::kLeft, state_->started_us);
  }
}

Step GatewayExchange::Start(const AskHead& head, std::string body, int64_t now_us) {
  KCC_CHECK(state_->phase == ExchangePhase::kNew);
  return state_->Start(head, std::move(body), now_us);
}

Step GatewayExchange::OnHead(int status, std::span<const HeaderField> headers, int64_t now_us) {
  if (state_->phase != ExchangePhase::kAsked) return {};
  return state_->OnHead(status, headers, now_us);
}

Step GatewayExchange::OnBody(std::string_view bytes, int64_t now_us) {
  if (state_->phase != ExchangePhase::kHeld && state_->phase != ExchangePhase::kPassing) return {};
  return state_->events ? state_->OnEvents(bytes, now_us) : state_->OnWholeBody(bytes, now_us);
}

Step GatewayExchange::OnEnd(int64_t now_us) {
  if (state_->phase == ExchangePhase::kAsked) {
    return state_->OnFailure(UpstreamFailure::kBroken, now_us);
  }
  if (state_->phase == ExchangePhase::kNew || state_->phase == ExchangePhase::kOver) return {};
  return state_->events ? state_->FinishEvents(now_us) : state_->FinishWhole(now_us);
}

Step GatewayExchange::OnFailure(UpstreamFailure failure, int64_t now_us) {
  if (state_->phase == ExchangePhase::kNew || state_->phase == ExchangePhase::kOver) return {};
  return state_->OnFailure(failure, now_us);
}

void GatewayExchange::OnClientGone(int64_t now_us) {
  if (state_->phase == ExchangePhase::kNew || state_->phase == ExchangePhase::kOver) return;
  state_->PutEnd(false, true, now_us);
  state_->End(ExchangeEnd::kLeft, now_us);
}

bool GatewayExchange::streaming() const { return state_->events; }
const std::string& GatewayExchange::request_id() const { return state_->id; }
std::optional<size_t> GatewayExchange::kernel() const { return state_->kernel; }

Step GatewayExchange::State::OnFailure(UpstreamFailure failure, int64_t now) {
  const TryFailure what = Describe(failure);
  if (phase != ExchangePhase::kPassing) return TryNext(what, now);
  if (events && (done || error_event)) return FinishEvents(now);  // all was said before
  if (events) return CutStream(what.reason, now);
  // Part of a whole answer is with the client: only the connection's end can say that it is torn.
  PutEnd(true, false, now);
  End(ExchangeEnd::kCut, now);
  Step step;
  step.kind = StepKind::kCut;
  return step;
}

// Nothing was said to the client: another kernel takes the request over.
Step GatewayExchange::State::TryNext(const TryFailure& failure, int64_t now) {
  Count(counts().failed);
  PutFailure(failure, now);
  ++failures;
  held.clear();
  kept_headers.clear();
  tap.reset();
  status = 0;
  events = content = done = error_event = garbage = stranger = dropped_last = false;
  error_status = 0;
  first_us = 0;
  fingerprint.clear();
  search = {};
  by_canary = false;
  sampling_refused = false;
  const std::optional<size_t> next =
      retries < pool->retries_max ? NextKernel() : std::optional<size_t>();
  if (!next) return Refuse(NoAnswer(failure, retry_after), now);
  ++retries;
  Count(worker.counts().retried);
  sent_us = now;
  return Send(*next);
}

Step GatewayExchange::State::Refuse(GatewayAnswer refusal, int64_t now) {
  AddHeader("x-request-id", id, &refusal.headers);
  AddHeader("x-kcc-contract", pool->contract_digest, &refusal.headers);
  AddHeader("x-kcc-stage", pool->stage, &refusal.headers);
  Count(worker.counts().bytes_out, refusal.body.size());
  End(refusal.status < 400 ? ExchangeEnd::kOwn : ExchangeEnd::kRefused, now);
  Step step;
  step.kind = StepKind::kAnswer;
  step.answer = std::move(refusal);
  return step;
}

// After content only the stream itself can say what happened. What is torn of the last event is not
// passed on; an event that was too long to be held is ended first.
Step GatewayExchange::State::CutStream(std::string_view reason, int64_t now) {
  const bool between = !tap || tap->between_events();
  said = (between ? "" : "\n\n") +
         ErrorEvent(502, "the kernel's answer broke off: " + std::string(reason), "answer_cut");
  Step step = Pass(StepKind::kDone, said);
  PutEnd(true, false, now);
  End(ExchangeEnd::kCut, now);
  return step;
}

void GatewayExchange::State::End(ExchangeEnd end, int64_t now) {
  WorkerCounts& all = worker.counts();
  phase = ExchangePhase::kOver;
  Lower(all.under_way);
  switch (end) {
    case ExchangeEnd::kAnswered:
      Count(counts().answered);
      CountTime(now - started_us, all.whole, all.whole_us);
      break;
    case ExchangeEnd::kCut:
      Count(counts().cut);
      break;
    case ExchangeEnd::kOwn:
      Count(all.own);
      break;
    case ExchangeEnd::kRefused:
      Count(all.refused);
      break;
    case ExchangeEnd::kLeft:
      Count(all.left);
      break;
  }
}

}  // namespace kcc
