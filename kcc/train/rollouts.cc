#include "kcc/train/rollouts.h"

#include <bit>

#include "kcc/base/clock.h"
#include "kcc/lab/audit.h"
#include "kcc/lab/engine.h"
#include "kcc/lab/logprob.h"

namespace kcc {

Result<RolloutBatch> MakeRollouts(const LabModel& model, const LabSwitches& switches,
                                  std::span<const KernelRequest> prompts, int32_t output_tokens,
                                  uint64_t seed) {
  Sampling sampling;
  sampling.seed = seed;
  sampling.output_tokens_max = output_tokens;
  RolloutBatch batch;
  batch.rollouts.resize(prompts.size());
  Engine engine(model, switches, TheSystemClock());
  auto outcomes = engine.Generate(
      prompts, sampling,
      [&](size_t request, size_t, int32_t token, std::span<const float> logits) -> Result<> {
        batch.rollouts[request].log_probs.push_back(RowLogprobs(logits).Of(token));
        batch.rollouts[request].rows.push_back(HashRow(logits));
        return {};
      });
  if (!outcomes.has_value()) return std::move(outcomes.error());
  for (size_t i = 0; i < prompts.size(); ++i) {
    KernelRequest& made = batch.rollouts[i].request;
    made = prompts[i];
    made.tokens.resize(static_cast<size_t>(made.prompt_tokens));
    made.tokens.insert(made.tokens.end(), (*outcomes)[i].output.begin(),
                       (*outcomes)[i].output.end());
    made.gold.clear();
    made.advantage.clear();
  }
  batch.preemptions = engine.stats().preemptions;
  return batch;
}

Result<> CompareWithTrainer(std::span<const Rollout* const> rollouts, size_t pack_tokens,
                            GradientPass& trainer, const ComparedToken& compared) {
  for (size_t begin = 0; begin < rollouts.size();) {
    std::vector<PackedSequence> pack;
    size_t tokens = 0;
    size_t end = begin;
    while (end < rollouts.size() &&
           (pack.empty() || tokens + rollouts[end]->request.tokens.size() <= pack_tokens)) {
      const KernelRequest& request = rollouts[end++]->request;
      pack.push_back(
          {request.request.id, request.tokens, static_cast<size_t>(request.prompt_tokens)});
      tokens += request.tokens.size();
    }
    KCC_TRY_VOID(trainer.Forward(pack));
    size_t at = 0;
    for (; begin < end; ++begin) {
      const Rollout& rollout = *rollouts[begin];
      for (size_t i = 0; i < rollout.log_probs.size(); ++i, ++at) {
        compared(rollout, i, trainer.log_probs()[at],
                 HashRow(trainer.LogitsOf(at)) == rollout.rows[i]);
      }
    }
  }
  return {};
}

}  // namespace kcc
