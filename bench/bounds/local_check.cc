#include "bench/bounds/local_check.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/bounds/fp32_dot.h"
#include "bench/bounds/random.h"
#include "bench/bounds/toy_quantize.h"
#include "kcc/bounds/operator_error.h"

namespace kcc::bench {
namespace {

constexpr double kU = 0x1p-24;
constexpr double kExpError = 0x1p-22;

class Checker {
 public:
  explicit Checker(LocalFinding& finding) : finding_(finding) {}
  void operator()(double computed, double exact, double bound) {
    const double error = std::fabs(computed - exact);
    ++finding_.elements;
    finding_.violations += !(error <= bound);
    if (bound > 0) finding_.best_ratio = std::fmax(finding_.best_ratio, error / bound);
  }

 private:
  LocalFinding& finding_;
};

std::vector<double> SampleVector(Random& random, int64_t n, double scale) {
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(scale * random.Normal()));
  return x;
}

struct DotParts {
  double exact = 0;
  double abs = 0;
};
DotParts ExactDot(const std::vector<double>& a, const std::vector<double>& b) {
  DotParts parts;
  for (size_t i = 0; i < a.size(); ++i) {
    parts.exact += a[i] * b[i];
    parts.abs += std::fabs(a[i] * b[i]);
  }
  return parts;
}

void LinearOp(Random& random, Schedule schedule, int64_t block, bool bf16_store, Checker check) {
  const int64_t n = 1 + random.Below(96);
  const auto w = SampleVector(random, n, 1);
  // Addends of one sign or nearly equal ones accumulate rounding fastest.
  auto x = SampleVector(random, n, 1);
  if (random.Chance(0.5)) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::copysign(x[i], w[i]);
  }
  const DotParts parts = ExactDot(w, x);
  double y = static_cast<double>(Fp32Dot(w.data(), x.data()).Run(schedule, n, block));
  if (bf16_store) y = RoundTo(DType::kBF16, y);
  const double factor = ReductionFactor(schedule, n, block, kU, true);
  check(y, parts.exact,
        LinearError(factor, parts.abs, std::fabs(parts.exact), bf16_store ? 0x1p-8 : 0));
}

void QuantizedWeight(Random& random, const QuantizerDescription& quantizer, Checker check) {
  const int64_t n = 16 + random.Below(48);
  const auto w = SampleVector(random, n, random.LogUniform(1e-3, 10));
  auto q = w;
  QuantizeVector(q.data(), n, quantizer);
  double max_abs = 0;
  for (const double v : w) max_abs = std::fmax(max_abs, std::fabs(v));
  // Weight by weight: a matrix error is a sum of these.
  for (size_t i = 0; i < w.size(); ++i) {
    double bound = 0;
    if (quantizer.quantizer == Quantizer::kInt) {
      bound = IntError(quantizer.bits, IntStep(quantizer.bits, max_abs));
    } else {
      const FloatFormat format = FloatFormatOf(quantizer.format);
      bound = ScaledFloatError(format, max_abs / format.largest, std::fabs(w[i])) +
              0x1p-22 * std::fabs(w[i]);
    }
    check(q[i], w[i], bound);
  }
}

void RmsNormOp(Random& random, Checker check) {
  const int64_t n = 4 + random.Below(60);
  const auto x = SampleVector(random, n, random.LogUniform(1e-2, 100));
  const double exact_mean = ExactDot(x, x).exact / static_cast<double>(n);
  const float sum = Fp32Dot(x.data(), x.data()).Run(Schedule::kSequential, n, 1);
  const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(n));
  const double relative = RmsNormRelativeError(n, kU, 0);
  for (const double v : x) {
    const double exact = v / std::sqrt(exact_mean);
    check(static_cast<double>(static_cast<float>(v) * inverse), exact, relative * std::fabs(exact));
  }
}

