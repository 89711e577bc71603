#include "kcc/rltrain/rl_state.h"

namespace kcc {
namespace {

constexpr std::string_view kKind = "kccLabRl";

std::vector<ModelTensor> TensorsOfState(const ModelConfig& config, RlState* state) {
  std::vector<ModelTensor> tensors = TensorsOfOptimizer(config, &state->weights, &state->moments);
  for (size_t i = 0; i < state->older.size(); ++i) {
    for (ModelTensor& tensor : TensorsOf(config, &state->older[i])) {
      tensor.name = "older." + std::to_string(i) + "." + tensor.name;
      tensors.push_back(std::move(tensor));
    }
  }
  for (ModelTensor& tensor : state->value.Tensors()) tensors.push_back(std::move(tensor));
  return tensors;
}

RunCounters CountersOf(const RlState& state) {
  return {{"step", state.step},
          {"updates", state.updates},
          {"epoch", state.position.epoch},
          {"index", state.position.index}};
}

}  // namespace

RlState StartState(const ModelConfig& config, const ModelWeights& weights,
                   const RlTrainOptions& options) {
  RlState state;
  state.weights = weights;
  state.moments = {ZeroWeights(config), ZeroWeights(config)};
  state.older.assign(static_cast<size_t>(options.stale), weights);
  if (options.ppo) state.value = ValueHead(config.hidden);
  return state;
}

RunSettings SettingsOf(const RlTrainOptions& options, const RlTask& task,
                       const std::string& start_digest, const std::string& contract) {
  RunSettings made;
  made["model"] = start_digest;
  made["task"] = task.digest();
  AddKernelSettings("train ", options.train, false, &made);
  AddKernelSettings("infer ", options.infer, true, &made);
  if (options.recompute) AddKernelSettings("recompute ", *options.recompute, false, &made);
  const bool bypass = options.old_policy == OldPolicy::kBypass;
  made["old policy"] = bypass ? "bypass" : options.recompute ? "another kernel" : "train";
  made["correction"] = DescribeCorrection(options.correction);
  made["clip low"] = SettingText(options.loss.clip_low);
  made["clip high"] = SettingText(options.loss.clip_high);
  made["dual clip"] = SettingText(options.loss.dual_clip);
  made["kl"] = SettingText(options.loss.kl);
  made["loss mean"] = std::string(Name(options.loss.mean));
  made["algorithm"] = options.ppo ? "ppo" : "grpo";
  if (options.ppo) {
    made["gamma"] = SettingText(options.ppo->gamma);
    made["lambda"] = SettingText(options.ppo->lambda);
    made["value rate"] = SettingText(options.ppo->rate);
  }
  made["scale advantages"] = options.scale_advantages ? "yes" : "no";
  made["problems"] = std::to_string(options.problems);
  made["group"] = std::to_string(options.group);
  made["stale"] = std::to_string(options.stale);
  made["score"] = options.score_all ? "all" : "with advantage";
  made["reference every"] = std::to_string(options.reference_every);
  AddOptimizerSettings(options.adamw, options.schedule, options.clip, &made);
  made["pack tokens"] = std::to_string(options.pack_tokens);
  made["seed"] = std::to_string(options.seed);
  made["held out every"] = std::to_string(options.held_out.every);
  made["held out problems"] = std::to_string(options.held_out.problems);
  made["held out answers"] = options.held_out.greedy ? "greedy" : "sampled";
  made["contract"] = contract.empty() ? "none" : contract;
  if (!contract.empty()) made["orders"] = options.obey ? "follow" : "log";
  return made;
}

Result<> WriteRlState(const std::string& path, const ModelConfig& config,
                      const RunSettings& settings, const RlState& state) {
  auto& read = const_cast<RlState&>(state);  // read through, never written
  return WriteStateFile(path, kKind, settings, CountersOf(state), TensorsOfState(config, &read));
}

Result<> ReadRlState(const std::string& path, const ModelConfig& config,
                     const RunSettings& settings, RlState* state) {
  RunCounters counters = CountersOf(*state);
  KCC_TRY_VOID(ReadStateFile(path, kKind, settings, &counters, TensorsOfState(config, state)));
  state->step = counters["step"];
  state->updates = counters["updates"];
  state->position = {counters["epoch"], counters["index"]};
  if (config.tied) {
    state->weights.lm_head = state->weights.embedding;
    for (ModelWeights& weights : state->older) weights.lm_head = weights.embedding;
  }
  return {};
}

}  // namespace kcc
