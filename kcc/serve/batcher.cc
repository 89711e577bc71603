#include "kcc/serve/batcher.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/serve/token_numbers.h"

namespace kcc {
namespace {

// What tells two engines apart: every switch, and so more than the fingerprint has.
std::string TextOf(const LabSwitches& switches) {
  std::string text;
  for (const auto& [name, value] : SwitchTexts(switches)) text += name + "=" + value + "&";
  return text;
}

}  // namespace

struct Batcher::LiveSequence : Sequence {
  SequenceAsk ask;
  Job* job = nullptr;
  size_t index = 0;  // in the job
  std::vector<TokenRecord> prompt_records;
  bool prompt_given = false;
  size_t outputs = 0;
  bool ended = false;
};

struct Batcher::Job {
  uint64_t ticket = 0;
  size_t engine = 0;
  std::vector<SequenceAsk> asks;  // until it is admitted
  std::unique_ptr<SequenceListener> listener;
  std::vector<std::unique_ptr<LiveSequence>> sequences;
  size_t left = 0;  // sequences that have not ended
};

Batcher::Batcher(const Checkpoint& checkpoint, size_t threads)
    : checkpoint_(checkpoint), pool_(threads) {}

Result<std::unique_ptr<Batcher>> Batcher::Open(const Checkpoint& checkpoint,
                                               const LabSwitches& switches, size_t cache_tokens) {
  std::unique_ptr<Batcher> made(new Batcher(checkpoint, switches.threads));
  KCC_TRY_VOID(made->AddEngine(switches, cache_tokens));
  made->served_ = made->engines_[0].get();
  made->slots_.reserve(kEnginesMax);  // where the thread takes them up nothing may throw
  try {
    made->thread_ = std::thread([batcher = made.get()] { batcher->Work(); });
  } catch (const std::system_error& fault) {
    return IoError("the engine's thread cannot be started: " + std::string(fault.what()) +
                   "; end other programs, or raise the limit of processes (ulimit -u)");
  }
  return made;
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Result<> Batcher::AddEngine(const LabSwitches& switches, size_t cache_tokens) {
  KCC_TRY_VOID(CheckSwitches(switches));
  KCC_TRY(LabModel model, LabModel::Make(checkpoint_, switches));
  auto slot = std::make_unique<EngineSlot>(std::move(model), switches, cache_tokens, pool_);
  std::string text = TextOf(switches);
  const std::lock_guard lock(mutex_);
  // Both or none: the place of one is that of the other.
  engine_switches_.reserve(engines_.size() + 1);
  engines_.push_back(std::move(slot));
  engine_switches_.push_back(std::move(text));
  return {};
}

Result<size_t> Batcher::EngineFor(const LabSwitches& switches) {
  size_t capacity = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find(engine_switches_.begin(), engine_switches_.end(), TextOf(switches));
    if (found != engine_switches_.end()) {
      return static_cast<size_t>(found - engine_switches_.begin());
    }
    if (engines_.size() == kEnginesMax) {
      return InvalidError("there are " + std::to_string(kEnginesMax - 1) +
                          " sets of switches already; start the server again for others");
    }
    capacity = served_->live.capacity_tokens();
  }
  KCC_TRY_VOID(AddEngine(switches, capacity));
  const std::lock_guard lock(mutex_);
  return engines_.size() - 1;
}

uint64_t Batcher::Submit(size_t engine, std::vector<SequenceAsk> asks,
                         std::unique_ptr<SequenceListener> listener) {
  auto job = std::make_unique<Job>();
  job->engine = engine;
  job->asks = std::move(asks);
  job->listener = std::move(listener);
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = job->ticket = ++tickets_;
    state_.waiting += job->asks.size();
    inbox_.push_back(std::move(job));
  }
  wake_.notify_one();
  return ticket;
}

void Batcher::Cancel(uint64_t ticket) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(ticket);
  }
  wake_.notify_one();
}

BatcherState Batcher::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

