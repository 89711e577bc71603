#include "kcc/rltrain/sampler.h"

#include "kcc/base/clock.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/lab/logprob.h"

namespace kcc {

Result<std::unique_ptr<Sampler>> Sampler::Make(const Checkpoint& checkpoint,
                                               const LabSwitches& switches, const RlTask& task) {
  KCC_TRY_VOID(CheckSwitches(switches));
  KCC_TRY(LabModel model, LabModel::Make(checkpoint, switches));
  return std::unique_ptr<Sampler>(new Sampler(std::move(model), switches, task));
}

Sampler::Sampler(LabModel model, const LabSwitches& switches, const RlTask& task)
    : model_(std::move(model)),
      switches_(switches),
      task_(task),
      fingerprint_(LabKernelInfo(model_, switches_).fingerprint),
      engine_(model_, switches_, TheSystemClock()) {}

Result<std::vector<SampledAnswer>> Sampler::Answer(std::span<const AskedProblem> asked,
                                                   double temperature, uint64_t seed) {
  std::vector<KernelRequest> requests;
  std::vector<SampledAnswer> answers;
  for (const AskedProblem& each : asked) {
    KernelRequest request;
    request.request.id = each.id;
    request.tokens = each.problem->prompt;
    request.prompt_tokens = static_cast<int32_t>(request.tokens.size());
    answers.push_back({each.problem, each.id, request.tokens, request.tokens.size(), {}, 0});
    requests.push_back(std::move(request));
  }
  Sampling sampling;
  sampling.temperature = temperature;
  sampling.seed = seed;
  sampling.output_tokens_max = task_.output_tokens_max();
  sampling.stop.assign(task_.stop().begin(), task_.stop().end());
  const LogitsSink sink = [&](size_t request, size_t, int32_t token,
                              std::span<const float> logits) -> Result<> {
    answers[request].log_probs.push_back(RowLogprobs(logits).Of(token));
    return {};
  };
  KCC_TRY(const std::vector<RequestOutcome> outcomes, engine_.Generate(requests, sampling, sink));
  for (size_t i = 0; i < answers.size(); ++i) {
    SampledAnswer& answer = answers[i];
    answer.reward = task_.Reward(*answer.problem, outcomes[i].output);
    answer.tokens.insert(answer.tokens.end(), outcomes[i].output.begin(), outcomes[i].output.end());
  }
  return answers;
}

}  // namespace kcc
