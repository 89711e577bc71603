#include "kcc/rl/published.h"

#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/rl/rl_metrics.h"

namespace kcc {
namespace {

constexpr std::string_view kK3 = "token.mean_k3";

constexpr PublishedBound kBounds[] = {
    {"NeMo-RL", kK3, 1e-3, "NVIDIA-NeMo/RL: functional tests ask for gen_kl_error < 0.001"},
    {"prime-rl", kK3, 0.015,
     "PrimeIntellect-ai/prime-rl: mismatch KL below 0.015 at each of 20 steps to merge"},
    {"tinker-cookbook", "token.mean_k1", 0.01,
     "thinking-machines-lab/tinker-cookbook: kl_sample_train_v1 is healthy below 0.01"},
    {"verl", "token.mean_k1", 0.1,
     "verl-project/verl: its page on rollout correction calls |kl| above 0.1 an alarm"},
    {"miles", "token.mean_abs_log_ratio", 0.03,
     "radixark/miles: CI asks for log-probs within 0.03"},
    {"slime", "token.mean_abs_log_ratio", 0.1,
     "THUDM/slime: CI asks for train_rollout_logprob_abs_diff at most 0.1"},
};

// "inside NeMo-RL's 0.001", or "beyond NeMo-RL's 0.001, inside prime-rl's 0.015".
std::string Placed(double k3) {
  std::string text;
  for (const PublishedBound& bound : kBounds) {
    if (bound.metric != kK3) continue;
    const bool inside = k3 <= bound.threshold;
    text += (text.empty() ? "" : inside ? ", " : " and ");
    text += (inside         ? "inside "
             : text.empty() ? "beyond "
                            : "") +
            std::string(bound.source) + "'s " + ShortestNumber(bound.threshold);
    if (inside) break;
  }
  return text;
}

// How many of the bounds on k3 it is beyond.
int BoundsPassed(double k3) {
  int count = 0;
  for (const PublishedBound& bound : kBounds) {
    count += bound.metric == kK3 && !(k3 <= bound.threshold) ? 1 : 0;
  }
  return count;
}

double K3Of(const RlMetrics& metrics) { return metrics.at(RlLevel::kToken).k3; }

}  // namespace

std::span<const PublishedBound> PublishedBounds() { return kBounds; }

std::vector<PublishedComparison> CompareWithPublished(const RlMetrics& metrics) {
  const std::vector<RlNamedMetric> named = NamedMetrics(metrics);
  std::vector<PublishedComparison> out;
  for (const PublishedBound& bound : kBounds) {
    for (const RlNamedMetric& metric : named) {
      if (metric.name != bound.metric) continue;
      out.push_back({&bound, metric.value, std::fabs(metric.value) <= bound.threshold});
    }
  }
  return out;
}

std::string DiagnosisSentence(std::span<const RlMetrics> metrics) {
  const RlMetrics& all = metrics.front();
  const double k3 = K3Of(all);
  if (std::isnan(k3)) return "k3 is not known: no token could be compared.";
  std::string text = "k3 " + ReadableNumber(k3) + ": ";
  if (k3 == 0) {
    text += "the two sides are equal on every token";
  } else {
    text += Placed(k3);
  }
  const RlMetrics* worst = &all;
  for (const RlMetrics& slice : metrics.subspan(1)) {
    if (K3Of(slice) > K3Of(*worst)) worst = &slice;
  }
  if (BoundsPassed(K3Of(*worst)) > BoundsPassed(k3)) {
    text += "; slice " + worst->slice + " has " + ReadableNumber(K3Of(*worst)) + ": " +
            Placed(K3Of(*worst));
  }
  // What is left out of k3 must not make it look small.
  if (const int64_t lost = all.zero_ratio + all.infinite_ratio; lost > 0) {
    text += "; left out: " + std::to_string(lost) + " of " + std::to_string(all.tokens) +
            " tokens, which one side gives no chance";
  }
  return text + ".";
}

}  // namespace kcc