// Whatever came in since the last step is taken up before the next one: a request joins those that
// run, and one that was cancelled leaves them. Jobs are taken up before cancellations, so that a
// cancelled job is always found, or has ended.
void Batcher::Work() {
  while (true) {
    std::vector<std::unique_ptr<Job>> fresh;
    std::vector<uint64_t> cancelled;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock,
                 [&] { return stop_ || !inbox_.empty() || !cancelled_.empty() || !jobs_.empty(); });
      if (stop_) return;
      fresh.swap(inbox_);
      cancelled.swap(cancelled_);
      while (slots_.size() < engines_.size()) slots_.push_back(engines_[slots_.size()].get());
    }
    try {
      for (std::unique_ptr<Job>& job : fresh) jobs_.push_back(std::move(job));
      for (const std::unique_ptr<Job>& job : jobs_) Admit(job.get());
      for (const uint64_t ticket : cancelled) Drop(ticket);
      StepAll();
    } catch (const std::bad_alloc&) {
      FailEverything();
    }
    Sweep();
    Publish();
  }
}

// There was no memory for a step. What it had begun is given up, and the server goes on.
void Batcher::FailEverything() {
  for (const std::unique_ptr<Job>& job : jobs_) {
    if (job->left == 0 && job->asks.empty()) continue;  // it has said its last
    try {
      job->listener->OnFailure("out of memory");
    } catch (const std::bad_alloc&) {  // then the connection ends without a word
    }
  }
  for (EngineSlot* slot : slots_) {
    for (LiveSequence* sequence : slot->sequences) slot->live.Remove(sequence);
    slot->sequences.clear();
  }
  jobs_.clear();
}

// A sequence of which nothing must be computed (a prompt of one token with echo) ends at once.
void Batcher::Admit(Job* job) {
  if (job->asks.empty()) return;  // it was
  EngineSlot& slot = *slots_[job->engine];
  job->left = job->asks.size();
  for (size_t i = 0; i < job->asks.size(); ++i) {
    job->sequences.push_back(std::make_unique<LiveSequence>());
    LiveSequence& sequence = *job->sequences.back();
    sequence.ask = std::move(job->asks[i]);
    sequence.job = job;
    sequence.index = i;
    const SequenceAsk& ask = sequence.ask;
    sequence.tokens = ask.prompt;
    sequence.tokens.insert(sequence.tokens.end(), ask.forced.begin(), ask.forced.end());
    sequence.prompt = ask.prompt.size();
    sequence.one_by_one = true;
    sequence.open_ended = ask.forced.empty() && ask.output_tokens_max > 0;
    // The last of the given tokens predicts nothing that is wanted.
    if (!sequence.open_ended) sequence.tokens.pop_back();
    sequence.emitted = ask.prompt_top ? 0 : std::min(ask.prompt.size() - 1, sequence.tokens.size());
    const bool nothing = !sequence.open_ended && sequence.emitted == sequence.tokens.size();
    if (nothing) {
      End(&sequence, FinishReason::kLength, std::nullopt);
    } else {
      slot.sequences.push_back(&sequence);
      slot.live.Add(sequence.ask.id, &sequence);
    }
  }
  job->asks.clear();
}

void Batcher::Drop(uint64_t ticket) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const auto& job) { return job->ticket == ticket; });
  if (found == jobs_.end()) return;  // it has ended
  EngineSlot& slot = *slots_[(*found)->engine];
  for (const std::unique_ptr<LiveSequence>& sequence : (*found)->sequences) {
    if (sequence->ended) continue;
    slot.live.Remove(sequence.get());
    std::erase(slot.sequences, sequence.get());
  }
  jobs_.erase(found);
}

void Batcher::StepAll() {
  for (EngineSlot* slot : slots_) {
    if (!slot->live.idle()) Step(slot);
  }
}

