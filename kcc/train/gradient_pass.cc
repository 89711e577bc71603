#include "kcc/train/gradient_pass.h"

#include "kcc/base/check.h"
#include "kcc/lab/taped_forward.h"
#include "kcc/train/backward.h"
#include "kcc/train/log_probs.h"

namespace kcc {

struct GradientPass::State {
  State(const LabSwitches& with, LabModel made, ForkJoin& threads, Target target)
      : switches(with),
        model(std::move(made)),
        forward(model, switches, threads, target),
        log_probs(model.config.vocab, threads, target),
        backward(model.config, threads, target) {}

  LabSwitches switches;
  LabModel model;
  TapedForward forward;
  LogProbs log_probs;
  BackwardPass backward;
  bool backward_knows_model = false;
  Tape tape;
  // Rows with logits are in the order of the tape, where those of a kernel variant come last;
  // log-probs are handed out sequence by sequence. place[i] is where the log-prob of the tape's row
  // i goes.
  std::vector<size_t> place;
  std::vector<size_t> row_at;   // the other way round
  std::vector<int32_t> tokens;  // by row
  std::vector<float> by_place;
  std::vector<float> slopes, logit_gradients;
};

GradientPass::GradientPass(std::unique_ptr<State> state) : state_(std::move(state)) {}
GradientPass::~GradientPass() = default;

Result<std::unique_ptr<GradientPass>> GradientPass::Make(const Checkpoint& checkpoint,
                                                         const LabSwitches& switches,
                                                         ForkJoin& pool, Target target) {
  KCC_TRY_VOID(CheckSwitches(switches));
  KCC_TRY(LabModel model, LabModel::Make(checkpoint, switches));
  return std::unique_ptr<GradientPass>(
      new GradientPass(std::make_unique<State>(switches, std::move(model), pool, target)));
}

void GradientPass::SetWeights(const ModelWeights& weights) {
  state_->model.SetWeights(weights, state_->switches);
  state_->backward_knows_model = false;
}

Result<> GradientPass::Forward(std::span<const PackedSequence> batch) {
  State& s = *state_;
  std::vector<TapedSequence> sequences;
  std::vector<size_t> first_place;
  size_t wanted = 0;
  for (const PackedSequence& sequence : batch) {
    KCC_CHECK(sequence.first >= 1 && sequence.first < sequence.tokens.size());
    // The last token predicts nothing that is wanted.
    const size_t computed = sequence.tokens.size() - 1;
    sequences.push_back({sequence.id, sequence.tokens.first(computed), sequence.first - 1});
    if (!sequence.rope_positions.empty()) {
      KCC_CHECK(sequence.rope_positions.size() == sequence.tokens.size());
      sequences.back().rope_positions = sequence.rope_positions.first(computed);
    }
    first_place.push_back(wanted);
    wanted += sequence.tokens.size() - sequence.first;
  }
  KCC_TRY_VOID(s.forward.Run(sequences, &s.tape));
  s.place.clear();
  s.tokens.clear();
  for (const size_t r : s.tape.head_rows) {
    const TapeRow& row = s.tape.rows[r];
    const PackedSequence& sequence = batch[row.request];
    s.place.push_back(first_place[row.request] + row.position + 1 - sequence.first);
    s.tokens.push_back(sequence.tokens[row.position + 1]);
  }
  KCC_CHECK(s.place.size() == wanted);
  const std::vector<float> by_row = s.log_probs.Of(s.tape, s.tokens);
  s.by_place.resize(wanted);
  s.row_at.resize(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    s.by_place[s.place[i]] = by_row[i];
    s.row_at[s.place[i]] = i;
  }
  return {};
}

std::span<const float> GradientPass::log_probs() const { return state_->by_place; }

std::span<const float> GradientPass::LogitsOf(size_t i) const {
  const size_t vocab = state_->model.config.vocab;
  return std::span(state_->tape.logits).subspan(state_->row_at[i] * vocab, vocab);
}

std::span<const float> GradientPass::HiddenOf(size_t i) const {
  const size_t hidden = state_->model.config.hidden;
  return std::span(state_->tape.head_input).subspan(state_->row_at[i] * hidden, hidden);
}

void GradientPass::Backward(std::span<const float> slopes, ModelWeights* gradients) {
  State& s = *state_;
  KCC_CHECK(slopes.size() == s.place.size());
  if (!s.backward_knows_model) s.backward.SetModel(s.model);
  s.backward_knows_model = true;
  s.slopes.resize(slopes.size());
  for (size_t i = 0; i < slopes.size(); ++i) s.slopes[i] = slopes[s.place[i]];
  s.log_probs.Gradient(s.tape, s.tokens, s.slopes, s.backward.logit_stride(), &s.logit_gradients);
  s.backward.Run(s.model, s.tape, s.logit_gradients, gradients);
}

}  // namespace kcc
