#include "kcc/rltrain/rl_trainer.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc {
namespace {

// Answers that are computed at once: as many as have `tokens` tokens, and at least one.
std::vector<std::pair<size_t, size_t>> PacksOf(const ScoredTokens& scored, size_t pack_tokens) {
  std::vector<std::pair<size_t, size_t>> packs;
  for (size_t begin = 0; begin < scored.answers.size();) {
    size_t end = begin;
    size_t tokens = 0;
    while (end < scored.answers.size() &&
           (end == begin || tokens + scored.answers[end]->tokens.size() <= pack_tokens)) {
      tokens += scored.answers[end++]->tokens.size();
    }
    packs.emplace_back(begin, end);
    begin = end;
  }
  return packs;
}

std::vector<PackedSequence> SequencesOf(const ScoredTokens& scored,
                                        const std::pair<size_t, size_t>& pack) {
  std::vector<PackedSequence> sequences;
  for (size_t i = pack.first; i < pack.second; ++i) {
    const SampledAnswer& answer = *scored.answers[i];
    sequences.push_back({answer.id, answer.tokens, answer.prompt});
  }
  return sequences;
}

RlArray ArrayOf(const std::vector<float>& values) { return {values.data(), RlType::kF32, 0}; }

}  // namespace

Result<std::unique_ptr<RlTrainer>> RlTrainer::Make(const Checkpoint& checkpoint,
                                                   const RlTrainOptions& options,
                                                   const RlTask& task,
                                                   std::optional<Contract> contract, ForkJoin& pool,
                                                   Target target) {
  KCC_TRY_VOID(CheckRlOptions(options));
  if (options.held_out.every > 0 && task.held_out().empty()) {
    return InvalidError("no problem of task '" + task.name() +
                        "' is held out (one in sixteen is, by its prompt); --eval-every 0 does "
                        "without");
  }
  std::unique_ptr<RlTrainer> made(new RlTrainer(checkpoint, options, task, pool));
  KCC_TRY_VOID(made->MakeKernels(checkpoint, std::move(contract), target));
  return made;
}

RlTrainer::RlTrainer(const Checkpoint& checkpoint, const RlTrainOptions& options,
                     const RlTask& task, ForkJoin& pool)
    : config_(checkpoint.config),
      options_(options),
      task_(task),
      pool_(pool),
      state_(StartState(checkpoint.config, checkpoint, options)),
      gradients_(ZeroWeights(checkpoint.config)) {}

Result<> RlTrainer::MakeKernels(const Checkpoint& checkpoint, std::optional<Contract> contract,
                                Target target) {
  KCC_TRY(sampler_, Sampler::Make(checkpoint, options_.infer, task_));
  KCC_TRY(train_sampler_, Sampler::Make(checkpoint, options_.train, task_));
  train_fingerprint_ = train_sampler_->fingerprint();
  if (train_fingerprint_ == sampler_->fingerprint()) train_sampler_.reset();
  KCC_TRY(pass_, GradientPass::Make(checkpoint, options_.train, pool_, target));
  const bool recomputes = options_.recompute || options_.stale > 0;
  if (options_.old_policy == OldPolicy::kRecompute && recomputes) {
    KCC_TRY(recompute_, GradientPass::Make(checkpoint, options_.recompute.value_or(options_.train),
                                           pool_, target));
  }
  if (options_.reference_every > 0) {
    KCC_TRY(reference_, GradientPass::Make(checkpoint, options_.train, pool_, target));
  }
  if (contract) watch_.emplace(std::move(*contract), train_fingerprint_, infer_fingerprint());
  return {};
}

void RlTrainer::Resume(RlState state) {
  state_ = std::move(state);
  pass_->SetWeights(state_.weights);
}

const ModelWeights& RlTrainer::SamplingWeights() const {
  return state_.older.empty() ? state_.weights : state_.older.front();
}

