#include "kcc/experiment/pair_judge.h"

#include <algorithm>
#include <utility>

#include "kcc/judge/judge.h"

namespace kcc {
namespace {

// Why scored logits in memory cannot decide the clause; empty: they can.
std::string WhyNot(const Clause& clause) {
  const std::vector<Stage>& stages = clause.stages;
  if (std::find(stages.begin(), stages.end(), Stage::kOffline) == stages.end()) {
    return "it is not judged offline";
  }
  switch (clause.metric.quantity->evidence) {
    case EvidenceNeeded::kLogits:
    case EvidenceNeeded::kSampledToken:
      return {};
    case EvidenceNeeded::kRequestFields:
    case EvidenceNeeded::kTokenFields:
      return "it reads fields that a trace records, and the experiment writes no trace";
    case EvidenceNeeded::kGold:
      return "it reads labels, and the experiment has none";
    case EvidenceNeeded::kOutputs:
      return "it compares continuations, and the experiment scores given tokens";
  }
  return {};
}

Contract WithClauses(Contract contract, bool decided) {
  std::erase_if(contract.clauses,
                [&](const Clause& clause) { return WhyNot(clause).empty() != decided; });
  return contract;
}

}  // namespace

PairJudge::PairJudge(const Contract& contract)
    : contract_(WithClauses(contract, true)),
      plan_(Plan::FromContract(contract_, Plan::Breadth::kClauses)) {
  for (const Clause& clause : WithClauses(contract, false).clauses) {
    not_judged_.push_back({clause.id, WhyNot(clause)});
  }
}

Result<> PairJudge::Judge(const ScoredLogits& train, const ScoredLogits& infer,
                          std::span<const KernelRequest> requests, ArmPass* arm) const {
  if (contract_.clauses.empty()) return {};
  KCC_TRY(const Summary summary, SummarizeDrift(train, infer, requests, plan_));
  arm->Add(kcc::Judge(contract_, summary));
  return {};
}

Part<PassRates> PairJudge::Rates(std::vector<ArmPass> arms) const {
  if (!contract_.clauses.empty()) return PassRates{std::move(arms), not_judged_};
  return NotMeasured{"no clause of the contract is about what scored logits show"};
}

}  // namespace kcc
