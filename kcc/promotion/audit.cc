#include "kcc/promotion/audit.h"

#include <algorithm>

#include "kcc/contract/certifiable.h"

namespace kcc {
namespace {

const ClauseVerdict* FindVerdict(const Judgement* judgement, const std::string& id) {
  if (judgement == nullptr) return nullptr;
  for (const ClauseVerdict& row : judgement->clauses) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

// Whether one value beyond the threshold breaks the clause, so that "it holds for all that was
// seen" means that no request was beyond it.
bool OneBreaksIt(const Clause& clause) {
  const Aggregate aggregate = clause.metric.aggregate;
  if (aggregate == Aggregate::kMax || aggregate == Aggregate::kMin ||
      clause.metric.quantity->form == TestForm::kLargest) {
    return true;
  }
  const double best = clause.at_most() ? MetricMin(clause.metric) : MetricMax(clause.metric);
  return clause.threshold == best;
}

bool HasRequestValues(const Clause& clause) {
  return clause.metric.quantity->level != QuantityLevel::kPopulation;
}

struct Audited {
  int64_t requests = 0;
  int64_t exceeding = 0;
};

// Of one slice. Zero requests where the evidence lacks something, or where nothing says of each
// request by itself that it was within.
Audited AuditOf(const Clause& clause, Population about, const SliceVerdict& slice,
                const SliceVerdict* twin) {
  // What holds of the requests that were seen, whatever it says about others.
  const auto fact_of = [&](const SliceVerdict& one) {
    return about == Population::kEvaluationSet ? one.about.verdict : one.other.verdict;
  };
  const Verdict fact = fact_of(slice);
  if (OneBreaksIt(clause)) {
    if (fact == Verdict::kViolated) return {slice.count.requests, 1};
    return {fact == Verdict::kSatisfied ? slice.count.requests : 0, 0};
  }
  if (HasRequestValues(clause)) {
    if (twin == nullptr || !twin->exceedance) return {};
    return {fact_of(*twin) == Verdict::kSatisfied ? twin->exceedance->windows : 0,
            twin->exceedance->exceeding};
  }
  if (!slice.exceedance) return {};
  return {fact == Verdict::kSatisfied ? slice.exceedance->windows : 0, slice.exceedance->exceeding};
}

ClauseFinding FindingOf(const ClauseVerdict& verdict) {
  ClauseFinding finding;
  finding.id = verdict.id;
  finding.level = verdict.level;
  finding.hard = verdict.hard;
  finding.action = verdict.action;
  finding.verdict = verdict.verdict;
  for (const SliceVerdict& slice : verdict.slices) {
    if (slice.verdict() != verdict.verdict || verdict.verdict == Verdict::kSatisfied) continue;
    finding.reason = "on slice " + slice.slice + ", " + slice.about.reason;
    break;
  }
  return finding;
}

void CountAudited(const Clause& clause, Population about, const ClauseVerdict& verdict,
                  const ClauseVerdict* twin, ClauseFinding* finding) {
  for (size_t i = 0; i < verdict.slices.size(); ++i) {
    const bool paired = twin != nullptr && i < twin->slices.size() &&
                        twin->slices[i].slice == verdict.slices[i].slice;
    const Audited one =
        AuditOf(clause, about, verdict.slices[i], paired ? &twin->slices[i] : nullptr);
    finding->audited = i == 0 ? one.requests : std::min(finding->audited, one.requests);
    finding->exceeding += one.exceeding;
  }
}

}  // namespace

const Look* PlannedLookAt(const StagePolicy& stage, int64_t used, int64_t requests) {
  for (size_t i = static_cast<size_t>(used); i < stage.looks.size(); ++i) {
    if (stage.looks[i].requests == requests) return &stage.looks[i];
  }
  return nullptr;
}

std::vector<AskedClause> AskedOf(const Contract& contract) {
  std::vector<AskedClause> asked;
  for (const Clause& clause : contract.clauses) {
    std::vector<Stage> stages = clause.stages;
    std::sort(stages.begin(), stages.end());
    asked.push_back({clause.id, clause.level, clause.hard(), std::move(stages),
                     WhyNeverCertified(clause, contract.assumptions)});
  }
  return asked;
}

Contract AuditContract(const Contract& contract) {
  // Small enough that no verdict of the twin is mistaken for one of the clause: nobody reads them.
  constexpr double kAnyShare = 1e-6;
  Contract audit = contract;
  audit.clauses.clear();
  for (const Clause& clause : contract.clauses) {
    const bool never = !WhyNeverCertified(clause, contract.assumptions).empty();
    if (!clause.hard() || !never || !HasRequestValues(clause) || OneBreaksIt(clause)) continue;
    Clause twin = clause;
    twin.exceedance = kAnyShare;
    twin.window = {};
    twin.min_samples = {};
    audit.clauses.push_back(std::move(twin));
  }
  return audit;
}

Evaluation EvaluationOf(const Contract& contract, const Judgement& judgement,
                        const Judgement* audit, const EvidenceFacts& facts) {
  Evaluation evaluation;
  evaluation.stage = judgement.stage;
  evaluation.evidence = facts.digest;
  evaluation.continues = facts.continues;
  evaluation.requests = facts.requests;
  evaluation.contract = facts.contract;
  evaluation.test = judgement.about == Population::kEvaluationSet ? TestKind::kExact
                    : judgement.stage == Stage::kOffline          ? TestKind::kFixed
                                                                  : TestKind::kAnytime;
  if (evaluation.test == TestKind::kFixed) evaluation.alpha = 1 - judgement.confidence;
  if (facts.look_alpha > 0 && evaluation.test == TestKind::kAnytime) {
    evaluation.test = TestKind::kFixed;
    evaluation.alpha = facts.look_alpha;
  }
  for (const ClauseVerdict& verdict : judgement.clauses) {
    ClauseFinding finding = FindingOf(verdict);
    const Clause* clause = contract.FindClause(verdict.id);
    if (clause != nullptr && clause->hard()) {
      CountAudited(*clause, judgement.about, verdict, FindVerdict(audit, verdict.id), &finding);
    }
    evaluation.clauses.push_back(std::move(finding));
  }
  return evaluation;
}

void AddIncumbent(const Judgement& incumbent, Evaluation* evaluation) {
  for (ClauseFinding& finding : evaluation->clauses) {
    if (const ClauseVerdict* verdict = FindVerdict(&incumbent, finding.id)) {
      finding.incumbent = verdict->verdict;
    }
  }
}

void AddUnderOld(const Contract& old_contract, const Judgement& judgement,
                 const std::string& digest, Evaluation* evaluation) {
  evaluation->old_contract = digest;
  evaluation->under_old.clear();
  for (const ClauseVerdict& verdict : judgement.clauses) {
    if (old_contract.FindClause(verdict.id) != nullptr) {
      evaluation->under_old.push_back(FindingOf(verdict));
    }
  }
}

}  // namespace kcc