void Batcher::Step(EngineSlot* slot) {
  const Result<> done =
      slot->live.Step([&](Sequence* sequence, size_t position, std::span<const float> logits) {
        return OnRow(static_cast<LiveSequence*>(sequence), position, logits);
      });
  if (!done.has_value()) return FailAll(slot, done.error());
  // The engine has let go of what is done. Of a sequence whose prompt alone was wanted, that shows
  // here.
  for (LiveSequence* sequence : slot->sequences) {
    if (sequence->done() && !sequence->ended) {
      End(sequence, FinishReason::kLength, std::nullopt);
    }
  }
  std::erase_if(slot->sequences, [](const LiveSequence* sequence) { return sequence->ended; });
}

Result<> Batcher::OnRow(LiveSequence* sequence, size_t position, std::span<const float> logits) {
  const SequenceAsk& ask = sequence->ask;
  if (!ask.change.none()) {
    ChangeLogits(logits, ask.change, position, &changed_);
    logits = changed_;
  }
  const size_t prompt = ask.prompt.size();
  if (position < prompt) {
    sequence->prompt_records.push_back(RecordOf(logits, ask.prompt[position], ask.prompt_top));
    return {};
  }
  const int32_t token = ask.forced.empty() ? ChooseToken(logits, ask, position, sequence->outputs)
                                           : ask.forced[position - prompt];
  GiveToken(sequence, RecordOf(logits, token, ask.top));
  return {};
}

// Invariant: a sequence that is open-ended has exactly one token that is not computed, the last.
void Batcher::GiveToken(LiveSequence* sequence, TokenRecord record) {
  const SequenceAsk& ask = sequence->ask;
  const int32_t token = record.token;
  SequenceListener& listener = *sequence->job->listener;
  if (ask.prompt_top && !sequence->prompt_given) {
    sequence->prompt_given = true;
    listener.OnPrompt(sequence->index, std::move(sequence->prompt_records));
  }
  const bool more = listener.OnToken(sequence->index, std::move(record));
  ++sequence->outputs;
  const bool ends = std::find(ask.end.begin(), ask.end.end(), token) != ask.end.end();
  if (ends) return End(sequence, FinishReason::kStop, token);
  if (!more) return End(sequence, FinishReason::kStop, std::nullopt);
  if (sequence->outputs == static_cast<size_t>(ask.output_tokens_max)) {
    return End(sequence, FinishReason::kLength, std::nullopt);
  }
  if (sequence->open_ended) sequence->tokens.push_back(token);
}

void Batcher::End(LiveSequence* sequence, FinishReason reason, std::optional<int32_t> end) {
  SequenceListener& listener = *sequence->job->listener;
  if (sequence->ask.prompt_top && !sequence->prompt_given) {
    sequence->prompt_given = true;
    listener.OnPrompt(sequence->index, std::move(sequence->prompt_records));
  }
  // Nothing is left to compute, so that the engine lets go of it.
  sequence->open_ended = false;
  sequence->tokens.resize(std::min(sequence->tokens.size(), sequence->computed));
  sequence->ended = true;
  --sequence->job->left;
  listener.OnEnd(sequence->index, reason, end);
}

// What the scheduler refuses was let in by mistake of ours; the other requests must not hang.
void Batcher::FailAll(EngineSlot* slot, const Error& error) {
  std::vector<uint64_t> tickets;
  for (const LiveSequence* sequence : slot->sequences) {
    const uint64_t ticket = sequence->job->ticket;
    if (std::find(tickets.begin(), tickets.end(), ticket) != tickets.end()) continue;
    tickets.push_back(ticket);
    sequence->job->listener->OnFailure(error.message());
  }
  for (const uint64_t ticket : tickets) Drop(ticket);
}

void Batcher::Sweep() {
  std::erase_if(jobs_, [](const std::unique_ptr<Job>& job) { return job->left == 0; });
}

void Batcher::Publish() {
  BatcherState now;
  for (const EngineSlot* slot : slots_) {
    now.running += slot->live.running();
    now.waiting += slot->live.waiting();
    now.preemptions += slot->live.preemptions();
  }
  now.cache_usage = served_->live.cache_usage();
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Job>& job : inbox_) now.waiting += job->asks.size();
  state_ = now;
}

}  // namespace kcc
