// Simulated streams for the error rates of the tests of this folder, reproducible from a seed on
// every platform (the standard distributions are not).
//
// Requests with correlated tokens: each request draws one shared outcome Z; each token copies Z
// with probability sqrt(icc), else draws for itself. Every token is bad with probability `rate`,
// and two tokens of one request have correlation icc exactly.
#pragma once

#include <cmath>
#include <cstdint>

namespace kcc {

class RandomStream {  // SplitMix64
 public:
  explicit RandomStream(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // [0, 1)
  bool Bernoulli(double p) { return Uniform() < p; }
  int64_t Between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

struct RequestModel {
  double rate = 0.05;
  double icc = 0;
  int64_t tokens_min = 20;
  int64_t tokens_max = 60;
  // Longer requests are worse, in proportion to their length; the ratio E[X]/E[T] stays `rate`.
  bool worse_when_longer = false;
};

struct SimulatedRequest {
  int64_t bad = 0;
  int64_t tokens = 0;
};

inline SimulatedRequest SimulateRequest(const RequestModel& model, RandomStream& random) {
  SimulatedRequest request;
  request.tokens = random.Between(model.tokens_min, model.tokens_max);
  double rate = model.rate;
  if (model.worse_when_longer) {
    const double low = static_cast<double>(model.tokens_min);
    const double high = static_cast<double>(model.tokens_max);
    const double values = high - low + 1;
    const double mean = (low + high) / 2;
    const double mean_square = mean * mean + (values * values - 1) / 12;
    rate *= static_cast<double>(request.tokens) * mean / mean_square;
  }
  const double copy = std::sqrt(model.icc);
  const bool shared = random.Bernoulli(rate);
  for (int64_t i = 0; i < request.tokens; ++i) {
    const bool bad = random.Bernoulli(copy) ? shared : random.Bernoulli(rate);
    request.bad += bad ? 1 : 0;
  }
  return request;
}

// P(a request has at least one bad token), exact; for models with worse_when_longer unset.
inline double RateOfAnyBad(const RequestModel& model) {
  const double copy = std::sqrt(model.icc);
  const double good_alone = (1 - copy) * (1 - model.rate);
  double none = 0;
  for (int64_t t = model.tokens_min; t <= model.tokens_max; ++t) {
    const double n = static_cast<double>(t);
    none +=
        (1 - model.rate) * std::pow(copy + good_alone, n) + model.rate * std::pow(good_alone, n);
  }
  return 1 - none / static_cast<double>(model.tokens_max - model.tokens_min + 1);
}

}  // namespace kcc
