// Deterministic random numbers: the same seed gives the same cases on every platform.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace kcc::bench {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {  // SplitMix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }  // [0, 1)
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  double LogUniform(double low, double high) {
    return std::exp(Uniform(std::log(low), std::log(high)));
  }
  double Normal() {
    return std::sqrt(-2 * std::log(1 - Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
  }
  int Below(int n) { return static_cast<int>(Uniform() * n); }
  bool Chance(double probability) { return Uniform() < probability; }

 private:
  uint64_t state_;
};

}  // namespace kcc::bench
