#include "kcc/lab/stepper.h"

#include <algorithm>

#include "kcc/kernel/exec_protocol.h"

namespace kcc {

Stepper::Stepper(const LabModel& model, const LabSwitches& switches, ForkJoin& pool, Target target)
    : model_(model), switches_(switches), forward_(model, switches, pool, target) {}

size_t Stepper::VariantFrom(std::string_view request_id) const {
  if (switches_.route.kind == RouteKind::kShape) return switches_.route.n;
  if (switches_.route.kind == RouteKind::kReplica) {
    return RequestSeed(0, request_id) % switches_.route.n % 2 == 1 ? 0 : kNoVariant;
  }
  return kNoVariant;
}

// The only place where a step's size reaches the arithmetic. With batch=invariant it returns the
// same for every size.
StepChoice Stepper::ChoiceFor(size_t step_tokens, bool variant) const {
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

// Tokens that take the other kernel variant are computed apart; within a sequence they follow the
// rest, so that its keys are there.
Result<> Stepper::Step(std::span<const ScheduledRun> runs, KvCache* cache, const RowSink& sink) {
  size_t step_tokens = 0;
  std::vector<ScheduledRun> declared;
  std::vector<ScheduledRun> variant;
  for (const ScheduledRun& run : runs) {
    step_tokens += run.tokens;
    const size_t from = run.sequence->variant_from;
    const size_t begin = run.sequence->computed;
    const size_t first = from <= begin ? 0 : std::min(run.tokens, from - begin);
    if (first > 0) declared.push_back({run.sequence, first});
    if (first < run.tokens) variant.push_back({run.sequence, run.tokens - first});
  }
  KCC_TRY_VOID(Compute(declared, ChoiceFor(step_tokens, false), cache, sink));
  return Compute(variant, ChoiceFor(step_tokens, true), cache, sink);
}

Result<> Stepper::Compute(std::span<const ScheduledRun> runs, const StepChoice& choice,
                          KvCache* cache, const RowSink& sink) {
  if (runs.empty()) return {};
  std::vector<StepRun> step;
  std::vector<size_t> logits_from;
  for (const ScheduledRun& run : runs) {
    Sequence& sequence = *run.sequence;
    const size_t end = sequence.computed + run.tokens;
    // Nothing wants a row twice.
    const size_t from = std::min(std::max(sequence.emitted, sequence.computed), end);
    logits_from.push_back(from);
    // Grown here, before threads write into it.
    AuditTrail* trail = sequence.audit;
    if (trail != nullptr) trail->Grow(sequence.tokens.size());
    StepRun made;
    made.request = sequence.request;
    made.tokens = std::span(sequence.tokens).subspan(sequence.computed, run.tokens);
    made.first_position = sequence.computed;
    made.table = &sequence.table;
    made.logits_from = from - sequence.computed;
    if (!sequence.rope_positions.empty()) {
      made.rope_positions =
          std::span(sequence.rope_positions).subspan(sequence.computed, run.tokens);
    }
    if (trail != nullptr && trail->level() != AuditLevel::kOff) made.audit = trail;
    step.push_back(made);
  }
  const std::span<const float> logits = forward_.Run(step, choice, cache);
  const size_t vocab = model_.config.vocab;
  size_t row = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    Sequence& sequence = *runs[i].sequence;
    const size_t end = sequence.computed + runs[i].tokens;
    sequence.computed = end;
    for (size_t at = logits_from[i]; at < end; ++at, ++row) {
      KCC_TRY_VOID(sink(&sequence, at + 1, logits.subspan(row * vocab, vocab)));
    }
    sequence.emitted = std::max(sequence.emitted, end);
  }
  return {};
}

}  // namespace kcc
