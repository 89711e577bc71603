#include "bench/rl/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

namespace kcc::bench {
namespace {

constexpr size_t kVocabulary = 48;
using Row = std::array<double, kVocabulary>;

Row LogSoftmax(const Row& logits, double temperature) {
  Row out;
  double peak = -1e300, sum = 0;
  for (const double z : logits) peak = std::max(peak, z / temperature);
  for (const double z : logits) sum += std::exp(z / temperature - peak);
  const double norm = peak + std::log(sum);
  for (size_t v = 0; v < kVocabulary; ++v) out[v] = logits[v] / temperature - norm;
  return out;
}

// Keeps the k most likely tokens, or the fewest that reach mass p, and renormalises.
Row CutTo(const Row& logprobs, double p, size_t k) {
  std::array<size_t, kVocabulary> order;
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return logprobs[a] > logprobs[b]; });
  Row out;
  out.fill(-1e300);
  double mass = 0;
  for (size_t i = 0; i < kVocabulary; ++i) {
    if (i >= k || (i > 0 && mass >= p)) break;
    out[order[i]] = logprobs[order[i]];
    mass += std::exp(logprobs[order[i]]);
  }
  for (double& x : out) x = x > -1e299 ? x - std::log(mass) : x;
  return out;
}

float ToBf16(double x) {
  auto value = static_cast<float>(x);
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

class Maker {
 public:
  Maker(const SyntheticFault& fault, double noise, uint64_t seed)
      : fault_(fault), noise_(noise), random_(seed) {}

  // One token: context, sample, the two reported log-probs.
  std::pair<double, double> Token(double advantage) {
    const double sharpness = uniform_(random_) < 0.5 ? 7 : 1 + 2 * uniform_(random_);
    // Some experts or positions are far noisier than the rest.
    const double noise = noise_ * (uniform_(random_) < 0.02 ? 5 : 1);
    const double other = fault_.fault == RlFault::kOtherWeights ? fault_.strength : 0;
    Row logits, train_logits;
    for (size_t v = 0; v < kVocabulary; ++v) {
      logits[v] = sharpness * normal_(random_);
      train_logits[v] = logits[v] + noise * normal_(random_) + other * normal_(random_);
    }
    const bool tempered =
        fault_.fault == RlFault::kTemperature || fault_.fault == RlFault::kRawVsProcessed;
    const double temperature = tempered ? fault_.strength : 1;
    Row sampled = LogSoftmax(logits, temperature);
    if (fault_.fault == RlFault::kKeptMass) {
      const bool by_k = fault_.strength >= 1;
      sampled = CutTo(sampled, by_k ? 2 : fault_.strength,
                      by_k ? static_cast<size_t>(fault_.strength) : kVocabulary);
    }
    const size_t y = Sample(sampled);
    const bool raw = fault_.fault == RlFault::kRawVsProcessed;
    const double rollout = raw ? LogSoftmax(logits, 1)[y] : sampled[y];
    if (fault_.fault == RlFault::kStale && fault_.variant == "weights") {
      train_logits[y] += fault_.strength * advantage;
    }
    return {LogSoftmax(train_logits, raw ? temperature : 1)[y], rollout};
  }

  double Uniform() { return uniform_(random_); }
  double Normal() { return normal_(random_); }

 private:
  size_t Sample(const Row& logprobs) {
    double left = uniform_(random_);
    for (size_t v = 0; v < kVocabulary; ++v) {
      left -= std::exp(logprobs[v]);
      if (left <= 0 && logprobs[v] > -1e299) return v;
    }
    return static_cast<size_t>(std::max_element(logprobs.begin(), logprobs.end()) -
                               logprobs.begin());
  }

  const SyntheticFault& fault_;
  double noise_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

// What happens to a finished row.
void SpoilRow(const SyntheticFault& fault, Maker& maker, std::vector<double>& train,
              std::vector<double>& rollout) {
  const size_t count = train.size();
  switch (fault.fault) {
    case RlFault::kShift:
      if (fault.strength > 0) {
        std::rotate(rollout.begin(), rollout.begin() + 1, rollout.end());
      } else {
        std::rotate(rollout.rbegin(), rollout.rbegin() + 1, rollout.rend());
      }
      return;
    case RlFault::kTokenization: {
      if (maker.Uniform() > fault.strength) return;
      const auto from =
          static_cast<size_t>((0.1 + 0.6 * maker.Uniform()) * static_cast<double>(count));
      for (size_t i = from; i < count; ++i) train[i] = maker.Token(0).first;
      return;
    }
    case RlFault::kStale:
      if (fault.variant != "arrays" || maker.Uniform() > fault.strength) return;
      for (double& x : rollout) x = maker.Token(0).second;
      return;
    case RlFault::kSentinel: {
      const double value = fault.variant == "zero" ? 0 : fault.variant == "-20" ? -20 : -9999;
      for (double& x : rollout) {
        if (maker.Uniform() < fault.strength) x = value;
      }
      return;
    }
    case RlFault::kVacuous:
      train = rollout;
      return;
    default:
      return;
  }
}

}  // namespace

RlBatch SyntheticBatch::View() const {
  RlBatch batch;
  batch.rows = rows;
  batch.columns = columns;
  batch.train = {train.data(), RlType::kF32, columns};
  batch.rollout = {rollout.data(), RlType::kF32, columns};
  batch.mask = {mask.data(), RlType::kU8, columns};
  batch.advantages = {advantages.data(), RlType::kF64, 1};
  return batch;
}

std::vector<SyntheticFault> FaultGrid() {
  using S = Severity;
  std::vector<SyntheticFault> grid = {{RlFault::kNone, "float32", 0, S::kModerate},
                                      {RlFault::kNone, "bfloat16", 0, S::kModerate}};
  const auto add = [&](RlFault fault, std::string variant,
                       std::initializer_list<std::pair<double, S>> strengths) {
    for (const auto& [strength, severity] : strengths) {
      grid.push_back({fault, variant, strength, severity});
    }
  };
  add(RlFault::kTemperature, "temperature",
      {{0.95, S::kMild},
       {0.85, S::kModerate},
       {0.7, S::kModerate},
       {0.6, S::kSevere},
       {1.05, S::kMild},
       {1.2, S::kModerate},
       {1.5, S::kSevere}});
  add(RlFault::kRawVsProcessed, "temperature",
      {{0.95, S::kMild},
       {0.8, S::kModerate},
       {0.7, S::kModerate},
       {0.6, S::kSevere},
       {1.2, S::kModerate},
       {1.3, S::kModerate},
       {1.5, S::kSevere}});
  add(RlFault::kKeptMass, "top_p",
      {{0.99, S::kMild}, {0.95, S::kModerate}, {0.9, S::kModerate}, {0.8, S::kSevere}});
  add(RlFault::kKeptMass, "top_k",
      {{30, S::kMild}, {20, S::kModerate}, {10, S::kModerate}, {5, S::kSevere}});
  add(RlFault::kShift, "positions", {{1, S::kModerate}, {-1, S::kModerate}});
  add(RlFault::kTokenization, "rows",
      {{0.05, S::kMild}, {0.2, S::kModerate}, {0.5, S::kModerate}, {1, S::kSevere}});
  add(RlFault::kOtherWeights, "logit noise",
      {{0.3, S::kMild}, {0.8, S::kModerate}, {1.2, S::kModerate}, {2, S::kSevere}});
  add(RlFault::kStale, "weights",
      {{0.005, S::kMild}, {0.05, S::kModerate}, {0.2, S::kModerate}, {0.4, S::kSevere}});
  add(RlFault::kStale, "arrays",
      {{0.05, S::kMild}, {0.25, S::kModerate}, {0.5, S::kModerate}, {1, S::kSevere}});
  for (const char* value : {"zero", "-20", "-9999"}) {
    add(RlFault::kSentinel, value,
        {{0.0005, S::kMild}, {0.005, S::kModerate}, {0.05, S::kModerate}, {0.3, S::kSevere}});
  }
  add(RlFault::kEverythingMasked, "mask", {{0, S::kModerate}});
  add(RlFault::kVacuous, "copied", {{0, S::kModerate}});
  return grid;
}

SyntheticBatch MakeBatch(const SyntheticFault& fault, double logit_noise, int64_t rows,
                         int64_t columns, uint64_t seed) {
  Maker maker(fault, logit_noise, seed);
  SyntheticBatch batch;
  batch.rows = rows;
  batch.columns = columns;
  const bool rounded = fault.variant == "bfloat16";
  for (int64_t r = 0; r < rows; ++r) {
    const double advantage = maker.Normal();
    batch.advantages.push_back(advantage);
    const auto length =
        static_cast<size_t>(static_cast<double>(columns) * (0.4 + 0.6 * maker.Uniform()));
    std::vector<double> train, rollout;
    for (size_t t = 0; t < length; ++t) {
      const auto [a, b] = maker.Token(advantage);
      train.push_back(a);
      rollout.push_back(b);
    }
    SpoilRow(fault, maker, train, rollout);
    for (int64_t t = 0; t < columns; ++t) {
      const bool inside = static_cast<size_t>(t) < length;
      const double a = inside ? train[static_cast<size_t>(t)] : 0;
      const double b = inside ? rollout[static_cast<size_t>(t)] : 0;
      batch.train.push_back(rounded ? ToBf16(a) : static_cast<float>(a));
      batch.rollout.push_back(rounded ? ToBf16(b) : static_cast<float>(b));
      batch.mask.push_back(inside && fault.fault != RlFault::kEverythingMasked);
    }
  }
  return batch;
}

}  // namespace kcc::bench
