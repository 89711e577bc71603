// The corrections of experiment E3, and what a page says of their biases.
#include <utility>

#include "kcc/experiment/experiment_page.h"
#include "kcc/experiment/gradient_bias.h"

namespace kcc {
namespace {

constexpr double kPpoEpsilon = 0.2;

RlCorrection Weighted(RlWeightMode mode, RlLevel level, double low, double high) {
  RlCorrection made;
  made.weight = {mode, level, low, high, false};
  return made;
}

RlCorrection Rejecting(RlCorrection weighted, RlStatistic statistic, double low, double high) {
  weighted.reject = {{statistic, RlAggregate::kSequenceMean, low, high}};
  return weighted;
}

}  // namespace

std::vector<GradientCorrection> ExperimentCorrections() {
  using M = RlWeightMode;
  using L = RlLevel;
  const RlCorrection truncated = Weighted(M::kTruncate, L::kToken, 0, 2);
  return {
      {"none", {}, {}},
      {"token weights", Weighted(M::kFull, L::kToken, 0, 2), {}},
      {"token weights truncated at 2 (TIS)", truncated, {}},
      {"token weights clipped to [0.5, 2]", Weighted(M::kClip, L::kToken, 0.5, 2), {}},
      {"token weights clipped to [0.8, 1.2] (the paper's)", PaperCorrection(0.2), {}},
      {"token weights masked to [0.5, 2]", Weighted(M::kMask, L::kToken, 0.5, 2), {}},
      {"sequence weights", Weighted(M::kFull, L::kSequence, 0, 2), {}},
      {"sequence weights truncated at 2", Weighted(M::kTruncate, L::kSequence, 0, 2), {}},
      {"sequence weights masked at 2 (MIS)", Weighted(M::kMask, L::kSequence, 0, 2), {}},
      {"rejection, sequence mean k3 above 0.001", Rejecting({}, RlStatistic::kK3, 0, 0.001), {}},
      {"TIS and rejection, k3 above 0.001", Rejecting(truncated, RlStatistic::kK3, 0, 0.001), {}},
      {"TIS and rejection, k3 above 0.01", Rejecting(truncated, RlStatistic::kK3, 0, 0.01), {}},
      {"PPO's clip at 0.2, rollout log-probs as old (bypass)",
       {},
       CorrectionRange{1 - kPpoEpsilon, 1 + kPpoEpsilon}},
  };
}

size_t GradientBiases::refuted() const {
  size_t count = 0;
  for (const auto* biases : {&exact, &worst}) {
    for (const GradientBias& one : *biases) {
      count += one.refutes(one.bound);
      count += one.span_bound && one.refutes(*one.span_bound);
    }
  }
  return count;
}

Result<GradientBiases> MeasureBiases(const EnumerableProblem& problem,
                                     std::span<const GradientCorrection> corrections,
                                     size_t samples, uint64_t seed) {
  GradientBiases made;
  made.laws = LawsOf(problem);
  made.vocabulary = problem.vocabulary;
  made.length = problem.length;
  made.samples = samples;
  for (const GradientCorrection& correction : corrections) {
    KCC_TRY(GradientBias exact, BiasOf(problem, correction));
    made.exact.push_back(std::move(exact));
    KCC_TRY(const SampledBias sampled, SampleBias(problem, correction, samples, seed));
    made.sampled.push_back(sampled);
    KCC_TRY(const EnumerableProblem bad,
            WithWorstAdvantages(problem, correction, made.laws.advantage_max));
    KCC_TRY(GradientBias worst, BiasOf(bad, correction));
    made.worst.push_back(std::move(worst));
  }
  return made;
}

void WriteBiases(const GradientBiases& biases, JsonWriter* json) {
  const EnumerableLaws& laws = biases.laws;
  json->BeginObject().Field("vocabulary", biases.vocabulary).Field("length", biases.length);
  json->Field("samples", biases.samples).Field("tv", laws.tv).Field("kl", laws.kl);
  json->Field("meanAbsLogRatio", laws.mean_abs_log_ratio).Key("spans").BeginArray();
  for (const double span : laws.spans) json->Value(span);
  json->EndArray().Field("advantageMax", laws.advantage_max);
  json->Field("scoreMax", laws.score_max).Field("scoreSumMax", laws.score_sum_max);
  json->Field("gradient", laws.gradient_length()).Field("refuted", biases.refuted());
  json->Key("corrections").BeginArray();
  for (size_t i = 0; i < biases.exact.size(); ++i) {
    const GradientBias& one = biases.exact[i];
    const SampledBias& sampled = biases.sampled[i];
    json->BeginObject().Field("correction", one.name).Field("bias", one.bias);
    json->Field("relative", one.relative).Field("cosine", one.cosine).Field("bound", one.bound);
    json->Key("spanBound");
    if (one.span_bound) {
      json->Value(*one.span_bound);
    } else {
      json->Null();
    }
    json->Field("kept", one.kept).Field("secondMoment", one.second_moment);
    json->Key("worstAdvantages").BeginObject().Field("bias", biases.worst[i].bias);
    json->Field("bound", biases.worst[i].bound).EndObject();
    json->Key("sampled").BeginObject().Field("distance", sampled.distance);
    json->Field("floor", sampled.floor).Field("bias", sampled.bias()).EndObject().EndObject();
  }
  json->EndArray().EndObject();
}

std::vector<std::string> BiasTableHead() {
  return {"correction", "bias", "cosine", "bound",        "bias / bound", "worst / bound",
          "span bound", "kept", "E φ²",   "sampled bias", "floor"};
}

std::vector<std::vector<std::string>> BiasTableRows(const GradientBiases& biases) {
  const double length = biases.laws.gradient_length();
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < biases.exact.size(); ++i) {
    const GradientBias& one = biases.exact[i];
    const SampledBias& sampled = biases.sampled[i];
    // What is 0 but for rounding is 0.
    const bool none = one.bound < 1e-12;
    const GradientBias& worst = biases.worst[i];
    rows.push_back({one.name, none ? "0" : BriefNumber(one.relative), FixedNumber(one.cosine, 3),
                    none ? "0" : BriefNumber(one.bound / length),
                    none ? "" : FixedNumber(one.bias / one.bound, 3),
                    none ? "" : FixedNumber(worst.bias / worst.bound, 3),
                    one.span_bound ? BriefNumber(*one.span_bound / length) : "",
                    FixedNumber(one.kept, 3), FixedNumber(one.second_moment, 3),
                    BriefNumber(sampled.bias() / length), BriefNumber(sampled.floor / length)});
  }
  return rows;
}

}  // namespace kcc