std::vector<AskedProblem> RlTrainer::NextProblems() {
  next_ = state_.position;
  const std::span<const TaskProblem> all = task_.train();
  std::vector<size_t> order = EpochOrder(all.size(), options_.seed, next_.epoch);
  std::vector<AskedProblem> asked;
  asked.reserve(static_cast<size_t>(options_.problems * options_.group));
  for (int64_t i = 0; i < options_.problems; ++i) {
    if (next_.index >= static_cast<int64_t>(all.size())) {
      next_ = {next_.epoch + 1, 0};
      order = EpochOrder(all.size(), options_.seed, next_.epoch);
    }
    const TaskProblem& problem = all[order[static_cast<size_t>(next_.index++)]];
    for (int64_t k = 0; k < options_.group; ++k) {
      asked.push_back({&problem, "step " + std::to_string(state_.step + 1) + "/" +
                                     std::to_string(i) + "/" + std::to_string(k)});
    }
  }
  return asked;
}

Result<std::vector<SampledAnswer>> RlTrainer::SampleAnswers(RlStepReport* report) {
  sampler_->SetWeights(SamplingWeights());
  KCC_TRY(std::vector<SampledAnswer> answers, sampler_->Answer(NextProblems(), 1, options_.seed));
  for (const SampledAnswer& answer : answers) {
    const auto finite = [](float log_prob) { return std::isfinite(log_prob); };
    if (!std::all_of(answer.log_probs.begin(), answer.log_probs.end(), finite)) {
      return BrokenEvidenceError("step " + std::to_string(report->step) +
                                 ": a log-prob of the rollouts is not finite; a lower rate may "
                                 "help");
    }
    report->reward += answer.reward;
    report->tokens += static_cast<int64_t>(answer.output_tokens());
  }
  report->reward /= static_cast<double>(answers.size());
  report->answers = static_cast<int64_t>(answers.size());
  report->groups = options_.problems;
  return answers;
}

// Those that are scored, with their advantages in GRPO.
ScoredTokens RlTrainer::Choose(const std::vector<SampledAnswer>& answers,
                               RlStepReport* report) const {
  const auto group = static_cast<size_t>(options_.group);
  std::vector<double> rewards;
  for (const SampledAnswer& answer : answers) rewards.push_back(answer.reward);
  std::vector<double> advantages(answers.size());
  if (!options_.ppo) advantages = GroupAdvantages(rewards, group, options_.scale_advantages);
  std::vector<const SampledAnswer*> chosen;
  std::vector<double> by_answer;
  for (size_t begin = 0; begin < answers.size(); begin += group) {
    const auto first = advantages.begin() + static_cast<std::ptrdiff_t>(begin);
    const bool needed = options_.ppo || options_.score_all || options_.loss.kl > 0 ||
                        std::any_of(first, first + options_.group, [](double a) { return a != 0; });
    if (!needed) continue;
    ++report->groups_scored;
    for (size_t i = begin; i < begin + group; ++i) {
      chosen.push_back(&answers[i]);
      by_answer.push_back(advantages[i]);
    }
  }
  ScoredTokens scored = ScoredTokens::Of(std::move(chosen));
  for (size_t i = 0; i < scored.answers.size(); ++i)
    scored.advantages.insert(scored.advantages.end(), scored.answers[i]->output_tokens(),
                             by_answer[i]);
  scored.advantage_per_answer = !options_.ppo;
  return scored;
}

Result<> RlTrainer::ScoreWith(GradientPass& pass, const ScoredTokens& scored, bool values,
                              std::vector<float>* log_probs) {
  if (values) values_.clear();
  for (const auto& pack : packs_) {
    KCC_TRY_VOID(pass.Forward(SequencesOf(scored, pack)));
    const std::span<const float> made = pass.log_probs();
    log_probs->insert(log_probs->end(), made.begin(), made.end());
    for (size_t i = 0; values && i < made.size(); ++i)
      values_.push_back(state_.value.Of(pass.HiddenOf(i)));
  }
  return {};
}

