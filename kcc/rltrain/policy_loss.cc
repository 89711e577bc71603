#include "kcc/rltrain/policy_loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "kcc/base/strings.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 3> kMeanNames = {"tokens", "kept", "sequences"};

enum class Clipped : uint8_t { kNot, kLow, kHigh, kDual };

struct Surrogate {
  double value = 0;
  double slope = 0;  // in log r
  Clipped clipped = Clipped::kNot;
};

Surrogate SurrogateOf(double ratio, double advantage, const PolicyLossOptions& options) {
  const double low = 1 - options.clip_low;
  const double high = 1 + options.clip_high;
  if (advantage > 0 && ratio > high) return {high * advantage, 0, Clipped::kHigh};
  if (advantage < 0 && ratio < low) return {low * advantage, 0, Clipped::kLow};
  if (advantage < 0 && options.dual_clip > 0 && ratio > options.dual_clip)
    return {options.dual_clip * advantage, 0, Clipped::kDual};
  return {ratio * advantage, ratio * advantage, Clipped::kNot};
}

}  // namespace

std::string_view Name(LossMean mean) { return kMeanNames[static_cast<size_t>(mean)]; }

Result<LossMean> ParseLossMean(std::string_view name) {
  for (size_t i = 0; i < kMeanNames.size(); ++i) {
    if (kMeanNames[i] == name) return static_cast<LossMean>(i);
  }
  return InvalidError("a loss is the mean over " + JoinWords(kMeanNames, "or") + ", not '" +
                      std::string(name) + "'");
}

std::vector<double> TokenShares(const PolicyTokens& tokens, LossMean mean) {
  const size_t sequences = tokens.offsets.size() - 1;
  if (mean == LossMean::kSequences) {
    std::vector<double> shares;
    for (size_t s = 0; s < sequences; ++s) {
      const auto length = static_cast<double>(tokens.offsets[s + 1] - tokens.offsets[s]);
      shares.push_back(1 / (static_cast<double>(tokens.sampled_sequences) * length));
    }
    return shares;
  }
  int64_t counted = tokens.sampled_tokens;
  if (mean == LossMean::kKept)
    counted = std::accumulate(tokens.mask.begin(), tokens.mask.end(), int64_t{0});
  return std::vector<double>(sequences, counted > 0 ? 1 / static_cast<double>(counted) : 0);
}

PolicyLoss PolicyLossOf(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  PolicyLoss made;
  made.slopes.resize(tokens.now.size());
  const std::vector<double> shares = TokenShares(tokens, options.mean);
  for (size_t s = 0; s + 1 < tokens.offsets.size(); ++s) {
    const auto end = static_cast<size_t>(tokens.offsets[s + 1]);
    for (auto t = static_cast<size_t>(tokens.offsets[s]); t < end; ++t) {
      const auto now = static_cast<double>(tokens.now[t]);
      const double ratio = Exp(now - static_cast<double>(tokens.old[t]));
      const Surrogate f = SurrogateOf(ratio, tokens.advantages[t], options);
      made.clipped_low += f.clipped == Clipped::kLow;
      made.clipped_high += f.clipped == Clipped::kHigh;
      made.clipped_dual += f.clipped == Clipped::kDual;
      if (tokens.mask[t] == 0) continue;
      const double scale = shares[s] * static_cast<double>(tokens.weights[t]);
      double slope = -scale * f.slope;
      made.loss -= scale * f.value;
      if (options.kl > 0) {
        const double d = static_cast<double>(tokens.reference[t]) - now;
        made.loss += options.kl * shares[s] * ExpResidual(d);
        slope -= options.kl * shares[s] * Expm1(d);
      }
      made.slopes[t] = static_cast<float>(slope);
    }
  }
  return made;
}

std::vector<double> GroupAdvantages(std::span<const double> rewards, size_t group, bool scale) {
  std::vector<double> advantages;
  for (size_t begin = 0; begin < rewards.size(); begin += group) {
    const auto part = rewards.subspan(begin, std::min(group, rewards.size() - begin));
    const auto count = static_cast<double>(part.size());
    const double mean = std::accumulate(part.begin(), part.end(), 0.0) / count;
    const bool equal =
        std::all_of(part.begin(), part.end(), [&](double r) { return r == part[0]; });
    double squares = 0;
    for (const double reward : part) squares += (reward - mean) * (reward - mean);
    const double divisor = scale && !equal ? std::sqrt(squares / (count - 1)) + 1e-6 : 1;
    for (const double reward : part) advantages.push_back(equal ? 0 : (reward - mean) / divisor);
  }
  return advantages;
}

std::vector<double> GeneralisedAdvantages(std::span<const double> values, double reward,
                                          double gamma, double lambda) {
  std::vector<double> advantages(values.size());
  double later = 0;
  for (size_t i = values.size(); i-- > 0;) {
    const bool last = i + 1 == values.size();
    const double delta = (last ? reward : gamma * values[i + 1]) - values[i];
    later = delta + gamma * lambda * later;
    advantages[i] = later;
  }
  return advantages;
}

void Whiten(std::span<double> advantages) {
  if (advantages.size() < 2) return;
  const auto count = static_cast<double>(advantages.size());
  const double mean = std::accumulate(advantages.begin(), advantages.end(), 0.0) / count;
  double squares = 0;
  for (const double a : advantages) squares += (a - mean) * (a - mean);
  const double divisor = std::sqrt(squares / (count - 1) + 1e-8);
  for (double& a : advantages) a = (a - mean) / divisor;
}

}  // namespace kcc
