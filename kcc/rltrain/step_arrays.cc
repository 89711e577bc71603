#include "kcc/rltrain/step_arrays.h"

#include <algorithm>
#include <utility>

#include "kcc/format/safetensors.h"

namespace kcc {
namespace {

std::vector<double> Widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Padded with -1. kcc rl reads their lengths alone.
void AddPrompts(const ScoredTokens& scored, RlDump* dump) {
  size_t most = 0;
  for (const SampledAnswer* answer : scored.answers) most = std::max(most, answer->prompt);
  std::vector<double> mask, ids;
  for (const SampledAnswer* answer : scored.answers) {
    for (size_t i = 0; i < most; ++i) {
      mask.push_back(i < answer->prompt ? 1 : 0);
      ids.push_back(i < answer->prompt ? answer->tokens[i] : -1);
    }
  }
  const std::vector<int64_t> shape = {static_cast<int64_t>(scored.answers.size()),
                                      static_cast<int64_t>(most)};
  dump->arrays.push_back({"prompt_mask", shape, std::move(mask)});
  dump->arrays.push_back({"prompts", shape, std::move(ids)});
}

}  // namespace

ScoredTokens ScoredTokens::Of(std::vector<const SampledAnswer*> answers) {
  ScoredTokens scored;
  scored.offsets.push_back(0);
  for (const SampledAnswer* answer : answers) {
    scored.rollout.insert(scored.rollout.end(), answer->log_probs.begin(), answer->log_probs.end());
    scored.offsets.push_back(static_cast<int64_t>(scored.rollout.size()));
  }
  scored.answers = std::move(answers);
  return scored;
}

RlDump DumpOf(const ScoredTokens& scored, bool corrected) {
  const auto tokens = static_cast<int64_t>(scored.tokens());
  const auto rows = static_cast<int64_t>(scored.answers.size());
  RlDump dump;
  dump.offsets = scored.offsets;
  const auto add = [&](std::string name, std::vector<int64_t> shape, std::vector<double> values) {
    dump.arrays.push_back({std::move(name), std::move(shape), std::move(values)});
  };
  add("train", {tokens}, Widened(corrected ? scored.old : scored.now));
  add("rollout", {tokens}, Widened(scored.rollout));
  if (!corrected && scored.old_is_apart) add("old", {tokens}, Widened(scored.old));
  std::vector<double> advantages, rewards, ids;
  for (size_t r = 0; r < scored.answers.size(); ++r) {
    const SampledAnswer& answer = *scored.answers[r];
    advantages.push_back(scored.advantages[static_cast<size_t>(scored.offsets[r])]);
    rewards.push_back(answer.reward);
    for (size_t t = answer.prompt; t < answer.tokens.size(); ++t) ids.push_back(answer.tokens[t]);
  }
  if (scored.advantage_per_answer) {
    add("advantages", {rows}, std::move(advantages));
  } else {
    add("advantages", {tokens}, scored.advantages);
  }
  add("rewards", {rows}, std::move(rewards));
  add("tokens", {tokens}, std::move(ids));
  AddPrompts(scored, &dump);
  return dump;
}

std::string DumpBytes(const RlDump& dump) {
  std::vector<TensorInfo> infos;
  std::string bytes;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       std::span<const double> values) {
    infos.push_back({name, DType::kF64, std::move(shape), 0, 0});
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  };
  for (const RlDump::Array& array : dump.arrays) add(array.name, array.shape, array.values);
  const std::vector<double> offsets(dump.offsets.begin(), dump.offsets.end());
  add("offsets", {static_cast<int64_t>(offsets.size())}, offsets);
  return SafetensorsPrefix(infos, {{"made_by", "kcc lab rl"}}) + bytes;
}

}  // namespace kcc
