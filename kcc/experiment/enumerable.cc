#include "kcc/experiment/enumerable.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/lab/sampler.h"

namespace kcc {
namespace {

size_t Power(size_t base, size_t exponent) {
  size_t made = 1;
  for (size_t i = 0; i < exponent; ++i) made *= base;
  return made;
}

std::vector<double> LogSoftmaxTables(std::span<const double> logits, size_t vocabulary) {
  std::vector<double> logs;
  for (size_t at = 0; at < logits.size(); at += vocabulary) {
    const auto row = logits.subspan(at, vocabulary);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit - largest);
    for (const double logit : row) logs.push_back(logit - largest - std::log(sum));
  }
  return logs;
}

std::vector<double> LogMasses(const EnumerableProblem& p, const std::vector<double>& law) {
  const std::vector<double> logs = TokenLogs(p, law);
  std::vector<double> masses(p.continuations());
  for (size_t i = 0; i < logs.size(); ++i) masses[i / p.length] += logs[i];
  return masses;
}

}  // namespace

size_t EnumerableProblem::PrefixAt(size_t continuation, size_t t) const {
  size_t shorter = 0;
  for (size_t i = 0; i < t; ++i) shorter += Power(vocabulary, i);
  return shorter + continuation / Power(vocabulary, length - t);
}

size_t EnumerableProblem::TokenAt(size_t continuation, size_t t) const {
  return continuation / Power(vocabulary, length - 1 - t) % vocabulary;
}

std::vector<double> TokenLogs(const EnumerableProblem& p, const std::vector<double>& law) {
  std::vector<double> logs;
  for (size_t y = 0; y < p.continuations(); ++y) {
    for (size_t t = 0; t < p.length; ++t)
      logs.push_back(law[p.PrefixAt(y, t) * p.vocabulary + p.TokenAt(y, t)]);
  }
  return logs;
}

std::vector<double> Masses(const EnumerableProblem& p, const std::vector<double>& law) {
  std::vector<double> masses = LogMasses(p, law);
  for (double& mass : masses) mass = std::exp(mass);
  return masses;
}

std::vector<double> Ratios(const EnumerableProblem& p) {
  std::vector<double> ratios = LogMasses(p, p.train);
  const std::vector<double> rollout = LogMasses(p, p.rollout);
  for (size_t y = 0; y < ratios.size(); ++y) ratios[y] = std::exp(ratios[y] - rollout[y]);
  return ratios;
}

double ScoreSquare(const EnumerableProblem& p, size_t prefix, size_t token) {
  double square = 0;
  for (size_t v = 0; v < p.vocabulary; ++v) {
    const double probability = std::exp(p.train[prefix * p.vocabulary + v]);
    const double score = (v == token ? 1.0 : 0.0) - probability;
    square += score * score;
  }
  return square;
}

std::vector<double> MeanGradient(const EnumerableProblem& p, const std::vector<double>& mass,
                                 const std::vector<double>& phi) {
  std::vector<double> gradient(p.train.size());
  for (size_t y = 0; y < p.continuations(); ++y) {
    for (size_t t = 0; t < p.length; ++t) {
      const double push = mass[y] * p.advantages[y] * phi[y * p.length + t];
      const size_t row = p.PrefixAt(y, t) * p.vocabulary;
      for (size_t v = 0; v < p.vocabulary; ++v)
        gradient[row + v] -= push * std::exp(p.train[row + v]);
      gradient[row + p.TokenAt(y, t)] += push;
    }
  }
  return gradient;
}

EnumerableProblem EnumerableFromLogits(size_t vocabulary, size_t length,
                                       std::span<const double> train,
                                       std::span<const double> rollout,
                                       std::vector<double> advantages) {
  size_t prefixes = 0;
  for (size_t t = 0; t < length; ++t) prefixes += Power(vocabulary, t);
  KCC_CHECK(vocabulary >= 2 && length >= 1 && train.size() == prefixes * vocabulary &&
            rollout.size() == train.size() && advantages.size() == Power(vocabulary, length));
  return {vocabulary, length, LogSoftmaxTables(train, vocabulary),
          LogSoftmaxTables(rollout, vocabulary), std::move(advantages)};
}

EnumerableProblem RandomEnumerable(size_t vocabulary, size_t length, double gap, uint64_t seed) {
  uint64_t drawn = 0;
  const auto uniform = [&] { return UniformAt(seed, drawn++); };
  const auto normal = [&] {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  };
  size_t prefixes = 0;
  for (size_t t = 0; t < length; ++t) prefixes += Power(vocabulary, t);
  std::vector<double> train, rollout, advantages;
  for (size_t i = 0; i < prefixes * vocabulary; ++i) {
    train.push_back(1.5 * normal());
    rollout.push_back(train.back() + gap * normal());
  }
  for (size_t y = 0; y < Power(vocabulary, length); ++y)
    advantages.push_back(uniform() < 0.25 ? 1.0 : 0.0);
  EnumerableProblem made =
      EnumerableFromLogits(vocabulary, length, train, rollout, std::move(advantages));
  const double mean = std::inner_product(made.advantages.begin(), made.advantages.end(),
                                         Masses(made, made.train).begin(), 0.0);
  for (double& advantage : made.advantages) advantage -= mean;
  return made;
}

double EnumerableLaws::gradient_length() const {
  return std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
}

EnumerableLaws LawsOf(const EnumerableProblem& p) {
  EnumerableLaws laws;
  const std::vector<double> rollout = Masses(p, p.rollout);
  const std::vector<double> train_logs = TokenLogs(p, p.train);
  const std::vector<double> rollout_logs = TokenLogs(p, p.rollout);
  const std::vector<double> ratio = Ratios(p);
  laws.spans.assign(p.length, 0.0);
  for (size_t y = 0; y < p.continuations(); ++y) {
    double squares = 0;
    laws.tv += rollout[y] * std::max(0.0, 1 - ratio[y]);
    laws.kl += rollout[y] * (ratio[y] - 1 - std::log(ratio[y]));
    laws.advantage_max = std::max(laws.advantage_max, std::fabs(p.advantages[y]));
    for (size_t t = 0; t < p.length; ++t) {
      const size_t at = y * p.length + t;
      laws.mean_abs_log_ratio +=
          rollout[y] * std::fabs(train_logs[at] - rollout_logs[at]) / static_cast<double>(p.length);
      const double square = ScoreSquare(p, p.PrefixAt(y, t), p.TokenAt(y, t));
      laws.score_max = std::max(laws.score_max, std::sqrt(square));
      squares += square;
    }
    laws.score_sum_max = std::max(laws.score_sum_max, std::sqrt(squares));
  }
  for (size_t t = 0, prefix = 0; t < p.length; ++t) {
    for (size_t i = 0; i < Power(p.vocabulary, t); ++i, ++prefix) {
      double low = std::numeric_limits<double>::infinity();
      double high = -low;
      for (size_t v = 0; v < p.vocabulary; ++v) {
        const size_t at = prefix * p.vocabulary + v;
        low = std::min(low, p.train[at] - p.rollout[at]);
        high = std::max(high, p.train[at] - p.rollout[at]);
      }
      laws.spans[t] = std::max(laws.spans[t], high - low);
    }
  }
  laws.gradient = MeanGradient(p, Masses(p, p.train), std::vector<double>(train_logs.size(), 1.0));
  return laws;
}

}  // namespace kcc