void RopeOp(Random& random, Checker check) {
  const double position = random.Below(4096);
  const double frequency = random.LogUniform(1e-4, 1);
  const auto pair = SampleVector(random, 2, 1);
  const double c = std::cos(position * frequency);
  const double s = std::sin(position * frequency);
  const float angle = static_cast<float>(position) * static_cast<float>(frequency);
  const auto a = static_cast<float>(pair[0]);
  const auto b = static_cast<float>(pair[1]);
  const float y0 = a * std::cos(angle) - b * std::sin(angle);
  const float y1 = a * std::sin(angle) + b * std::cos(angle);
  // The frequency's own rounding and the product's: two units of the angle.
  const double bound =
      RopeRelativeError(position, frequency, 2 * kU, 2 * kU, 0) * std::hypot(pair[0], pair[1]);
  const double error = std::hypot(static_cast<double>(y0) - (pair[0] * c - pair[1] * s),
                                  static_cast<double>(y1) - (pair[0] * s + pair[1] * c));
  check(error, 0, bound);
}

void ScoreOp(Random& random, Checker check) {
  const int64_t n = 8 << random.Below(4);
  const auto q = SampleVector(random, n, 2);
  const auto k = SampleVector(random, n, 2);
  const DotParts parts = ExactDot(q, k);
  const double scale = 1 / std::sqrt(static_cast<double>(n));
  const float s = Fp32Dot(q.data(), k.data()).Run(Schedule::kSequential, n, 1) *
                  (1.0f / std::sqrt(static_cast<float>(n)));
  check(static_cast<double>(s), parts.exact * scale,
        ScoreError(n, kU, parts.abs, std::fabs(parts.exact * scale), 0));
}

void AttentionOp(Random& random, bool bf16, Checker check) {
  const int64_t keys = 1 + random.Below(64);
  const int64_t tile = 1 + random.Below(16);
  const auto s = SampleVector(random, keys, random.LogUniform(0.1, 8));
  const auto v = SampleVector(random, keys, 1);
  const double top = *std::max_element(s.begin(), s.end());
  const double range = top - *std::min_element(s.begin(), s.end());
  double total = 0, exact = 0, weighted = 0;
  for (size_t j = 0; j < s.size(); ++j) {
    const double p = std::exp(s[j] - top);
    total += p;
    exact += p * v[j];
    weighted += p * std::fabs(v[j]);
  }
  float m = -INFINITY, sum = 0, o = 0;
  for (int64_t begin = 0; begin < keys; begin += tile) {
    const int64_t end = std::min(begin + tile, keys);
    float next = m;
    for (int64_t j = begin; j < end; ++j)
      next = std::fmax(next, static_cast<float>(s[static_cast<size_t>(j)]));
    const float rescale = std::exp(m - next);
    m = next;
    float tile_sum = 0, tile_o = 0;
    for (int64_t j = begin; j < end; ++j) {
      const auto at = static_cast<size_t>(j);
      const float p = std::exp(static_cast<float>(s[at]) - m);
      tile_sum += p;
      tile_o += (bf16 ? BF16ToFloat(FloatToBF16(p)) : p) * static_cast<float>(v[at]);
    }
    sum = sum * rescale + tile_sum;
    o = o * rescale + tile_o;
  }
  const AttentionTiling tiling = {keys, tile, kU, kExpError, bf16 ? 0x1p-8 : 0};
  check(static_cast<double>(o / sum), exact / total,
        AttentionRelativeError(tiling, range) * weighted / total);
}

void ScoreDriftOp(Random& random, Checker check) {
  const int64_t keys = 2 + random.Below(6);
  const auto s = SampleVector(random, keys, 2);
  auto d = SampleVector(random, keys, random.LogUniform(1e-3, 3));
  auto v = SampleVector(random, keys, 1);
  if (random.Chance(0.5)) {  // two-valued: the extremal shape
    for (size_t j = 0; j < v.size(); ++j) {
      v[j] = v[j] > 0 ? 1 : 0;
      d[j] = v[j] * d[0];
    }
  }
  double z = 0, z2 = 0, o = 0, o2 = 0;
  for (size_t j = 0; j < s.size(); ++j) {
    z += std::exp(s[j]);
    z2 += std::exp(s[j] + d[j]);
    o += std::exp(s[j]) * v[j];
    o2 += std::exp(s[j] + d[j]) * v[j];
  }
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  const auto [d_low, d_high] = std::minmax_element(d.begin(), d.end());
  check(o2 / z2, o / z, AttentionScoreDriftError(*d_high - *d_low, *high - *low) + 1e-14);
}

