#include "bench/rl/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
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
  Maker(const SyntheticFault& fault, double noise, const SyntheticWorld& world, uint64_t seed)
      : fault_(fault), world_(world), noise_(noise), random_(seed) {}

  // What rows differ in.
  void BeginRow() {
    const bool varies = world_.family == NoiseFamily::kHeteroscedastic;
    row_scale_ = varies ? std::exp(0.7 * normal_(random_)) : 1;
  }

  // One token: context, sample, the two reported log-probs. `place` in [0, 1) is how far in the
  // row.
  std::pair<double, double> Token(double advantage, double place) {
    const double sharpness =
        uniform_(random_) < world_.sharp_share
            ? 7
            : world_.sharpness_low +
                  (world_.sharpness_high - world_.sharpness_low) * uniform_(random_);
    // Some experts or positions are far noisier than the rest.
    double noise = noise_ * row_scale_ * (uniform_(random_) < 0.02 ? 5 : 1);
    if (world_.family == NoiseFamily::kHeteroscedastic) noise *= 1 + 4 * place;
    const double other = fault_.fault == RlFault::kOtherWeights ? fault_.strength : 0;
    Row logits, train_logits;
    for (size_t v = 0; v < kVocabulary; ++v) {
      logits[v] = sharpness * normal_(random_);
      train_logits[v] = logits[v] + noise * Noise() + other * normal_(random_);
      if (world_.family == NoiseFamily::kBf16Logits) {
        train_logits[v] = static_cast<double>(ToBf16(train_logits[v]));
      }
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

  double Noise() {
    if (world_.family == NoiseFamily::kLaplace) {
      const double u = uniform_(random_) - 0.5;
      return std::copysign(std::log1p(-2 * std::fabs(u) * (1 - 1e-12)), u) / std::sqrt(2.0);
    }
    if (world_.family != NoiseFamily::kStudentT) return normal_(random_);
    double square = 0;
    for (int i = 0; i < 3; ++i) {
      const double z = normal_(random_);
      square += z * z;
    }
    return normal_(random_) / std::sqrt(std::max(1e-9, square));  // t / sqrt 3: spread 1
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
  const SyntheticWorld& world_;
  double noise_;
  double row_scale_ = 1;
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
      for (size_t i = from; i < count; ++i) train[i] = maker.Token(0, 0.5).first;
      return;
    }
    case RlFault::kStale:
      if (fault.variant != "arrays" || maker.Uniform() > fault.strength) return;
      for (double& x : rollout) x = maker.Token(0, 0.5).second;
      return;
    case RlFault::kSentinel: {
      const double value = fault.variant == "zero" ? 0 : std::atof(fault.variant.c_str());
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
  const auto add = [&](RlFault fault, const std::string& variant,
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

SyntheticWorld HomeWorld() { return {.name = "home"}; }

std::vector<SyntheticWorld> HeldOutWorlds() {
  return {
      {.name = "Student t", .family = NoiseFamily::kStudentT, .noises = {0.001, 0.01, 0.03}},
      {.name = "heteroscedastic",
       .family = NoiseFamily::kHeteroscedastic,
       .rows = 96,
       .columns = 120,
       .noises = {0.001, 0.005, 0.01}},
      {.name = "bfloat16 logits",
       .family = NoiseFamily::kBf16Logits,
       .rows = 48,
       .columns = 240,
       .noises = {0.001, 0.01}},
      {.name = "bfloat16 log-probs",
       .family = NoiseFamily::kBf16Logprobs,
       .noises = {0.001, 0.01, 0.03}},
      {.name = "flatter contexts",
       .rows = 80,
       .columns = 160,
       .sharp_share = 0.3,
       .sharpness_low = 2,
       .sharpness_high = 4,
       .noises = {0.001, 0.01, 0.03}},
      {.name = "bfloat16 rollout",
       .family = NoiseFamily::kBf16Rollout,
       .rows = 72,
       .columns = 150,
       .noises = {0.001, 0.02}},
      {.name = "Laplace", .family = NoiseFamily::kLaplace, .rows = 56, .noises = {0.002, 0.02}},
      {.name = "sure tokens",
       .family = NoiseFamily::kSureTokens,
       .sharp_share = 0.6,
       .noises = {0.001, 0.02}},
  };
}

std::vector<SyntheticFault> HeldOutGrid() {
  std::vector<SyntheticFault> grid = {{RlFault::kNone, "clean", 0, Severity::kModerate}};
  const auto add = [&](RlFault fault, const char* variant, std::initializer_list<double> all) {
    for (const double strength : all)
      grid.push_back({fault, variant, strength, Severity::kModerate});
  };
  add(RlFault::kTemperature, "temperature", {0.65, 0.75, 0.8, 1.25, 1.4});
  add(RlFault::kRawVsProcessed, "temperature", {0.65, 0.75, 1.25, 1.4});
  add(RlFault::kKeptMass, "top_p", {0.93, 0.85});
  add(RlFault::kKeptMass, "top_k", {15, 8});
  add(RlFault::kShift, "positions", {1, -1});
  add(RlFault::kTokenization, "rows", {0.3, 0.7});
  add(RlFault::kOtherWeights, "logit noise", {1.0, 1.5});
  add(RlFault::kStale, "weights", {0.1, 0.15});
  add(RlFault::kStale, "arrays", {0.35, 0.7});
  for (const char* value : {"-10", "-100"}) add(RlFault::kSentinel, value, {0.01, 0.1});
  add(RlFault::kEverythingMasked, "mask", {0});
  add(RlFault::kVacuous, "copied", {0});
  return grid;
}

SyntheticBatch MakeBatch(const SyntheticFault& fault, double logit_noise,
                         const SyntheticWorld& world, uint64_t seed) {
  Maker maker(fault, logit_noise, world, seed);
  const int64_t rows = world.rows, columns = world.columns;
  SyntheticBatch batch;
  batch.rows = rows;
  batch.columns = columns;
  const bool engine_rounds = world.family == NoiseFamily::kBf16Rollout;
  const bool both_round =
      fault.variant == "bfloat16" || world.family == NoiseFamily::kBf16Logprobs ||
      (engine_rounds && fault.fault == RlFault::kVacuous);  // a copy is of what was rounded
  for (int64_t r = 0; r < rows; ++r) {
    maker.BeginRow();
    const double advantage = maker.Normal();
    batch.advantages.push_back(advantage);
    const auto length =
        static_cast<size_t>(static_cast<double>(columns) * (0.4 + 0.6 * maker.Uniform()));
    std::vector<double> train, rollout;
    for (size_t t = 0; t < length; ++t) {
      const double place = static_cast<double>(t) / static_cast<double>(length);
      const auto [a, b] = maker.Token(advantage, place);
      const double sure = world.family == NoiseFamily::kSureTokens ? -0.002 : 1;
      train.push_back(a > sure ? 0 : a);
      rollout.push_back(b > sure ? 0 : b);
    }
    SpoilRow(fault, maker, train, rollout);
    for (int64_t t = 0; t < columns; ++t) {
      const bool inside = static_cast<size_t>(t) < length;
      const double a = inside ? train[static_cast<size_t>(t)] : 0;
      const double b = inside ? rollout[static_cast<size_t>(t)] : 0;
      batch.train.push_back(both_round ? ToBf16(a) : static_cast<float>(a));
      batch.rollout.push_back(both_round || engine_rounds ? ToBf16(b) : static_cast<float>(b));
      batch.mask.push_back(inside && fault.fault != RlFault::kEverythingMasked);
    }
  }
  return batch;
}

}  // namespace kcc::bench
