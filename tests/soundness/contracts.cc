#include "tests/soundness/contracts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string_view>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/contract/reader.h"
#include "kcc/summary/plan.h"

namespace kcc::soundness {
namespace {

const std::vector<std::string> kPredicates = {
    "'a' in tags",
    "team == 'red'",
    "tier >= 1",
    "prompt_tokens >= 2",
    "output_tokens >= 3",
    "latency_ms >= 200",
    "reward >= 0.5",
    "refused",
    "parsed == false",
    "ordinal < 3",
    "started_at_ms >= 1400",
    "id != 'r0'",
    "'a' in tags and latency_ms < 300",
    "tier == 1 or reward < 0.75",
    "token.position >= 3",
    "token.token <= 2",
    "token.gold <= 2",
    "token.advantage > 0",
    "token.logprob > -1",
    "'b' in tags and token.position >= 2",
    "latency_ms >= 150 and token.token >= 1",
};

// Metrics of the contract's own, from fields that the evidence has. Fields that a side may relabel
// are left out: they are what such a metric measures.
const std::vector<std::string> kOwnMetrics = {
    "{name: wait, of: request, from: latency_ms - ttft_ms, unit: ms, direction: lower}",
    "{name: work, of: request, from: prompt_tokens + 2 * output_tokens, direction: lower, min: 0}",
    "{name: gain, of: request, from: reward - 0.5, direction: higher, min: -1, max: 1}",
    "{name: trouble, of: request, from: \"max(refused, failed)\", direction: lower, min: 0, max: "
    "1}",
    "{name: surprise, of: token, from: -token.logprob, unit: nat, direction: lower, min: 0}",
    "{name: push, of: token, from: token.advantage * token.position, direction: signed}",
    "{name: wrong, of: token, from: abs(token.gold - token.token), direction: lower, min: 0}",
};

bool OfOneRun(const Quantity& quantity) {
  static const std::set<std::string_view> kRecorded = {
      "trace_field_coverage", "event_conformance", "fingerprint_match_rate",
      "throughput_tokens_per_s", "throughput_ratio"};
  // What infer generated is the measured value, too.
  return kRecorded.contains(quantity.id) || quantity.evidence == EvidenceNeeded::kOutputs;
}

std::string DrawThreshold(Dice* dice, const Metric& metric) {
  static const std::vector<double> kShares = {0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1};
  static const std::vector<double> kMagnitudes = {0, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3, 1, 2, 4};
  static const std::vector<double> kSigned = {-1, -0.1, 0, 0.1, 1};
  static const std::vector<double> kTimes = {10, 60, 150, 250, 390};
  const auto of = [&](const std::vector<double>& values) {
    return ShortestNumber(dice->Pick(values));
  };
  if (metric.quantity->unit == Unit::kMs) return of(kTimes);
  if (MetricMax(metric) <= 1) return of(kShares);
  if (MetricMin(metric) < 0) return of(kSigned);
  return of(kMagnitudes);
}

const Quantity* DrawQuantity(Dice* dice, const std::vector<const Quantity*>& own) {
  if (!own.empty() && dice->Chance(0.3)) return dice->Pick(own);
  const std::span<const Quantity> catalog = Catalog();
  const Quantity* quantity =
      &catalog[static_cast<size_t>(dice->Below(static_cast<int>(catalog.size())))];
  // Every other clause is of the kind that people write.
  static const std::vector<std::string> kUsual = {"kl",
                                                  "tv",
                                                  "abs_log_ratio",
                                                  "top1_overlap",
                                                  "latency_ms",
                                                  "tpot_ms",
                                                  "output_tokens",
                                                  "reward",
                                                  "determinism_rate",
                                                  "ece_gap"};
  return dice->Chance(0.5) ? FindQuantity(dice->Pick(kUsual)) : quantity;
}

std::string DrawClause(Dice* dice, const ContractOptions& options,
                       const std::vector<std::string>& slices,
                       const std::vector<const Quantity*>& own, int id) {
  Metric metric;
  metric.quantity = DrawQuantity(dice, own);
  if (options.about_pairs && OfOneRun(*metric.quantity)) return {};
  if (metric.quantity->level != QuantityLevel::kPopulation) {
    const std::span<const Aggregate> aggregates = Aggregates();
    metric.aggregate =
        aggregates[static_cast<size_t>(dice->Below(static_cast<int>(aggregates.size())))];
  }
  if (metric.quantity->sided && dice->Chance(0.2)) metric.side = Side::kTrain;
  const Direction direction = MetricDirection(metric);
  const bool at_most = direction == Direction::kLowerIsBetter ||
                       (direction == Direction::kSigned && dice->Chance(0.5));
  std::string clause = "    - {id: C-" + std::to_string(id) + ", metric: " + MetricName(metric) +
                       (at_most ? ", atMost: " : ", atLeast: ") + DrawThreshold(dice, metric);
  if (metric.quantity->id == "trace_field_coverage") clause += ", fields: [team, reward]";
  if (dice->Chance(0.4)) {
    // Windows of what infer's own run took are placed by its own times.
    PlanWindow window;
    window.metric = metric;
    const bool own_run = options.about_pairs && PlacementOf(window) == Placement::kInfer;
    clause += ", exceedance: " + dice->Pick(std::vector<std::string>{"10%", "30%", "50%"});
    if (!own_run && dice->Chance(0.6)) {
      clause += ", window: " +
                dice->Pick(std::vector<std::string>{"2 requests", "3 requests", "1s", "2s"});
    }
  }
  if (dice->Chance(0.1)) clause += ", minSamples: {requests: 3}";
  std::set<std::string> named;
  for (int i = dice->From(1, 3); i > 0; --i) named.insert(dice->Pick(slices));
  clause += ", slices: [";
  for (const std::string& name : named) clause += (clause.back() == '[' ? "" : ", ") + name;
  return clause + "], level: L2}\n";
}

// Some of kOwnMetrics as the contract's spec.metrics, and their rows.
std::vector<const Quantity*> DrawOwnMetrics(Dice* dice, std::string* head) {
  std::set<std::string> drawn;
  for (int i = dice->From(1, 4); i > 0; --i) drawn.insert(dice->Pick(kOwnMetrics));
  *head += "  metrics:\n";
  for (const std::string& metric : drawn) *head += "    - " + metric + "\n";
  const ReadOutcome outcome = ReadContract(
      *head + "  numerical:\n    - {id: C-0, metric: mean_kl, atMost: 1, level: L2}\n");
  if (!outcome.contract) {
    std::cerr << *head << outcome.diagnostics[0].message << "\n";
    std::abort();
  }
  return outcome.contract->own_rows();
}

}  // namespace

DrawnContract MakeContract(Dice* dice, const ContractOptions& options) {
  std::vector<std::string> names = {"all"};
  std::string slices = "  slices:\n";
  std::set<std::string> wheres;
  for (int i = dice->From(2, 4); i > 0; --i) wheres.insert(dice->Pick(kPredicates));
  for (const std::string& where : wheres) {
    names.push_back("s" + std::to_string(names.size()));
    slices += "    - {name: " + names.back() + ", where: \"" + where + "\"}\n";
  }
  std::string head =
      "apiVersion: kcc/v1\nkind: KernelContract\n"
      "metadata: {name: drawn, version: 1.0.0}\nspec:\n  assumptions: {temperature: " +
      ShortestNumber(options.temperature.value_or(1));
  if (dice->Chance(0.7)) head += ", tokensMax: 8";
  if (dice->Chance(0.7)) head += ", rewardMax: 1";
  head += "}\n  decision: {about: ";
  head += dice->Chance(0.5) ? "evaluation-set" : "traffic";
  head += dice->Chance(0.5) ? ", confidence: 0.6}\n" : "}\n";
  if (options.trust && dice->Chance(0.3)) {
    head += "  evidence: {trust: [" +
            dice->Pick(std::vector<std::string>{"ordinal, started_at_ms", "ordinal, tags", "tier",
                                                "latency_ms", "token.logprob", "prompt_tokens"}) +
            "]}\n";
  }
  if (options.binds && dice->Chance(0.3)) {
    head += dice->Chance(0.5) ? std::string("  binds: {infer: {engine: one}}\n")
                              : "  binds: {model: {digest: '" + std::string(kModelDigest) + "'}}\n";
  }
  std::vector<const Quantity*> own;
  if (dice->Chance(0.5)) own = DrawOwnMetrics(dice, &head);
  head += slices + "  numerical:\n";
  // What the language refuses (a threshold out of range, a latency of tokens) is drawn again.
  std::string clauses;
  for (int id = 0, tries = 0; id < options.clauses && tries < 10'000; ++tries) {
    const std::string clause = DrawClause(dice, options, names, own, id);
    if (clause.empty() || !ReadContract(head + clauses + clause).contract) continue;
    clauses += clause;
    ++id;
  }
  DrawnContract drawn{head + clauses, {}};
  ReadOutcome outcome = ReadContract(drawn.yaml);
  if (!outcome.contract) {
    std::cerr << drawn.yaml << outcome.diagnostics[0].message << "\n";
    std::abort();
  }
  drawn.contract = std::move(*outcome.contract);
  return drawn;
}

DrawnContract Tightened(const DrawnContract& drawn, const Judgement& judgement, Dice* dice) {
  DrawnContract tightened = drawn;
  for (const ClauseVerdict& clause : judgement.clauses) {
    const SliceVerdict& slice = dice->Pick(clause.slices);
    const bool at_most = clause.bound == BoundKind::kAtMost;
    const double value = at_most ? slice.value.lo : slice.value.hi;
    if (!slice.value.known() || !std::isfinite(value)) continue;
    // Well beyond what rounding does to a log-prob that is recorded in 32 bits.
    const double step =
        std::max(1e-4, dice->Pick(std::vector<double>{1e-3, 0.02, 0.2}) * std::fabs(value));
    const std::string key = at_most ? "atMost: " : "atLeast: ";
    std::string yaml = tightened.yaml;
    const size_t begin = yaml.find(key, yaml.find("{id: " + clause.id + ","));
    const size_t end = yaml.find(',', begin);
    yaml.replace(begin, end - begin, key + ShortestNumber(at_most ? value - step : value + step));
    ReadOutcome outcome = ReadContract(yaml);
    if (outcome.contract) tightened = {yaml, std::move(*outcome.contract)};
  }
  return tightened;
}

}  // namespace kcc::soundness