void GatedOp(Random& random, Checker check) {
  const double a = SampleVector(random, 1, 3)[0];
  const double b = SampleVector(random, 1, 3)[0];
  const double exact = a / (1 + std::exp(-a)) * b;
  const auto fa = static_cast<float>(a);
  const float h = fa / (1.0f + std::exp(-fa)) * static_cast<float>(b);
  check(static_cast<double>(h), exact,
        GatedRelativeError(kExpError, kU, 0) * std::fabs(exact) + 1e-15 * std::fabs(exact));
}

void StoreOp(Random& random, Checker check) {
  const double z = SampleVector(random, 1, random.LogUniform(0.1, 40))[0];
  check(RoundTo(DType::kBF16, z), z, StoreError(std::fabs(z), 0x1p-8));
}

void KeyErrorOp(Random& random, Checker check) {
  const int64_t n = 8;
  const auto q = SampleVector(random, n, 1);
  double least = INFINITY, most = -INFINITY, largest = 0;
  for (int j = 0; j < 6; ++j) {
    const auto k = SampleVector(random, n, 1);
    auto cached = k;
    QuantizeVector(cached.data(), n, {Quantizer::kInt, 8, DType::kF8E4M3, Granularity::kPerTensor});
    double ds = 0, abs = 0;
    for (size_t i = 0; i < q.size(); ++i) {
      ds += q[i] * (cached[i] - k[i]) / std::sqrt(8.0);
      abs += std::fabs(q[i] * (cached[i] - k[i]));
    }
    least = std::fmin(least, ds);
    most = std::fmax(most, ds);
    largest = std::fmax(largest, abs);
  }
  check(most - least, 0, KeyErrorScoreSpan(largest, n));
}

}  // namespace

std::vector<LocalFinding> CheckOperators(int repeats, uint64_t seed) {
  const auto integer = [](int bits) {
    return QuantizerDescription{Quantizer::kInt, bits, DType::kF8E4M3, Granularity::kPerTensor};
  };
  const auto fp8 = [](DType dtype) {
    return QuantizerDescription{Quantizer::kScaledFloat, 8, dtype, Granularity::kPerTensor};
  };
  using Op = std::function<void(Random&, Checker)>;
  const auto linear = [](Schedule schedule, int64_t block, bool bf16) -> Op {
    return [=](Random& r, Checker c) { LinearOp(r, schedule, block, bf16, c); };
  };
  const auto weight = [](QuantizerDescription quantizer) -> Op {
    return [=](Random& r, Checker c) { QuantizedWeight(r, quantizer, c); };
  };
  const std::vector<std::pair<std::string, Op>> ops = {
      {"linear, sequential fp32", linear(Schedule::kSequential, 1, false)},
      {"linear, backwards (any order)", linear(Schedule::kAnyOrder, 1, false)},
      {"linear, pairwise", linear(Schedule::kPairwise, 1, false)},
      {"linear, k-tiles of 8", linear(Schedule::kTiled, 8, false)},
      {"linear, split-K 4", linear(Schedule::kSplitK, 4, false)},
      {"linear, stored in bf16", linear(Schedule::kSequential, 1, true)},
      {"weights INT8", weight(integer(8))},
      {"weights INT4", weight(integer(4))},
      {"weights E4M3", weight(fp8(DType::kF8E4M3))},
      {"weights E5M2", weight(fp8(DType::kF8E5M2))},
      {"RMSNorm", RmsNormOp},
      {"RoPE, fp32 angles", RopeOp},
      {"scores", ScoreOp},
      {"attention, any tiling", [](Random& r, Checker c) { AttentionOp(r, false, c); }},
      {"attention, P in bf16", [](Random& r, Checker c) { AttentionOp(r, true, c); }},
      {"attention, drifted scores", ScoreDriftOp},
      {"SiLU times gate", GatedOp},
      {"KV cache INT8, score span", KeyErrorOp},
      {"logits stored in bf16", StoreOp},
  };
  std::vector<LocalFinding> findings;
  Random random(seed);
  for (const auto& [name, op] : ops) {
    LocalFinding finding{name, 0, 0, 0};
    for (int i = 0; i < repeats; ++i) op(random, Checker(finding));
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace kcc::bench
