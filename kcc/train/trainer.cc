#include "kcc/train/trainer.h"

#include <algorithm>
#include <cmath>

namespace kcc {

namespace {

// All of them before the first step: a mistake in the last one must not cost a run.
Result<> CheckExamples(const ModelConfig& config, std::span<const TrainExample> examples) {
  for (const TrainExample& example : examples) {
    const std::string who = "example '" + example.id + "'";
    if (example.tokens.size() > config.positions) {
      return InvalidError(who + " has " + std::to_string(example.tokens.size()) +
                          " tokens, but the model has " + std::to_string(config.positions) +
                          " positions");
    }
    for (const int32_t token : example.tokens) {
      if (token < 0 || static_cast<size_t>(token) >= config.vocab) {
        return InvalidError(who + " holds token " + std::to_string(token) +
                            ", but the vocabulary has " + std::to_string(config.vocab) +
                            "; were its ids made by the tokenizer of this model?");
      }
    }
    for (const int32_t position : example.positions) {
      if (position < 0 || static_cast<size_t>(position) >= config.positions) {
        return InvalidError(who + " holds position " + std::to_string(position) +
                            ", but the model has " + std::to_string(config.positions) +
                            " positions");
      }
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Make(const Checkpoint& checkpoint,
                                               const TrainOptions& options,
                                               std::span<const TrainExample> examples,
                                               ForkJoin& pool, Target target) {
  KCC_TRY_VOID(CheckExamples(checkpoint.config, examples));
  KCC_TRY(std::unique_ptr<GradientPass> pass,
          GradientPass::Make(checkpoint, options.kernel, pool, target));
  return std::unique_ptr<Trainer>(
      new Trainer(checkpoint, options, examples, pool, std::move(pass)));
}

Trainer::Trainer(const Checkpoint& checkpoint, const TrainOptions& options,
                 std::span<const TrainExample> examples, ForkJoin& pool,
                 std::unique_ptr<GradientPass> pass)
    : config_(checkpoint.config),
      options_(options),
      examples_(examples),
      pool_(pool),
      pass_(std::move(pass)),
      order_(examples, options.seed),
      gradients_(ZeroWeights(config_)) {
  state_.weights = checkpoint;  // the weights alone
  state_.moments = {ZeroWeights(config_), ZeroWeights(config_)};
}

Result<> Trainer::Resume(TrainState state) {
  if (state.position.index > static_cast<int64_t>(examples_.size())) {
    return BrokenEvidenceError("the state stands at example " +
                               std::to_string(state.position.index) + " of " +
                               std::to_string(examples_.size()));
  }
  state_ = std::move(state);
  order_ = ExampleOrder(examples_, options_.seed, state_.position);
  pass_->SetWeights(state_.weights);
  return {};
}

// A prompt without weight needs no logits.
size_t Trainer::FirstOf(const TrainExample& example) const {
  return options_.prompt_weight > 0 ? 1 : example.prompt;
}

double Trainer::WeightOf(const TrainExample& example) const {
  return options_.prompt_weight * static_cast<double>(example.prompt - 1) +
         static_cast<double>(example.tokens.size() - example.prompt);
}

// Adds the gradient of the pack's part of the loss, which is returned.
Result<double> Trainer::AddPack(std::span<const TrainExample* const> pack, double total_weight) {
  std::vector<PackedSequence> sequences;
  std::vector<float> slopes;
  for (const TrainExample* example : pack) {
    const size_t first = FirstOf(*example);
    sequences.push_back({example->id, example->tokens, first, example->positions});
    for (size_t t = first; t < example->tokens.size(); ++t) {
      const double weight = t < example->prompt ? options_.prompt_weight : 1.0;
      slopes.push_back(static_cast<float>(-weight / total_weight));
    }
  }
  KCC_TRY_VOID(pass_->Forward(sequences));
  double loss = 0;
  const std::span<const float> log_probs = pass_->log_probs();
  for (size_t i = 0; i < slopes.size(); ++i) {
    loss += static_cast<double>(slopes[i]) * static_cast<double>(log_probs[i]);
  }
  if (std::isfinite(loss)) pass_->Backward(slopes, &gradients_);
  return loss;
}

Result<StepReport> Trainer::Step() {
  const std::vector<const TrainExample*> batch = order_.Batch(options_.batch_tokens);
  StepReport report;
  report.step = state_.step + 1;
  report.rate = RateAt(options_.schedule, report.step);
  report.examples = batch.size();
  double total_weight = 0;
  for (const TrainExample* example : batch) total_weight += WeightOf(*example);
  for (const ModelTensor& tensor : TensorsOf(config_, &gradients_)) {
    std::fill(tensor.values->begin(), tensor.values->end(), 0.0f);
  }
  for (size_t begin = 0; begin < batch.size();) {
    size_t end = begin;
    size_t tokens = 0;
    while (end < batch.size() &&
           (end == begin || tokens + batch[end]->tokens.size() <= options_.pack_tokens)) {
      tokens += batch[end++]->tokens.size();
    }
    KCC_TRY(const double loss, AddPack(std::span(batch).subspan(begin, end - begin), total_weight));
    report.loss += loss;
    report.tokens += tokens;
    begin = end;
  }
  report.gradient_length = GradientLength(config_, &gradients_, pool_);
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_length)) {
    order_ = ExampleOrder(examples_, options_.seed, state_.position);
    return BrokenEvidenceError("step " + std::to_string(report.step) + ": the " +
                               (std::isfinite(report.loss) ? "gradient" : "loss") +
                               " is not finite; a lower rate or a longer warmup may help");
  }
  AdamWStep(config_, options_.adamw, report.step, report.rate,
            ClipScale(report.gradient_length, options_.clip), &gradients_, pool_, &state_.weights,
            &state_.moments);
  pass_->SetWeights(state_.weights);
  state_.step = report.step;
  state_.position = order_.position();
  return report;
}

}  // namespace kcc
