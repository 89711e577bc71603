#include "kcc/serve/token_numbers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kcc/lab/logprob.h"
#include "kcc/lab/sampler.h"

namespace kcc {
namespace {

// So far below any logit that nothing is left of its probability.
constexpr float kNeverDrawn = -1e30f;

}  // namespace

TokenRecord RecordOf(std::span<const float> logits, int32_t token, std::optional<int32_t> top) {
  TokenRecord record;
  record.token = token;
  if (!top) return record;
  const RowLogprobs logprobs(logits);
  const auto better = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  record.logprob = logprobs.Of(token);
  record.rank = 1;
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    record.rank += better(id, token) ? 1 : 0;
  }
  const auto count = std::min(static_cast<size_t>(*top), logits.size());
  if (count == 0) return record;
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    better);
  record.top.reserve(count);
  for (size_t i = 0; i < count; ++i) record.top.push_back({ids[i], logprobs.Of(ids[i])});
  return record;
}

int32_t ChooseToken(std::span<const float> logits, const SequenceAsk& ask, size_t position,
                    size_t outputs) {
  const bool no_end = outputs < static_cast<size_t>(ask.output_tokens_min) && !ask.end.empty();
  if (ask.bias.empty() && !no_end) return SampleToken(logits, ask.sampling, ask.seed, position);
  std::vector<float> shaped(logits.begin(), logits.end());
  for (const auto& [token, bias] : ask.bias) shaped[static_cast<size_t>(token)] += bias;
  if (no_end) {
    for (const int32_t token : ask.end) shaped[static_cast<size_t>(token)] = kNeverDrawn;
  }
  return SampleToken(shaped, ask.sampling, ask.seed, position);
}

void ChangeLogits(std::span<const float> logits, const LogitChange& change, size_t position,
                  std::vector<float>* changed) {
  changed->resize(logits.size());
  const double width = change.noise * std::sqrt(12.0);
  // Every position draws from a seed of its own.
  const uint64_t seed = change.seed + 0x9e3779b97f4a7c15u * (position + 1);
  for (size_t i = 0; i < logits.size(); ++i) {
    double value = static_cast<double>(logits[i]) / change.temperature;
    if (width != 0) value += width * (UniformAt(seed, i) - 0.5);
    (*changed)[i] = static_cast<float>(value);
  }
}

}  // namespace kcc
