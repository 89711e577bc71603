// Rules that host and device share: differences of logits beside huge masks, which probabilities
// count as 0, and what any two distributions obey, with the slack that rounding is given. Plain, so
// that device code needs nothing else.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define KCC_HOST_DEVICE __host__ __device__
#else
#define KCC_HOST_DEVICE
#endif

namespace kcc {

// infer - train as a sum of two doubles: what the subtraction lost is found again (Knuth's
// two-sum), since a mask may be a number as large as any float. Finite logits.
struct LogitDifference {
  double high = 0;
  double low = 0;

  LogitDifference() = default;
  KCC_HOST_DEVICE LogitDifference(double train, double infer) : high(infer - train) {
    const double train_part = infer - high;
    low = (infer - (high + train_part)) + (train_part - train);
  }
  KCC_HOST_DEVICE double Less(const LogitDifference& other) const {
    return (high - other.high) + (low - other.low);
  }
};

// A log-prob below it is that of probability 0: e^-745.13 is the least positive double. Such an
// entry adds nothing to a sum that its probability weighs, and one that is so on both sides nothing
// to any divergence.
inline constexpr double kLogProbLeast = -745.13;

// A divergence may lie this far below 0, in nats.
inline constexpr double kBelowZeroMost = 1e-9;
// tv may exceed Pinsker's bound by this share of it, and by this much.
inline constexpr double kPinskerShare = 1e-4;
inline constexpr double kPinskerSlack = 1e-7;

// True for NaN.
KCC_HOST_DEVICE inline bool IsBelowZero(double divergence) {
  return !(divergence >= -kBelowZeroMost);
}

// `kl`: the smaller of the two directions. True for NaN.
KCC_HOST_DEVICE inline bool BreaksPinsker(double tv, double kl) {
  const double most = sqrt(kl > 0 ? 0.5 * kl : 0.0);
  return !(tv <= most * (1 + kPinskerShare) + kPinskerSlack);
}

}  // namespace kcc
