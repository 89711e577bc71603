#include "kcc/serve/exchange.h"

#include <algorithm>
#include <utility>

namespace kcc {

Exchange::Exchange(const ExchangeContext& context, AnswerHead head, GenerationRequest request,
                   FaultPlan faults, std::shared_ptr<ReplySink> sink)
    : context_(context),
      head_(std::move(head)),
      request_(std::move(request)),
      faults_(std::move(faults)),
      sink_(std::move(sink)),
      writer_(head_, request_, *context.model),
      began_s_(context.clock->MonotonicSeconds()),
      left_(request_.choices()) {
  choices_.reserve(left_);
  for (size_t i = 0; i < left_; ++i) choices_.emplace_back(request_);
  ++*context_.open;
  for (const std::vector<int32_t>& prompt : request_.prompts) {
    context_.metrics->OnPrompt(prompt.size());
  }
}

// Where choices are left, the client went away or the server ends.
Exchange::~Exchange() {
  const double seconds = context_.clock->MonotonicSeconds() - began_s_;
  for (size_t i = 0; i < left_; ++i) {
    context_.metrics->OnEnd(failed_ ? "error" : "abort", seconds);
  }
  --*context_.open;
}

const std::vector<int32_t>& Exchange::PromptOf(size_t index) const {
  return request_.prompts[index / static_cast<size_t>(request_.n)];
}

std::vector<SequenceAsk> Exchange::Asks(uint64_t seed) const {
  std::vector<SequenceAsk> asks;
  const uint64_t base = request_.seed.value_or(seed);
  for (size_t i = 0; i < choices_.size(); ++i) {
    SequenceAsk ask;
    ask.id = head_.id;
    ask.prompt = PromptOf(i);
    ask.forced = request_.forced;
    ask.sampling = request_.sampling;
    // The first choice of a prompt draws from the seed itself, as a request of its own would.
    ask.seed = base + i % static_cast<size_t>(request_.n);
    ask.output_tokens_max = request_.output_tokens_max;
    ask.output_tokens_min = request_.output_tokens_min;
    ask.end = request_.stop_ids;
    if (!request_.ignore_eos) {
      ask.end.insert(ask.end.end(), context_.model->eos.begin(), context_.model->eos.end());
    }
    ask.bias = request_.bias;
    ask.top = request_.top;
    ask.prompt_top = request_.prompt_top;
    ask.change = faults_.change;
    asks.push_back(std::move(ask));
  }
  return asks;
}

void Exchange::OnPrompt(size_t index, std::vector<TokenRecord> records) {
  choices_[index].prompt_records = std::move(records);
}

// The first chunk of a choice: the role, the prompt's ids, and the prompt itself if it is echoed.
void Exchange::Begin(size_t index) {
  Choice& choice = choices_[index];
  if (std::exchange(choice.begun, true)) return;
  AnswerChoice chunk{.index = index, .first = true};
  chunk.prompt = &PromptOf(index);
  chunk.prompt_records = request_.prompt_top ? &choice.prompt_records : nullptr;
  if (request_.echo && context_.model->tokenizer) {
    chunk.text = context_.model->tokenizer->Decode(PromptOf(index), request_.skip_special);
    for (const int32_t token : PromptOf(index)) {
      choice.text_offset += CountCharacters(writer_.TokenText(token));
    }
  }
  if (request_.kind == ApiKind::kChat || request_.echo || request_.token_ids) SendChunk(chunk);
}

bool Exchange::OnToken(size_t index, TokenRecord record) {
  Choice& choice = choices_[index];
  const double now_s = context_.clock->MonotonicSeconds();
  if (choice.tokens++ == 0) {
    context_.metrics->OnFirstToken(now_s - began_s_);
  } else {
    context_.metrics->OnNextToken(now_s - choice.last_s);
  }
  choice.last_s = now_s;
  const std::string_view bytes = context_.model->Bytes(record.token, request_.skip_special);
  std::string text = choice.stop.Push(choice.utf8.Push(bytes));
  if (!request_.stream) {
    choice.text += text;
    choice.records.push_back(std::move(record));
    return !choice.stop.found();
  }
  Begin(index);
  AnswerChoice chunk{.index = index, .text = std::move(text), .text_offset = choice.text_offset};
  choice.text_offset += CountCharacters(writer_.TokenText(record.token));
  chunk.records.push_back(std::move(record));
  SendChunk(chunk);
  return !choice.stop.found();
}

void Exchange::OnEnd(size_t index, FinishReason reason, std::optional<int32_t> end) {
  Choice& choice = choices_[index];
  choice.finish = reason;
  if (choice.stop.found()) {
    choice.finish = FinishReason::kStop;
    choice.stop_reason = *choice.stop.found();
  } else if (end && std::find(request_.stop_ids.begin(), request_.stop_ids.end(), *end) !=
                        request_.stop_ids.end()) {
    choice.stop_reason = *end;
  }
  std::string rest = choice.stop.Push(choice.utf8.Finish());
  rest += choice.stop.Finish();
  context_.metrics->OnEnd(choice.finish == FinishReason::kStop ? "stop" : "length",
                          context_.clock->MonotonicSeconds() - began_s_);
  --left_;
  if (request_.stream) {
    Begin(index);
    AnswerChoice chunk{.index = index, .text = std::move(rest)};
    chunk.finish = choice.finish;
    chunk.stop = choice.stop_reason;
    SendChunk(chunk);
  } else {
    choice.text += rest;
  }
  if (left_ == 0) FinishAll();
}

void Exchange::OnFailure(const std::string& message) {
  failed_ = true;
  const ApiError error{500, message, "", ""};
  if (!request_.stream) return sink_->Answer(HttpAnswer::Of(error), 0);
  // A stream that has begun can only say so inside.
  SendEvent(error.Json());
  sink_->Finish();
}

void Exchange::SendChunk(const AnswerChoice& chunk) { SendEvent(writer_.Chunk(chunk)); }

void Exchange::SendEvent(std::string data) {
  if (cut_) return;
  if (faults_.cut_after && events_ == *faults_.cut_after) {
    cut_ = true;
    return sink_->Cut(0);
  }
  int wait_ms = events_ == 0 ? faults_.latency_ms : 0;
  if (faults_.stall_after && events_ == *faults_.stall_after) wait_ms += faults_.stall_ms;
  ++events_;
  sink_->Event(std::move(data), wait_ms);
}

AnswerUsage Exchange::Usage() const {
  AnswerUsage usage;
  for (const std::vector<int32_t>& prompt : request_.prompts) usage.prompt_tokens += prompt.size();
  for (const Choice& choice : choices_) usage.output_tokens += choice.tokens;
  return usage;
}

void Exchange::FinishAll() {
  if (request_.stream) {
    if (request_.usage_in_stream) SendEvent(writer_.UsageChunk(Usage()));
    SendEvent("[DONE]");
    if (!cut_) sink_->Finish();
    return;
  }
  std::vector<AnswerChoice> all;
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    AnswerChoice made{.index = i};
    made.prompt = &PromptOf(i);
    made.prompt_records = &choice.prompt_records;
    if (request_.echo && context_.model->tokenizer) {
      made.text = context_.model->tokenizer->Decode(PromptOf(i), request_.skip_special);
    }
    made.text += choice.text;
    made.records = std::move(choice.records);
    made.finish = choice.finish;
    made.stop = choice.stop_reason;
    all.push_back(std::move(made));
  }
  const int wait_ms = faults_.latency_ms + (faults_.stall_after ? faults_.stall_ms : 0);
  if (faults_.cut_after) return sink_->Cut(wait_ms);
  sink_->Answer({200, writer_.Whole(all, Usage())}, wait_ms);
}

}  // namespace kcc
