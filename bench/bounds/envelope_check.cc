#include "bench/bounds/envelope_check.h"

#include <cmath>
#include <cstdio>

#include "bench/bounds/local_check.h"
#include "bench/bounds/toy_transformer.h"

namespace kcc::bench {
namespace {

// One source of error: what the emulated kernel does and how it is described.
struct SourceCase {
  std::string name;
  ToyKernel kernel;
  KernelDescription description;
};

constexpr double kFp32 = 0x1p-24;
constexpr double kExpError = 0x1p-22;  // expf's, with room

SourceCase Weights(const std::string& name, const QuantizerDescription& quantizer) {
  SourceCase c{name, {}, {}};
  c.description.weights = quantizer;
  c.description.quantizes_lm_head = true;
  return c;
}

SourceCase Reduction(const std::string& name, Schedule schedule, int64_t block) {
  SourceCase c{name, {}, {}};
  c.kernel.fp32 = true;
  c.kernel.rounds_store = true;
  c.kernel.schedule = c.description.schedule = schedule;
  c.kernel.block = c.description.block = block;
  c.description.u_accumulate = c.description.u_store = kFp32;
  c.description.exp_error = kExpError;
  return c;
}

SourceCase Storage(const std::string& name, DType dtype) {
  SourceCase c{name, {}, {}};
  c.kernel.rounds_store = true;
  c.kernel.store = dtype;
  c.description.u_store = FloatFormatOf(dtype).unit_roundoff;
  return c;
}

SourceCase Attention(const std::string& name, int64_t tile, bool bf16) {
  SourceCase c{name, {}, {}};
  c.kernel.fp32_attention = true;
  c.kernel.attention_tile = c.description.attention_tile = tile;
  c.kernel.bf16_probabilities = bf16;
  c.description.u_attention = kFp32;
  c.description.exp_error = kExpError;
  c.description.u_probability = bf16 ? 0x1p-8 : 0;
  return c;
}

SourceCase Cache(const std::string& name, const QuantizerDescription& quantizer) {
  SourceCase c{name, {}, {}};
  c.kernel.kv_cache = c.description.kv_cache = quantizer;
  return c;
}

std::vector<SourceCase> Sources() {
  const auto integer = [](int bits, Granularity granularity) {
    return QuantizerDescription{Quantizer::kInt, bits, DType::kF8E4M3, granularity};
  };
  const auto fp8 = [](DType dtype, Granularity granularity) {
    return QuantizerDescription{Quantizer::kScaledFloat, 8, dtype, granularity};
  };
  std::vector<SourceCase> sources = {
      Weights("weights INT8 per tensor", integer(8, Granularity::kPerTensor)),
      Weights("weights INT8 per channel", integer(8, Granularity::kPerChannel)),
      Weights("weights INT4 per group", integer(4, Granularity::kPerGroup)),
      Weights("weights E4M3 per tensor", fp8(DType::kF8E4M3, Granularity::kPerTensor)),
      Weights("weights E4M3 per channel", fp8(DType::kF8E4M3, Granularity::kPerChannel)),
      Weights("weights E5M2 per tensor", fp8(DType::kF8E5M2, Granularity::kPerTensor)),
      Reduction("fp32, sequential", Schedule::kSequential, 1),
      Reduction("fp32, backwards", Schedule::kAnyOrder, 1),
      Reduction("fp32, pairwise", Schedule::kPairwise, 1),
      Reduction("fp32, k-tiles of 8", Schedule::kTiled, 8),
      Reduction("fp32, split-K 4", Schedule::kSplitK, 4),
      Attention("attention tiles of 4, fp32", 4, false),
      Attention("attention tiles of 4, P in bf16", 4, true),
      Storage("activations in bf16", DType::kBF16),
      Storage("activations in fp16", DType::kF16),
      Cache("KV cache INT8", integer(8, Granularity::kPerTensor)),
      Cache("KV cache E4M3", fp8(DType::kF8E4M3, Granularity::kPerTensor)),
  };
  SourceCase activations{"activations E4M3", {}, {}};
  activations.kernel.activations = activations.description.activations =
      fp8(DType::kF8E4M3, Granularity::kPerTensor);
  sources.push_back(activations);
  SourceCase logits{"logits in bf16", {}, {}};
  logits.kernel.rounds_logits = true;
  logits.description.u_logits = 0x1p-8;
  sources.push_back(logits);
  return sources;
}

double LargestDifference(const Logits& a, const Logits& b) {
  double most = 0;
  for (size_t t = 0; t < a.size(); ++t) {
    for (size_t v = 0; v < a[t].size(); ++v) most = std::fmax(most, std::fabs(a[t][v] - b[t][v]));
  }
  return most;
}

void Measure(const ToyTransformer& network, const ModelDescription& model, const Logits& exact,
             const std::vector<int>& tokens, const SourceCase& source, EnvelopeFinding& finding) {
  const bool quantized = source.description.weights.quantizer != Quantizer::kExact;
  const Logits drifted =
      Forward(quantized ? QuantizeWeights(network, source.description.weights, true) : network,
              source.kernel, tokens, nullptr);
  const double measured = LargestDifference(exact, drifted);
  const Envelope worst = EnvelopeOf(model, source.description);
  const Envelope likely = EnvelopeOf(model, source.description, EnvelopeForm::kStatistical);
  finding.networks += 1;
  finding.measured = std::fmax(finding.measured, measured);
  finding.worst_case =
      finding.networks == 1 ? worst.linf : std::fmin(finding.worst_case, worst.linf);
  finding.best_ratio = std::fmax(finding.best_ratio, measured / worst.linf);
  finding.statistical_ratio = std::fmax(finding.statistical_ratio, measured / likely.linf);
  finding.vacuous += worst.vacuous;
  finding.violations += !(measured <= worst.linf);
}

}  // namespace

std::vector<EnvelopeFinding> CheckEnvelopes(int networks, uint64_t seed) {
  const std::vector<SourceCase> sources = Sources();
  std::vector<EnvelopeFinding> findings;
  for (const int64_t layers : {1, 2, 4}) {
    const size_t first = findings.size();
    for (const SourceCase& source : sources) {
      findings.push_back({source.name, layers, 0, 0, 0, 0, 0, 0, 0});
    }
    Random random(seed + static_cast<uint64_t>(layers));
    for (int n = 0; n < networks; ++n) {
      const ToyTransformer network = ToyTransformer::Sample(random, layers);
      std::vector<int> tokens(12);
      for (int& token : tokens) token = random.Below(static_cast<int>(network.vocabulary));
      ModelDescription model = Describe(network, static_cast<int64_t>(tokens.size()));
      const Logits exact = Forward(network, {}, tokens, &model);
      for (size_t s = 0; s < sources.size(); ++s) {
        Measure(network, model, exact, tokens, sources[s], findings[first + s]);
      }
    }
  }
  return findings;
}

int PrintEnvelopes(int networks, uint64_t seed) {
  int violations = 0;
  std::printf("\n### Operators (local bounds, on the kernel's own inputs)\n\n");
  std::printf("| operator | elements | largest error/bound | violations |\n|---|---:|---:|---:|\n");
  for (const LocalFinding& f : CheckOperators(20000, seed)) {
    std::printf("| %s | %lld | %.3g | %lld |\n", f.op.c_str(), static_cast<long long>(f.elements),
                f.best_ratio, static_cast<long long>(f.violations));
    violations += f.violations > 0;
  }
  std::printf("\n### Envelopes (d=32, 4 heads, SwiGLU 64, V=96, 12 tokens)\n\n");
  std::printf(
      "| source | layers | networks | measured linf, max | envelope, min | measured/envelope, "
      "max | measured/statistical, max | vacuous | violations |\n");
  std::printf("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const EnvelopeFinding& f : CheckEnvelopes(networks, seed)) {
    std::printf("| %s | %lld | %d | %.3g | %.3g | %.2g | %.2g | %d | %d |\n", f.source.c_str(),
                static_cast<long long>(f.layers), f.networks, f.measured, f.worst_case,
                f.best_ratio, f.statistical_ratio, f.vacuous, f.violations);
    violations += f.violations;
  }
  return violations == 0 ? 0 : 1;
}

}  // namespace kcc::bench
