#include "kcc/contract/certifiable.h"

#include <algorithm>
#include <cmath>

namespace kcc {
namespace {

// The end of the metric's range in the direction of harm, as the assumptions bound it.
bool BoundedTowardsHarm(const Clause& clause, const Assumptions& assumptions) {
  switch (clause.metric.quantity->bounded_by) {
    case BoundedBy::kOwnRange:
      break;
    case BoundedBy::kRewardMax:
      if (assumptions.reward_max) return true;
      break;
    case BoundedBy::kTokensMax:
      if (assumptions.tokens_max) return true;
      break;
  }
  // From above both ends are needed: what is bounded at one end only has no scale to bet on.
  if (!std::isfinite(MetricMin(clause.metric))) return false;
  return clause.bound == BoundKind::kAtLeast || std::isfinite(MetricMax(clause.metric));
}

// A mean or share whose threshold is the best value there is: every unit must have that value.
bool AsksForTheBest(const Clause& clause) {
  const Aggregate aggregate = clause.metric.aggregate;
  const TestForm form = clause.metric.quantity->form;
  const bool share = aggregate == Aggregate::kRate || aggregate == Aggregate::kMean ||
                     form == TestForm::kRequestShare || form == TestForm::kTokenShare ||
                     form == TestForm::kReplayShare;
  const double best = clause.at_most() ? MetricMin(clause.metric) : MetricMax(clause.metric);
  return share && clause.threshold == best;
}

}  // namespace

std::string WhyNeverCertified(const Clause& clause, const Assumptions& assumptions) {
  if (!clause.hard()) {
    if (clause.window.kind != Window::Kind::kTime) return {};
    return "windows of time follow one another and are not independent";
  }
  if (AsksForTheBest(clause)) return "no sample shows that there is never an exception";
  switch (CertifiableForTraffic(clause, assumptions)) {
    case Certifiable::kYes:
      break;
    case Certifiable::kNotExtreme:
      return "the next request may be the worst";
    case Certifiable::kNotUnboundedMean:
      return "one unseen request could move the mean by any amount";
  }
  const Quantity& quantity = *clause.metric.quantity;
  const Aggregate aggregate = clause.metric.aggregate;
  const bool extreme = aggregate == Aggregate::kMax || aggregate == Aggregate::kMin;
  // A minimum at most, or a maximum at least: one value that is within shows it.
  if (extreme) return {};
  if (quantity.form == TestForm::kNone || quantity.form == TestForm::kReplayShare) {
    return "no test of " + std::string(quantity.id) + " about traffic is known";
  }
  const bool of_tokens =
      quantity.level == QuantityLevel::kToken || quantity.form == TestForm::kTokenShare ||
      (quantity.form == TestForm::kMeanGap && quantity.observation == Observation::kToken);
  if (of_tokens && !assumptions.tokens_max) {
    return "tokens are tested with the request as unit, which needs assumptions.tokensMax";
  }
  return {};
}

std::vector<UndecidableClause> UndecidableClauses(const Contract& contract, Stage stage) {
  std::vector<UndecidableClause> found;
  const Population offline = contract.decision.about.value_or(Population::kEvaluationSet);
  if (stage == Stage::kOffline && offline == Population::kEvaluationSet) return found;
  for (const Clause& clause : contract.clauses) {
    if (std::find(clause.stages.begin(), clause.stages.end(), stage) == clause.stages.end()) {
      continue;
    }
    std::string why = WhyNeverCertified(clause, contract.assumptions);
    if (!why.empty()) found.push_back({&clause, std::move(why)});
  }
  return found;
}

Certifiable CertifiableForTraffic(const Clause& clause, const Assumptions& assumptions) {
  if (!clause.hard()) return Certifiable::kYes;
  const Aggregate aggregate = clause.metric.aggregate;
  const bool most = clause.bound == BoundKind::kAtMost;
  const bool extreme = (aggregate == Aggregate::kMax && most) ||
                       (aggregate == Aggregate::kMin && !most) ||
                       clause.metric.quantity->form == TestForm::kLargest;
  if (extreme) return Certifiable::kNotExtreme;
  const bool mean =
      aggregate == Aggregate::kMean || clause.metric.quantity->form == TestForm::kMeanGap;
  if (mean && !BoundedTowardsHarm(clause, assumptions)) return Certifiable::kNotUnboundedMean;
  return Certifiable::kYes;
}

}  // namespace kcc
