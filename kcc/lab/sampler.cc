#include "kcc/lab/sampler.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

uint64_t SplitMix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

double UniformAt(uint64_t seed, uint64_t position) {
  return static_cast<double>(SplitMix(SplitMix(seed) ^ position) >> 11) * 0x1p-53;
}

int32_t SampleToken(std::span<const float> logits, const Sampling& sampling, uint64_t seed,
                    uint64_t position) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (sampling.temperature <= 0) return static_cast<int32_t>(best - logits.begin());
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < ids.size()) {
    ids.resize(static_cast<size_t>(sampling.top_k));
  }
  std::vector<double> masses;
  double total = 0;
  for (const int32_t id : ids) {
    const double gap = static_cast<double>(logits[static_cast<size_t>(id)]) - *best;
    masses.push_back(Exp(gap / sampling.temperature));
    total += masses.back();
  }
  double kept = 0;
  size_t count = 0;
  while (count < ids.size() && (count == 0 || kept < sampling.top_p * total)) {
    kept += masses[count++];
  }
  double left = UniformAt(seed, position) * kept;
  for (size_t i = 0; i < count; ++i) {
    left -= masses[i];
    if (left < 0) return ids[i];
  }
  return ids[count - 1];
}

}  // namespace kcc