Result<> RlTrainer::Score(ScoredTokens* scored, RlStepReport* report) {
  packs_ = PacksOf(*scored, options_.pack_tokens);
  if (recompute_) {
    recompute_->SetWeights(SamplingWeights());
    KCC_TRY_VOID(ScoreWith(*recompute_, *scored, false, &scored->old));
    scored->old_is_apart = true;
  }
  const bool measured =
      options_.reference_every > 0 && report->step % options_.reference_every == 0;
  if (measured) KCC_TRY_VOID(ScoreWith(*reference_, *scored, false, &scored->reference));
  KCC_TRY_VOID(ScoreWith(*pass_, *scored, options_.ppo.has_value(), &scored->now));
  if (options_.old_policy == OldPolicy::kBypass) {
    scored->old = scored->rollout;
  } else if (!recompute_) {
    scored->old = scored->now;
  }
  report->tokens_scored = static_cast<int64_t>(scored->tokens());
  if (options_.ppo) EstimateAdvantages(scored);
  if (!measured) return {};
  RlBatch apart;
  apart.rows = static_cast<int64_t>(scored->answers.size());
  apart.offsets = scored->offsets;
  apart.train = ArrayOf(scored->reference);
  apart.rollout = ArrayOf(scored->now);
  KCC_TRY(const RlMetrics kl, DiagnoseRl(apart));
  report->kl_to_reference = kl.at(RlLevel::kToken).k3;
  return {};
}

void RlTrainer::EstimateAdvantages(ScoredTokens* scored) {
  returns_.clear();
  for (size_t s = 0; s < scored->answers.size(); ++s) {
    const auto begin = static_cast<size_t>(scored->offsets[s]);
    const auto count = static_cast<size_t>(scored->offsets[s + 1]) - begin;
    const auto values = std::span(values_).subspan(begin, count);
    const std::vector<double> advantages = GeneralisedAdvantages(
        values, scored->answers[s]->reward, options_.ppo->gamma, options_.ppo->lambda);
    for (size_t i = 0; i < count; ++i) {
      scored->advantages[begin + i] = advantages[i];
      returns_.push_back(advantages[i] + values[i]);
    }
  }
  Whiten(scored->advantages);
}

Result<> RlTrainer::Correct(const ScoredTokens& scored, RlStepReport* report) {
  weights_.assign(scored.tokens(), 1);
  mask_.assign(scored.tokens(), 1);
  report->dump = DumpOf(scored, false);
  KCC_TRY(const RlBatch batch, report->dump.Batch());
  const RlCorrectOutput output = {weights_, {}, mask_};
  std::vector<RlCorrectionMetrics> corrected;
  if (recompute_) {
    const RlDump as_corrected = DumpOf(scored, true);
    KCC_TRY(const RlBatch old, as_corrected.Batch());
    KCC_TRY(corrected, CorrectRl(old, options_.correction, output));
    KCC_TRY(report->metrics, DiagnoseRl(batch));
  } else {
    RlSummary summary;
    KCC_TRY(corrected, StepRl(batch, options_.correction, output, 1, &summary));
    KCC_TRY(report->metrics, summary.Metrics());
  }
  report->correction = corrected[0];
  if (watch_) {
    KCC_TRY(report->judgement, watch_->Judge(report->dump));
  }
  return {};
}

Result<> RlTrainer::Backward(const ScoredTokens& scored, const PolicyTokens& tokens,
                             const std::vector<float>& slopes, RlStepReport* report) {
  const std::vector<double> shares = TokenShares(tokens, options_.loss.mean);
  value_gradient_ = {};
  for (const auto& pack : packs_) {
    // The forward pass of a single pack is that of Score.
    if (packs_.size() > 1) KCC_TRY_VOID(pass_->Forward(SequencesOf(scored, pack)));
    const auto begin = static_cast<size_t>(scored.offsets[pack.first]);
    const auto end = static_cast<size_t>(scored.offsets[pack.second]);
    pass_->Backward(std::span(slopes).subspan(begin, end - begin), &gradients_);
    for (size_t s = pack.first; options_.ppo && s < pack.second; ++s) {
      const auto last = static_cast<size_t>(scored.offsets[s + 1]);
      for (auto t = static_cast<size_t>(scored.offsets[s]); t < last; ++t) {
        if (mask_[t] == 0) continue;
        state_.value.AddGradient(pass_->HiddenOf(t - begin), values_[t], returns_[t], shares[s],
                                 &value_gradient_);
      }
    }
  }
  report->value_loss = value_gradient_.loss;
  return {};
}

