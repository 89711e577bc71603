#include "kcc/metric/catalog.h"

#include <algorithm>
#include <array>

#include "kcc/base/constants.h"

namespace kcc {
namespace {

constexpr auto kToken = QuantityLevel::kToken;
constexpr auto kRequest = QuantityLevel::kRequest;
constexpr auto kPopulation = QuantityLevel::kPopulation;
constexpr auto kLower = Direction::kLowerIsBetter;
constexpr auto kHigher = Direction::kHigherIsBetter;
constexpr auto kSigned = Direction::kSigned;
constexpr auto kLogits = EvidenceNeeded::kLogits;
constexpr auto kSampled = EvidenceNeeded::kSampledToken;
constexpr auto kFields = EvidenceNeeded::kRequestFields;
constexpr auto kGold = EvidenceNeeded::kGold;
constexpr bool kSided = true;
constexpr bool kPlain = false;
constexpr bool kAlways = false;
constexpr bool kOnDemand = true;
constexpr auto kBins = MergeRule::kBins;

// clang-format off
constexpr Quantity kCatalog[] = {
    // Per token, from full logits.
    {"logit_span", "logit", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "max Delta - min Delta", "Durfee and Rogers 2019"},
    {"logit_linf", "logit", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "min over c of max |z_infer - z_train - c|, in unscaled logits", "paper 2.1, shift removed"},
    {"logit_l2", "logit", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "Euclidean norm of z_infer - z_train less its mean, in unscaled logits", "paper 2.1, shift removed"},
    {"raw_logit_linf", "logit", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "max |z_infer - z_train|, no shift removed", "paper 2.1"},
    {"raw_logit_l2", "logit", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "Euclidean norm of z_infer - z_train, no shift removed", "paper 2.1"},
    {"kl", "nat", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "KL(train || infer) = sum p (e^x - 1 - x), x = Delta - log sum p e^Delta", "paper eq. 2"},
    {"reverse_kl", "nat", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "KL(infer || train) = sum p (x e^x - e^x + 1)", "Kullback and Leibler 1951"},
    {"js", "nat", kToken, kLower, kLogits, kPlain, kOnDemand, 0, kLn2, "",
     "Jensen-Shannon divergence of train and infer", "Lin 1991"},
    {"tv", "", kToken, kLower, kLogits, kPlain, kAlways, 0, 1, "",
     "total variation = 1/2 sum p |e^x - 1|", "paper eq. 2"},
    {"hellinger", "", kToken, kLower, kLogits, kPlain, kOnDemand, 0, 1, "",
     "1 - sum sqrt(p q) = 1/2 sum p (e^(x/2) - 1)^2", "Hellinger 1909"},
    {"chi2", "", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "E_infer (w - 1)^2 = sum p (e^x - 1)^2 e^-x", "Pearson 1900"},
    {"reverse_chi2", "", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "E_train (1/w - 1)^2 = sum p (e^x - 1)^2", "Neyman 1949"},
    {"entropy", "nat", kToken, kSigned, kLogits, kSided, kAlways, 0, kInf, "",
     "-sum q log q", "Shannon 1948"},
    {"entropy_gap", "nat", kToken, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "|entropy of infer - entropy of train|", "Shannon 1948"},
    {"margin", "logit", kToken, kSigned, kLogits, kSided, kAlways, 0, kInf, "",
     "largest less second largest logit, unscaled", "paper 3.3"},
    {"top1_overlap", "", kToken, kHigher, kLogits, kPlain, kAlways, 0, 1, "",
     "1 if both sides have the same most likely token (ties: lowest id), else 0", "paper eq. 3"},
    {"top5_overlap", "", kToken, kHigher, kLogits, kPlain, kAlways, 0, 1, "",
     "share of the 5 most likely tokens that both sides have (ties: lowest id)", "paper eq. 3"},
    {"top10_overlap", "", kToken, kHigher, kLogits, kPlain, kAlways, 0, 1, "",
     "share of the 10 most likely tokens that both sides have (ties: lowest id)", "paper eq. 3"},
    {"rank", "", kToken, kLower, kLogits, kSided, kOnDemand, 0, kInf, "",
     "number of tokens ranked before the sampled one (ties: lowest id); 0 is the most likely", "Gehrmann et al. 2019 (GLTR)"},
    // Per token, from the sampled token.
    {"log_ratio", "nat", kToken, kSigned, kSampled, kPlain, kAlways, -kInf, kInf, "",
     "log w = log p(y) - log q(y)", "paper eq. 7"},
    {"abs_log_ratio", "nat", kToken, kLower, kSampled, kPlain, kAlways, 0, kInf, "",
     "|log w|", "paper N-RLHF-1"},
    {"w", "", kToken, kSigned, kSampled, kPlain, kAlways, 0, kInf, "",
     "importance ratio p(y)/q(y)", "paper eq. 7"},
    {"w_log_w", "nat", kToken, kSigned, kSampled, kPlain, kAlways, -0.36787944117144233, kInf, "",
     "w log w; its mean over infer's samples is KL(train || infer)", "paper N-RLHF-2"},
    {"k1", "nat", kToken, kSigned, kSampled, kPlain, kAlways, -kInf, kInf, "",
     "-log w; its mean is KL(infer || train)", "Schulman 2020"},
    {"k2", "nat", kToken, kLower, kSampled, kPlain, kAlways, 0, kInf, "",
     "(log w)^2 / 2", "Schulman 2020"},
    {"k3", "nat", kToken, kLower, kSampled, kPlain, kAlways, 0, kInf, "",
     "w - 1 - log w; its mean is KL(infer || train)", "Schulman 2020"},
    {"prob_gap", "", kToken, kLower, kSampled, kPlain, kAlways, 0, 1, "",
     "|p(y) - q(y)|", "verl, prime-rl"},
    {"bit_mismatch", "", kToken, kLower, kSampled, kPlain, kAlways, 0, 1, "",
     "1 if the two float32 log-probs differ in any bit, else 0", "VeXact"},
    {"ulp_gap", "ulp", kToken, kLower, kSampled, kPlain, kAlways, 0, kInf, "",
     "float32 numbers between the two log-probs", "IEEE 754"},
    // Per request.
    {"seq_log_ratio", "nat", kRequest, kSigned, kSampled, kPlain, kAlways, -kInf, kInf, "",
     "sum of log w over the request's tokens", "paper 6.1"},
    {"geo_log_ratio", "nat", kRequest, kSigned, kSampled, kPlain, kAlways, -kInf, kInf, "",
     "mean of log w over the request's tokens", "GSPO (Zheng et al. 2025)"},
    {"seq_kl", "nat", kRequest, kLower, kLogits, kPlain, kAlways, 0, kInf, "",
     "sum of kl over the request's tokens", "paper 6.1"},
    {"kl_to_reference", "nat", kRequest, kLower, kFields, kSided, kAlways, 0, kInf, "kl_to_reference",
     "KL of the kernel's rollout to the reference policy, as recorded", "paper S-RLHF-1"},
    {"latency_ms", "ms", kRequest, kLower, kFields, kSided, kAlways, 0, kInf, "latency_ms",
     "time from request to last token", "OpenTelemetry GenAI"},
    {"ttft_ms", "ms", kRequest, kLower, kFields, kSided, kAlways, 0, kInf, "ttft_ms",
     "time from request to first token", "OpenTelemetry GenAI"},
    {"tpot_ms", "ms", kRequest, kLower, kFields, kSided, kAlways, 0, kInf, "latency_ms ttft_ms output_tokens",
     "(latency_ms - ttft_ms) / (output_tokens - 1)", "OpenTelemetry GenAI"},
    {"output_tokens", "token", kRequest, kSigned, kFields, kSided, kAlways, 0, kInf, "output_tokens",
     "length of the continuation", "OpenTelemetry GenAI"},
    {"reward", "", kRequest, kSigned, kFields, kSided, kAlways, -kInf, kInf, "reward",
     "reward of the continuation, as recorded", "paper eq. 4"},
    // Population, per slice.
    {"ece_gap", "", kPopulation, kLower, kGold, kPlain, kAlways, 0, 1, "",
     "|ECE of infer - ECE of train|, 15 equal-width top-label bins, label = gold token", "Guo et al. 2017", kBins},
    {"smce_gap", "", kPopulation, kLower, kGold, kPlain, kAlways, 0, 1, "",
     "|smooth calibration error of infer - of train|, an interval from 4,096 cells", "Blasiok et al. 2023", kBins},
    {"brier_gap", "", kPopulation, kLower, kGold, kPlain, kAlways, 0, 1, "",
     "|mean (confidence - correct)^2 of infer - of train|, top label", "Brier 1950", kBins},
    {"reward_drift", "", kPopulation, kLower, kFields, kPlain, kAlways, 0, kInf, "reward",
     "|mean reward of infer - mean reward of train|", "paper eq. 4", kBins},
    {"refusal_rate_gap", "", kPopulation, kLower, kFields, kPlain, kAlways, 0, 1, "refused",
     "|share refused by infer - share refused by train|", "paper 4.1", kBins},
    {"parse_rate_gap", "", kPopulation, kLower, kFields, kPlain, kAlways, 0, 1, "parsed",
     "|share parsed of infer - share parsed of train|", "paper 4.1", kBins},
    {"flip_rate", "", kPopulation, kLower, kLogits, kPlain, kAlways, 0, 1, "",
     "share of tokens whose most likely token differs", "paper 3.3", kBins},
    {"throughput_tokens_per_s", "token/s", kPopulation, kHigher, kFields, kSided, kAlways, 0, kInf,
     "output_tokens started_at_ms latency_ms",
     "output tokens / (last end - first start)", "paper R-RLHF-1", kBins},
    {"peak_memory_mb", "MB", kPopulation, kLower, kFields, kSided, kAlways, 0, kInf, "peak_memory_mb",
     "largest memory recorded by any request", "paper C.3", kBins},
    {"kv_cache_mb", "MB", kPopulation, kLower, kFields, kSided, kAlways, 0, kInf, "kv_cache_mb",
     "largest KV cache recorded by any request", "paper R-RLHF-1", kBins},
    {"failure_rate", "", kPopulation, kLower, kFields, kSided, kAlways, 0, 1, "failed",
     "share of requests marked failed", "paper 4.1", kBins},
    {"replay_mismatch_rate", "", kPopulation, kLower, kFields, kPlain, kAlways, 0, 1, "replay_signature",
     "share of requests whose replay signatures differ between the two traces", "paper 4.1", kBins},
    {"determinism_rate", "", kPopulation, kHigher, kFields, kSided, kAlways, 0, 1, "replay_group replay_signature",
     "share of repeated requests (same replay_group) that gave the group's first signature", "paper 4.1", kBins},
    {"trace_field_coverage", "", kPopulation, kHigher, kFields, kSided, kAlways, 0, 1, "",
     "share of requests that carry every field the clause lists", "paper 4.1", kBins},
    {"fingerprint_match_rate", "", kPopulation, kHigher, kFields, kSided, kAlways, 0, 1, "kernel_fingerprint",
     "share of requests served by the kernel whose fingerprint the trace declares", "paper 7.3", kBins},
    {"signature_match_rate", "", kPopulation, kHigher, kFields, kPlain, kAlways, 0, 1, "replay_signature",
     "share of requests whose replay signatures agree between the two traces", "paper 7.3", kBins},
};
// clang-format on

}  // namespace

std::span<const Quantity> Catalog() { return kCatalog; }

const Quantity* FindQuantity(std::string_view id) {
  const auto* found = std::find_if(std::begin(kCatalog), std::end(kCatalog),
                                   [&](const Quantity& row) { return row.id == id; });
  return found == std::end(kCatalog) ? nullptr : found;
}

size_t CatalogIndex(const Quantity& quantity) {
  return static_cast<size_t>(&quantity - std::begin(kCatalog));
}

std::string_view Name(QuantityLevel level) {
  constexpr std::array<std::string_view, 3> kNames = {"token", "request", "population"};
  return kNames[static_cast<size_t>(level)];
}

std::string_view Name(EvidenceNeeded needed) {
  constexpr std::array<std::string_view, 4> kNames = {"logits", "sampled-token", "request-fields",
                                                      "logits+gold"};
  return kNames[static_cast<size_t>(needed)];
}

std::string_view Name(Direction direction) {
  constexpr std::array<std::string_view, 3> kNames = {"lower", "higher", "signed"};
  return kNames[static_cast<size_t>(direction)];
}

std::string_view Name(MergeRule rule) { return rule == MergeRule::kBins ? "bins" : "exact-sum"; }

}  // namespace kcc
