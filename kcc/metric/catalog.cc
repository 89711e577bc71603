#include "kcc/metric/catalog.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"

namespace kcc {
namespace {

constexpr auto kPure = Unit::kPure;
constexpr auto kLogit = Unit::kLogit;
constexpr auto kNat = Unit::kNat;
constexpr auto kUlp = Unit::kUlp;
constexpr auto kMs = Unit::kMs;
constexpr auto kTokens = Unit::kTokens;
constexpr auto kTokensPerSecond = Unit::kTokensPerSecond;
constexpr auto kMegabytes = Unit::kMegabytes;
constexpr auto kLower = Direction::kLowerIsBetter;
constexpr auto kHigher = Direction::kHigherIsBetter;
constexpr auto kSigned = Direction::kSigned;
constexpr auto kLogits = EvidenceNeeded::kLogits;
constexpr auto kSampled = EvidenceNeeded::kSampledToken;
constexpr auto kFields = EvidenceNeeded::kRequestFields;
constexpr auto kGold = EvidenceNeeded::kGold;
constexpr auto kOutputs = EvidenceNeeded::kOutputs;
constexpr auto kOfTokens = Observation::kToken;
constexpr auto kOfRequests = Observation::kRequest;
constexpr auto kOfReplays = Observation::kReplay;
constexpr auto kRequestShare = TestForm::kRequestShare;
constexpr auto kTokenShare = TestForm::kTokenShare;
constexpr auto kFlagGap = TestForm::kFlagGap;
constexpr auto kMeanGap = TestForm::kMeanGap;
constexpr auto kLargest = TestForm::kLargest;
constexpr auto kReplayShare = TestForm::kReplayShare;
constexpr auto kNoTest = TestForm::kNone;
constexpr auto kRewardMax = BoundedBy::kRewardMax;
constexpr auto kTokensMax = BoundedBy::kTokensMax;
constexpr auto kWithinRange = SampleEstimate::kWithinRange;
constexpr auto kUnbounded = SampleEstimate::kUnbounded;
constexpr auto kField = TakenFrom::kField;
constexpr auto kOutputTokens = TakenFrom::kOutputTokens;
constexpr auto kFirstTokenTime = TakenFrom::kFirstTokenTime;
constexpr auto kTimePerToken = TakenFrom::kTimePerToken;
constexpr auto kTokenSum = TakenFrom::kTokenSum;
constexpr auto kTokenMean = TakenFrom::kTokenMean;
constexpr auto kSideDifference = TakenFrom::kSideDifference;
constexpr auto kSideGap = TakenFrom::kSideGap;
constexpr auto kSideRatio = TakenFrom::kSideRatio;
constexpr auto kSameOutput = TakenFrom::kSameOutput;
constexpr auto kFirstDivergence = TakenFrom::kFirstDivergence;
constexpr auto kFailures = RequestCounts::kFailures;
constexpr auto kSignatures = RequestCounts::kSignatures;
constexpr auto kFingerprints = RequestCounts::kFingerprints;
constexpr auto kCoverage = RequestCounts::kCoverage;
constexpr auto kConformance = RequestCounts::kConformance;
constexpr auto kRefusals = RequestCounts::kRefusals;
constexpr auto kParses = RequestCounts::kParses;
constexpr auto kRuntime = Family::kRuntime;
constexpr auto kObservability = Family::kObservability;

// What all rows of one level share.
constexpr Quantity PerToken(Quantity row) {
  row.level = QuantityLevel::kToken;
  row.observation = Observation::kToken;
  row.form = TestForm::kByAggregate;
  row.families = {Family::kNumerical, Family::kStatistical};
  return row;
}

constexpr Quantity PerRequest(Quantity row) {
  row.level = QuantityLevel::kRequest;
  row.observation = Observation::kRequest;
  row.form = TestForm::kByAggregate;
  return row;
}

constexpr Quantity OfPopulation(Quantity row) {
  row.level = QuantityLevel::kPopulation;
  row.merge = MergeRule::kBins;
  return row;
}

// clang-format off
constexpr Quantity kCatalog[] = {
    // Per token, from full logits.
    PerToken({.id = "logit_span", .unit = kLogit, .direction = kLower, .evidence = kLogits,
     .definition = "max Delta - min Delta",
     .source = "Durfee and Rogers 2019"}),
    PerToken({.id = "logit_linf", .unit = kLogit, .direction = kLower, .evidence = kLogits,
     .unscaled = true,
     .definition = "min over c of max |z_infer - z_train - c|, in unscaled logits",
     .source = "paper 2.1, shift removed"}),
    PerToken({.id = "logit_l2", .unit = kLogit, .direction = kLower, .evidence = kLogits,
     .unscaled = true,
     .definition = "Euclidean norm of z_infer - z_train less its mean, in unscaled logits",
     .source = "paper 2.1, shift removed"}),
    PerToken({.id = "raw_logit_linf", .unit = kLogit, .direction = kLower, .evidence = kLogits,
     .unscaled = true,
     .definition = "max |z_infer - z_train|, no shift removed",
     .source = "paper 2.1"}),
    PerToken({.id = "raw_logit_l2", .unit = kLogit, .direction = kLower, .evidence = kLogits,
     .unscaled = true,
     .definition = "Euclidean norm of z_infer - z_train, no shift removed",
     .source = "paper 2.1"}),
    PerToken({.id = "kl", .unit = kNat, .direction = kLower, .evidence = kLogits,
     .estimate = kUnbounded,
     .definition = "KL(train || infer) = sum p (e^x - 1 - x), x = Delta - log sum p e^Delta",
     .source = "paper eq. 2"}),
    PerToken({.id = "reverse_kl", .unit = kNat, .direction = kLower, .evidence = kLogits,
     .estimate = kUnbounded,
     .definition = "KL(infer || train) = sum p (x e^x - e^x + 1)",
     .source = "Kullback and Leibler 1951"}),
    PerToken({.id = "js", .unit = kNat, .direction = kLower, .evidence = kLogits,
     .on_demand = true, .always_named = true, .max = kLn2, .estimate = kUnbounded,
     .definition = "Jensen-Shannon divergence of train and infer",
     .source = "Lin 1991"}),
    PerToken({.id = "tv", .unit = kPure, .direction = kLower, .evidence = kLogits, .max = 1,
     .estimate = kWithinRange,
     .definition = "total variation = 1/2 sum p |e^x - 1|",
     .source = "paper eq. 2"}),
    PerToken({.id = "hellinger", .unit = kPure, .direction = kLower, .evidence = kLogits,
     .on_demand = true, .always_named = true, .max = 1, .estimate = kUnbounded,
     .definition = "1 - sum sqrt(p q) = 1/2 sum p (e^(x/2) - 1)^2",
     .source = "Hellinger 1909"}),
    PerToken({.id = "chi2", .unit = kPure, .direction = kLower, .evidence = kLogits,
     .estimate = kUnbounded,
     .definition = "E_infer (w - 1)^2 = sum p (e^x - 1)^2 e^-x",
     .source = "Pearson 1900"}),
    PerToken({.id = "reverse_chi2", .unit = kPure, .direction = kLower, .evidence = kLogits,
     .estimate = kUnbounded,
     .definition = "E_train (1/w - 1)^2 = sum p (e^x - 1)^2",
     .source = "Neyman 1949"}),
    PerToken({.id = "entropy", .unit = kNat, .direction = kSigned, .evidence = kLogits,
     .sided = true,
     .definition = "-sum q log q",
     .source = "Shannon 1948"}),
    PerToken({.id = "entropy_gap", .unit = kNat, .direction = kLower, .evidence = kLogits,
     .definition = "|entropy of infer - entropy of train|",
     .source = "Shannon 1948"}),
    PerToken({.id = "margin", .unit = kLogit, .direction = kSigned, .evidence = kLogits,
     .sided = true, .unscaled = true,
     .definition = "largest less second largest logit, unscaled",
     .source = "paper 3.3"}),
    PerToken({.id = "top1_overlap", .unit = kPure, .direction = kHigher, .evidence = kLogits,
     .bare_mean = true, .max = 1,
     .definition = "1 if both sides have the same most likely token (ties: lowest id), else 0",
     .source = "paper eq. 3"}),
    PerToken({.id = "top5_overlap", .unit = kPure, .direction = kHigher, .evidence = kLogits,
     .bare_mean = true, .max = 1,
     .definition = "share of the 5 most likely tokens that both sides have (ties: lowest id)",
     .source = "paper eq. 3"}),
    PerToken({.id = "top10_overlap", .unit = kPure, .direction = kHigher, .evidence = kLogits,
     .bare_mean = true, .max = 1,
     .definition = "share of the 10 most likely tokens that both sides have (ties: lowest id)",
     .source = "paper eq. 3"}),
    PerToken({.id = "rank", .unit = kPure, .direction = kLower, .evidence = kLogits, .sided = true,
     .on_demand = true, .always_named = true,
     .definition = "number of tokens ranked before the sampled one (ties: lowest id); 0 is the most likely",
     .source = "Gehrmann et al. 2019 (GLTR)"}),
    // Per token, from the sampled token.
    PerToken({.id = "log_ratio", .unit = kNat, .direction = kSigned, .evidence = kSampled,
     .min = -kInf,
     .definition = "log w = log p(y) - log q(y)",
     .source = "paper eq. 7"}),
    PerToken({.id = "abs_log_ratio", .unit = kNat, .direction = kLower, .evidence = kSampled,
     .definition = "|log w|",
     .source = "paper N-RLHF-1"}),
    PerToken({.id = "w", .unit = kPure, .direction = kSigned, .evidence = kSampled,
     .definition = "importance ratio p(y)/q(y)",
     .source = "paper eq. 7"}),
    PerToken({.id = "w_log_w", .unit = kNat, .direction = kSigned, .evidence = kSampled,
     .min = -0.36787944117144233,
     .definition = "w log w; its mean over infer's samples is KL(train || infer)",
     .source = "paper N-RLHF-2"}),
    PerToken({.id = "k1", .unit = kNat, .direction = kSigned, .evidence = kSampled, .min = -kInf,
     .definition = "-log w; its mean is KL(infer || train)",
     .source = "Schulman 2020"}),
    PerToken({.id = "k2", .unit = kNat, .direction = kLower, .evidence = kSampled,
     .definition = "(log w)^2 / 2",
     .source = "Schulman 2020"}),
    PerToken({.id = "k3", .unit = kNat, .direction = kLower, .evidence = kSampled,
     .definition = "w - 1 - log w; its mean is KL(infer || train)",
     .source = "Schulman 2020"}),
    PerToken({.id = "prob_gap", .unit = kPure, .direction = kLower, .evidence = kSampled, .max = 1,
     .definition = "|p(y) - q(y)|",
     .source = "verl, prime-rl"}),
    PerToken({.id = "bit_mismatch", .unit = kPure, .direction = kLower, .evidence = kSampled,
     .max = 1,
     .definition = "1 if the two float32 log-probs differ in any bit, else 0",
     .source = "VeXact"}),
    PerToken({.id = "ulp_gap", .unit = kUlp, .direction = kLower, .evidence = kSampled,
     .definition = "float32 numbers between the two log-probs",
     .source = "IEEE 754"}),
    // Per request.
    PerRequest({.id = "seq_log_ratio", .unit = kNat, .direction = kSigned, .evidence = kSampled,
     .min = -kInf, .taken = kTokenSum, .of = "log_ratio",
     .definition = "sum of log w over the request's tokens",
     .source = "paper 6.1"}),
    PerRequest({.id = "geo_log_ratio", .unit = kNat, .direction = kSigned, .evidence = kSampled,
     .min = -kInf, .taken = kTokenMean, .of = "log_ratio",
     .definition = "mean of log w over the request's tokens",
     .source = "GSPO (Zheng et al. 2025)"}),
    PerRequest({.id = "seq_kl", .unit = kNat, .direction = kLower, .evidence = kLogits,
     .taken = kTokenSum, .of = "kl",
     .definition = "sum of kl over the request's tokens",
     .source = "paper 6.1"}),
    PerRequest({.id = "kl_to_reference", .unit = kNat, .direction = kLower, .evidence = kFields,
     .sided = true, .taken = kField, .fields = "kl_to_reference",
     .definition = "KL of the kernel's rollout to the reference policy, as recorded",
     .source = "paper S-RLHF-1"}),
    PerRequest({.id = "kl_to_reference_gap", .unit = kNat, .direction = kLower, .evidence = kFields,
     .on_demand = true, .taken = kSideGap, .of = "kl_to_reference", .fields = "kl_to_reference",
     .definition = "|kl_to_reference of infer - kl_to_reference of train|, request by request",
     .source = "paper S-RLHF-1, both sides"}),
    PerRequest({.id = "latency_ms", .unit = kMs, .direction = kLower, .evidence = kFields,
     .sided = true, .families = {kRuntime}, .taken = kField, .fields = "latency_ms",
     .definition = "time from request to last token",
     .source = "OpenTelemetry GenAI"}),
    PerRequest({.id = "latency_ms_gap", .unit = kMs, .direction = kLower, .evidence = kFields,
     .on_demand = true, .min = -kInf, .families = {kRuntime}, .taken = kSideDifference,
     .of = "latency_ms", .fields = "latency_ms",
     .definition = "latency_ms of infer - latency_ms of train, request by request; below 0 infer is faster",
     .source = "OpenTelemetry GenAI, both sides"}),
    PerRequest({.id = "latency_ms_ratio", .unit = kPure, .direction = kLower, .evidence = kFields,
     .on_demand = true, .families = {kRuntime}, .taken = kSideRatio, .of = "latency_ms",
     .fields = "latency_ms",
     .definition = "latency_ms of infer / latency_ms of train, request by request",
     .source = "OpenTelemetry GenAI, both sides"}),
    PerRequest({.id = "ttft_ms", .unit = kMs, .direction = kLower, .evidence = kFields,
     .sided = true, .families = {kRuntime}, .taken = kFirstTokenTime, .fields = "ttft_ms",
     .definition = "time from request to first token",
     .source = "OpenTelemetry GenAI"}),
    PerRequest({.id = "tpot_ms", .unit = kMs, .direction = kLower, .evidence = kFields,
     .sided = true, .families = {kRuntime}, .taken = kTimePerToken,
     .fields = "latency_ms ttft_ms output_tokens",
     .definition = "(latency_ms - ttft_ms) / (output_tokens - 1)",
     .source = "OpenTelemetry GenAI"}),
    PerRequest({.id = "output_tokens", .unit = kTokens, .direction = kSigned, .evidence = kFields,
     .sided = true, .bounded_by = kTokensMax, .taken = kOutputTokens, .fields = "output_tokens",
     .definition = "length of the continuation",
     .source = "OpenTelemetry GenAI"}),
    PerRequest({.id = "reward", .unit = kPure, .direction = kSigned, .evidence = kFields,
     .sided = true, .min = -kInf, .bounded_by = kRewardMax, .taken = kField, .fields = "reward",
     .definition = "reward of the continuation, as recorded",
     .source = "paper eq. 4"}),
    PerRequest({.id = "same_output", .unit = kPure, .direction = kHigher, .evidence = kOutputs,
     .on_demand = true, .rate_name = "same_output_rate", .max = 1, .taken = kSameOutput,
     .definition = "1 if both sides generated the same tokens, else 0",
     .source = "exact match of outputs"}),
    PerRequest({.id = "first_divergence", .unit = kTokens, .direction = kHigher, .evidence = kOutputs,
     .on_demand = true, .taken = kFirstDivergence,
     .definition = "generated tokens before the first that differs; infinite where none does",
     .source = "exact match of outputs"}),
    // Population, per slice.
    OfPopulation({.id = "ece_gap", .unit = kPure, .direction = kLower, .evidence = kGold, .max = 1,
     .observation = kOfTokens, .form = kNoTest,
     .definition = "|ECE of infer - ECE of train|, 15 equal-width top-label bins, label = gold token",
     .source = "Guo et al. 2017"}),
    OfPopulation({.id = "smce_gap", .unit = kPure, .direction = kLower, .evidence = kGold,
     .max = 1, .observation = kOfTokens, .form = kNoTest,
     .definition = "|smooth calibration error of infer - of train|, an interval from 4,096 cells",
     .source = "Blasiok et al. 2023"}),
    OfPopulation({.id = "brier_gap", .unit = kPure, .direction = kLower, .evidence = kGold,
     .max = 1, .observation = kOfTokens, .form = kMeanGap,
     .definition = "|mean (confidence - correct)^2 of infer - of train|, top label",
     .source = "Brier 1950"}),
    OfPopulation({.id = "reward_drift", .unit = kPure, .direction = kLower, .evidence = kFields,
     .observation = kOfRequests, .form = kMeanGap, .bounded_by = kRewardMax, .of = "reward",
     .fields = "reward",
     .definition = "|mean reward of infer - mean reward of train|",
     .source = "paper eq. 4"}),
    OfPopulation({.id = "refusal_rate_gap", .unit = kPure, .direction = kLower,
     .evidence = kFields, .max = 1, .observation = kOfRequests, .form = kFlagGap,
     .counts = kRefusals, .fields = "refused",
     .definition = "|share refused by infer - share refused by train|",
     .source = "paper 4.1"}),
    OfPopulation({.id = "parse_rate_gap", .unit = kPure, .direction = kLower, .evidence = kFields,
     .max = 1, .observation = kOfRequests, .form = kFlagGap, .counts = kParses, .fields = "parsed",
     .definition = "|share parsed of infer - share parsed of train|",
     .source = "paper 4.1"}),
    OfPopulation({.id = "flip_rate", .unit = kPure, .direction = kLower, .evidence = kLogits,
     .max = 1, .observation = kOfTokens, .form = kTokenShare, .of = "top1_overlap",
     .definition = "share of tokens whose most likely token differs",
     .source = "paper 3.3"}),
    OfPopulation({.id = "throughput_tokens_per_s", .unit = kTokensPerSecond, .direction = kHigher,
     .evidence = kFields, .sided = true, .observation = kOfRequests, .form = kNoTest,
     .families = {kRuntime}, .fields = "output_tokens started_at_ms latency_ms",
     .definition = "output tokens / (last end - first start)",
     .source = "paper R-RLHF-1"}),
    OfPopulation({.id = "throughput_ratio", .unit = kPure, .direction = kHigher,
     .evidence = kFields, .observation = kOfRequests, .form = kNoTest, .families = {kRuntime},
     .of = "throughput_tokens_per_s", .fields = "output_tokens started_at_ms latency_ms",
     .definition = "throughput_tokens_per_s of infer / throughput_tokens_per_s of train",
     .source = "paper R-RLHF-1, both sides"}),
    OfPopulation({.id = "peak_memory_mb", .unit = kMegabytes, .direction = kLower,
     .evidence = kFields, .sided = true, .observation = kOfRequests, .form = kLargest,
     .families = {kRuntime}, .fields = "peak_memory_mb",
     .definition = "largest memory recorded by any request",
     .source = "paper C.3"}),
    OfPopulation({.id = "peak_memory_ratio", .unit = kPure, .direction = kLower,
     .evidence = kFields, .observation = kOfRequests, .form = kNoTest, .families = {kRuntime},
     .of = "peak_memory_mb", .fields = "peak_memory_mb",
     .definition = "peak_memory_mb of infer / peak_memory_mb of train",
     .source = "paper C.3, both sides"}),
    OfPopulation({.id = "kv_cache_mb", .unit = kMegabytes, .direction = kLower,
     .evidence = kFields, .sided = true, .observation = kOfRequests, .form = kLargest,
     .families = {kRuntime}, .fields = "kv_cache_mb",
     .definition = "largest KV cache recorded by any request",
     .source = "paper R-RLHF-1"}),
    OfPopulation({.id = "failure_rate", .unit = kPure, .direction = kLower, .evidence = kFields,
     .sided = true, .max = 1, .observation = kOfRequests, .form = kRequestShare,
     .counts = kFailures, .fields = "failed",
     .definition = "share of requests marked failed",
     .source = "paper 4.1"}),
    OfPopulation({.id = "failure_rate_gap", .unit = kPure, .direction = kLower,
     .evidence = kFields, .min = -1, .max = 1, .observation = kOfRequests, .form = kNoTest,
     .of = "failure_rate", .fields = "failed",
     .definition = "failure_rate of infer - failure_rate of train; below 0 infer fails less",
     .source = "paper 4.1, both sides"}),
    OfPopulation({.id = "replay_mismatch_rate", .unit = kPure, .direction = kLower,
     .evidence = kFields, .max = 1, .observation = kOfReplays, .form = kRequestShare,
     .counts = kSignatures, .fields = "replay_signature",
     .definition = "share of requests whose replay signatures differ between the two traces",
     .source = "paper 4.1"}),
    OfPopulation({.id = "determinism_rate", .unit = kPure, .direction = kHigher,
     .evidence = kFields, .sided = true, .max = 1, .observation = kOfReplays, .form = kReplayShare,
     .fields = "replay_group replay_signature",
     .definition = "share of repeated requests (same replay_group) that gave the group's first signature",
     .source = "paper 4.1"}),
    OfPopulation({.id = "replay_logprob_gap", .unit = kNat, .direction = kLower,
     .evidence = kFields, .sided = true, .on_demand = true, .observation = kOfReplays, .form = kLargest,
     .of = "log_ratio", .fields = "replay_group",
     .definition = "largest distance of a token's log-prob among repeats of a request (same replay_group; same replica, where the contract trusts that field)",
     .source = "paper 4.1, with a tolerance"}),
    OfPopulation({.id = "replay_ulp_gap", .unit = kUlp, .direction = kLower,
     .evidence = kFields, .sided = true, .on_demand = true, .observation = kOfReplays, .form = kLargest,
     .of = "log_ratio", .fields = "replay_group",
     .definition = "the same in units of the last place of float32",
     .source = "paper 4.1, with a tolerance"}),
    OfPopulation({.id = "trace_field_coverage", .unit = kPure, .direction = kHigher,
     .evidence = kFields, .sided = true, .max = 1, .observation = kOfRequests,
     .form = kRequestShare, .families = {kObservability}, .counts = kCoverage,
     .definition = "share of requests that carry every field the clause lists",
     .source = "paper 4.1"}),
    OfPopulation({.id = "event_conformance", .unit = kPure, .direction = kHigher,
     .evidence = kFields, .sided = true, .on_demand = true, .max = 1, .observation = kOfRequests,
     .form = kRequestShare, .families = {kObservability}, .counts = kConformance,
     .definition = "share of logged events that keep to the published schema (kcc schema --trace, --observation)",
     .source = "paper 4.1"}),
    OfPopulation({.id = "fingerprint_match_rate", .unit = kPure, .direction = kHigher,
     .evidence = kFields, .sided = true, .max = 1, .observation = kOfRequests,
     .form = kRequestShare, .families = {kObservability}, .counts = kFingerprints,
     .fields = "kernel_fingerprint",
     .definition = "share of requests served by the kernel whose fingerprint the trace declares",
     .source = "paper 7.3"}),
    OfPopulation({.id = "signature_match_rate", .unit = kPure, .direction = kHigher,
     .evidence = kFields, .max = 1, .observation = kOfRequests, .form = kRequestShare,
     .counts = kSignatures, .fields = "replay_signature",
     .definition = "share of requests whose replay signatures agree between the two traces",
     .source = "paper 7.3"}),
};
// clang-format on

}  // namespace

std::span<const Quantity> Catalog() { return kCatalog; }

const Quantity* FindQuantity(std::string_view id) {
  const auto* found = std::find_if(std::begin(kCatalog), std::end(kCatalog),
                                   [&](const Quantity& row) { return row.id == id; });
  return found == std::end(kCatalog) ? nullptr : found;
}

const Quantity& SourceOf(const Quantity& quantity) {
  if (quantity.of.empty()) return quantity;
  const Quantity* source = FindQuantity(quantity.of);
  KCC_CHECK(source != nullptr);
  return *source;
}

size_t CatalogIndex(const Quantity& quantity) {
  return static_cast<size_t>(&quantity - std::begin(kCatalog));
}

std::string_view Name(QuantityLevel level) {
  constexpr std::array<std::string_view, 3> kNames = {"token", "request", "population"};
  return kNames[static_cast<size_t>(level)];
}

std::string_view Name(Unit unit) {
  switch (unit) {
    case Unit::kPure:
      return "";
    case Unit::kLogit:
      return "logit";
    case Unit::kNat:
      return "nat";
    case Unit::kUlp:
      return "ulp";
    case Unit::kMs:
      return "ms";
    case Unit::kTokens:
      return "token";
    case Unit::kTokensPerSecond:
      return "token/s";
    case Unit::kMegabytes:
      return "MB";
  }
  return "";
}

std::span<const Unit> Units() {
  static constexpr std::array kUnits = {kPure,      kMs,  kTokens, kTokensPerSecond,
                                        kMegabytes, kNat, kLogit,  kUlp};
  return kUnits;
}

std::string_view Name(EvidenceNeeded needed) {
  constexpr std::array<std::string_view, 6> kNames = {"logits",           "sampled-token",
                                                      "request-fields",   "logits+gold",
                                                      "generated-tokens", "token-fields"};
  return kNames[static_cast<size_t>(needed)];
}

std::string_view Name(Direction direction) {
  constexpr std::array<std::string_view, 3> kNames = {"lower", "higher", "signed"};
  return kNames[static_cast<size_t>(direction)];
}

std::string_view Name(MergeRule rule) { return rule == MergeRule::kBins ? "bins" : "exact-sum"; }

}  // namespace kcc