Result<> RlTrainer::Descend(const ScoredTokens& scored, RlStepReport* report) {
  PolicyTokens tokens;
  tokens.offsets = scored.offsets;
  tokens.now = scored.now;
  tokens.old = scored.old;
  tokens.reference = scored.reference;
  tokens.advantages = scored.advantages;
  tokens.weights = weights_;
  tokens.mask = mask_;
  tokens.sampled_tokens = report->tokens;
  tokens.sampled_sequences = report->answers;
  const PolicyLoss loss = PolicyLossOf(tokens, options_.loss);
  report->loss = loss.loss;
  report->clipped_low = loss.clipped_low;
  report->clipped_high = loss.clipped_high;
  report->clipped_dual = loss.clipped_dual;
  for (const ModelTensor& tensor : TensorsOf(config_, &gradients_)) {
    std::fill(tensor.values->begin(), tensor.values->end(), 0.0f);
  }
  if (std::isfinite(report->loss)) KCC_TRY_VOID(Backward(scored, tokens, loss.slopes, report));
  report->gradient_length = GradientLength(config_, &gradients_, pool_);
  for (const auto& [value, what] : {std::pair{report->loss, "loss"},
                                    {report->value_loss, "loss of the value head"},
                                    {report->gradient_length, "gradient"}}) {
    if (std::isfinite(value)) continue;
    return BrokenEvidenceError("step " + std::to_string(report->step) + ": the " + what +
                               " is not finite; a lower rate, a clip range or a correction may "
                               "help");
  }
  return {};
}

void RlTrainer::Update(const RlStepReport& report) {
  if (!state_.older.empty()) {
    state_.older.erase(state_.older.begin());
    state_.older.push_back(state_.weights);
  }
  ++state_.updates;
  AdamWStep(config_, options_.adamw, state_.updates, report.rate,
            ClipScale(report.gradient_length, options_.clip), &gradients_, pool_, &state_.weights,
            &state_.moments);
  if (options_.ppo) state_.value.Step(value_gradient_, options_.ppo->rate, state_.updates, pool_);
  pass_->SetWeights(state_.weights);
}

Result<RlStepReport> RlTrainer::Step() {
  RlStepReport report;
  report.step = state_.step + 1;
  report.rate = RateAt(options_.schedule, report.step);
  KCC_TRY(const std::vector<SampledAnswer> answers, SampleAnswers(&report));
  ScoredTokens scored = Choose(answers, &report);
  if (!scored.answers.empty()) {
    KCC_TRY_VOID(Score(&scored, &report));
    KCC_TRY_VOID(Correct(scored, &report));
    KCC_TRY_VOID(Descend(scored, &report));
    const bool withheld = options_.obey && report.judgement && report.judgement->withholds();
    report.updated = !withheld && report.gradient_length > 0;
    if (report.updated) Update(report);
  }
  state_.step = report.step;
  state_.position = next_;
  return report;
}

Result<HeldOutReport> RlTrainer::HeldOut() {
  HeldOutReport report;
  report.step = state_.step;
  const std::span<const TaskProblem> all = task_.held_out();
  const std::vector<size_t> order = EpochOrder(all.size(), 0, 0);
  std::vector<AskedProblem> asked;
  for (const size_t i : order) {
    if (static_cast<int64_t>(asked.size()) == options_.held_out.problems) break;
    asked.push_back({&all[i], "held out/" + std::to_string(asked.size())});
  }
  report.problems = static_cast<int64_t>(asked.size());
  const double temperature = options_.held_out.greedy ? 0 : 1;
  const auto mean = [&](Sampler& sampler) -> Result<double> {
    sampler.SetWeights(state_.weights);
    KCC_TRY(const std::vector<SampledAnswer> answers,
            sampler.Answer(asked, temperature, options_.seed));
    double sum = 0;
    for (const SampledAnswer& answer : answers) sum += answer.reward;
    return sum / static_cast<double>(answers.size());
  };
  KCC_TRY(report.reward_infer, mean(*sampler_));
  report.reward_train = report.reward_infer;
  if (train_sampler_) {
    KCC_TRY(report.reward_train, mean(*train_sampler_));
  }
  return report;
}

}  // namespace kcc
