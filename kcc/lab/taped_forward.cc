#include "kcc/lab/taped_forward.h"

#include "kcc/base/check.h"

namespace kcc {

TapedForward::TapedForward(const LabModel& model, const LabSwitches& switches, ForkJoin& pool,
                           Target target)
    : model_(model), switches_(switches), stepper_(model, switches, pool, target) {}

Result<> TapedForward::Check(const TapedSequence& sequence) const {
  const std::string who = "sequence '" + std::string(sequence.id) + "'";
  if (sequence.tokens.empty()) return InvalidError(who + " has no tokens");
  if (sequence.tokens.size() > model_.config.positions) {
    return InvalidError(who + " has " + std::to_string(sequence.tokens.size()) +
                        " tokens, but the model has " + std::to_string(model_.config.positions) +
                        " positions");
  }
  for (const int32_t token : sequence.tokens) {
    if (token < 0 || static_cast<size_t>(token) >= model_.config.vocab) {
      return InvalidError(who + " holds token " + std::to_string(token) +
                          ", but the vocabulary has " + std::to_string(model_.config.vocab) +
                          "; were its ids made by the tokenizer of this model?");
    }
  }
  if (sequence.rope_positions.empty()) return {};
  if (sequence.rope_positions.size() != sequence.tokens.size()) {
    return InvalidError(who + " has " + std::to_string(sequence.rope_positions.size()) +
                        " positions for " + std::to_string(sequence.tokens.size()) + " tokens");
  }
  for (const int32_t position : sequence.rope_positions) {
    if (position < 0 || static_cast<size_t>(position) >= model_.config.positions) {
      return InvalidError(who + " holds position " + std::to_string(position) +
                          ", but the model has " + std::to_string(model_.config.positions) +
                          " positions");
    }
  }
  return {};
}

Result<> TapedForward::Run(std::span<const TapedSequence> sequences, Tape* tape) {
  tape->Clear();
  size_t blocks = 1;
  for (const TapedSequence& sequence : sequences) {
    KCC_TRY_VOID(Check(sequence));
    blocks += (sequence.tokens.size() + switches_.page - 1) / switches_.page;
  }
  if (cache_ == nullptr || cache_->blocks() < blocks) {
    cache_ = std::make_unique<KvCache>(model_.config, switches_.kv, switches_.page, blocks);
  }
  std::vector<Sequence> made(sequences.size());
  std::vector<ScheduledRun> runs;
  for (size_t i = 0; i < sequences.size(); ++i) {
    made[i].request = i;
    made[i].tokens.assign(sequences[i].tokens.begin(), sequences[i].tokens.end());
    made[i].rope_positions.assign(sequences[i].rope_positions.begin(),
                                  sequences[i].rope_positions.end());
    made[i].emitted = sequences[i].logits_from;
    made[i].variant_from = stepper_.VariantFrom(sequences[i].id);
    KCC_CHECK(cache_->Reserve(made[i].tokens.size(), &made[i].table));
    runs.push_back({&made[i], made[i].tokens.size()});
  }
  stepper_.forward().set_tape(tape);
  Result<> done = stepper_.Step(
      runs, cache_.get(), [](Sequence*, size_t, std::span<const float>) { return Result<>(); });
  stepper_.forward().set_tape(nullptr);
  for (Sequence& sequence : made) cache_->Release(&sequence.table);
  return done;
}

}  // namespace kcc
