#include "kcc/judge/judge.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/judge/facts.h"
#include "kcc/judge/health.h"
#include "kcc/judge/more_requests.h"
#include "kcc/judge/passing.h"
#include "kcc/judge/relevance.h"
#include "kcc/judge/traffic.h"
#include "kcc/stats/multiplicity.h"

namespace kcc {
namespace {

// A clause on a slice under judgement, with what both populations need.
struct Case {
  const Clause* clause = nullptr;
  const Slice* slice = nullptr;
  Side outcomes = Side::kInfer;  // by whose outcomes the slice selects
  Facts facts;
  TrafficFinding traffic;
  std::string more_means;   // what the forecast of requests means, in words
  bool from_lists = false;  // a side gave top-k lists
  double alpha = 0.05;
  bool traffic_violated = false;  // after the correction for many clauses
};

Population AboutOf(const Contract& contract, const JudgeOptions& options) {
  if (options.about) return *options.about;
  if (contract.decision.about) return *contract.decision.about;
  return options.stage == Stage::kOffline ? Population::kEvaluationSet : Population::kTraffic;
}

std::string Comparison(const Clause& clause) {
  return std::string(clause.bound == BoundKind::kAtMost ? "at most " : "at least ") +
         ShortestNumber(clause.threshold);
}

std::string ValueText(const Interval& value) {
  if (!value.known()) return "unknown";
  if (value.exact()) return ReadableNumber(value.lo);
  return "between " + ReadableNumber(value.lo) + " and " + ReadableNumber(value.hi);
}

// The fact of the evaluation set in words.
std::string FactText(const Clause& clause, const Facts& facts) {
  const std::string metric = MetricName(clause.metric);
  if (clause.hard()) return metric + " is " + ValueText(facts.value);
  const UnitCounts& units = *facts.units;
  std::string counted = std::to_string(units.beyond_sure);
  if (units.beyond_possible != units.beyond_sure) {
    counted += " to " + std::to_string(units.beyond_possible);
  }
  return counted + " of " + std::to_string(units.units) + " windows (" + WindowText(clause.window) +
         ") have " + metric + " beyond " + ShortestNumber(clause.threshold) + ", " +
         std::to_string(units.allowed) + " may";
}

// Too little evidence for any verdict on the clause, in words; empty if there is enough.
std::string TooLittle(const Clause& clause, const Facts& facts) {
  if (facts.truth == Truth::kNoEvidence) return facts.why_not;
  const auto short_of = [](int64_t have, int64_t asked, const char* unit) {
    return std::to_string(have) + " " + unit + ", the clause asks for " + std::to_string(asked);
  };
  const MinSamples& least = clause.min_samples;
  if (facts.samples.requests < least.requests) {
    return short_of(facts.samples.requests, least.requests, "requests");
  }
  if (facts.samples.tokens < least.tokens) {
    return short_of(facts.samples.tokens, least.tokens, "tokens");
  }
  return {};
}

// What is not in the evidence and might change the verdict.
std::string Missing(const Facts& facts) {
  if (!facts.unplaced.empty()) return facts.unplaced;
  if (facts.missing > 0) {
    return std::to_string(facts.missing) + " values are missing from the evidence";
  }
  return std::to_string(facts.unmeasured) +
         " requests of the traces were not measured; merge the other shards";
}

// The rules that both populations share. `violated` and `satisfied` are what the evidence shows;
// the former already allows for what is missing.
PopulationVerdict Decide(const Case& one, bool violated, bool satisfied, std::string reason) {
  PopulationVerdict verdict;
  const Facts& facts = one.facts;
  if (facts.truth == Truth::kBroken) {
    verdict.verdict = Verdict::kError;
    verdict.reason = facts.why_not;
    return verdict;
  }
  verdict.reason = TooLittle(*one.clause, facts);
  if (!verdict.reason.empty()) {
    if (facts.truth == Truth::kFails) {
      verdict.reason += "; what there is lies beyond the threshold";
    }
    return verdict;
  }
  verdict.reason = std::move(reason);
  if (violated) {
    verdict.verdict = Verdict::kViolated;
  } else if (!facts.complete()) {
    verdict.reason += "; " + Missing(facts);
  } else if (satisfied) {
    verdict.verdict = Verdict::kSatisfied;
  }
  return verdict;
}

// The evidence leaves an interval with the threshold inside: what would be narrower. Without lists
// it is the buckets of values that were counted without the clause's threshold.
std::string WhatWouldSettle(const Case& one) {
  const Interval& value = one.facts.value;
  if (!one.from_lists) return "full logits, or this contract at measuring, would settle it";
  if (one.clause->hard() && (std::isinf(value.lo) || std::isinf(value.hi))) {
    return "what a list leaves out has no bound here, so full logits alone would settle it; "
           "contracts/server-top-k.yaml asks for what lists can decide";
  }
  return "longer lists, or full logits, would settle it";
}

PopulationVerdict AboutEvaluationSet(const Case& one) {
  std::string reason;
  if (one.facts.truth < Truth::kNoEvidence) {
    reason = FactText(*one.clause, one.facts);
    if (one.clause->hard()) reason += ", " + Comparison(*one.clause) + " is asked";
    if (!one.facts.lacking.empty()) reason += "; " + one.facts.lacking;
    if (one.facts.truth == Truth::kStraddles) {
      reason += ": the evidence is partial and the threshold lies inside; " + WhatWouldSettle(one);
    }
  }
  return Decide(one, one.facts.fails_surely, one.facts.truth == Truth::kHolds, std::move(reason));
}

PopulationVerdict AboutTraffic(const Case& one) {
  const TrafficFinding& finding = one.traffic;
  std::string reason;
  if (one.facts.truth < Truth::kNoEvidence) {
    reason = FactText(*one.clause, one.facts) + "; " + finding.what;
    if (!one.facts.lacking.empty()) reason += "; " + one.facts.lacking;
  }
  PopulationVerdict verdict =
      Decide(one, one.traffic_violated, finding.certified, std::move(reason));
  verdict.confidence_interval = finding.confidence_interval;
  if (finding.kind == TrafficFinding::Kind::kBroken) {
    verdict.verdict = Verdict::kError;
    verdict.reason = finding.what;
  }
  const bool open = verdict.verdict == Verdict::kInconclusive && one.facts.complete();
  if (open && finding.more_requests && TooLittle(*one.clause, one.facts).empty()) {
    verdict.more_requests = finding.more_requests;
    verdict.reason += "; about " + std::to_string(*finding.more_requests) +
                      " more requests in slice " + one.slice->name + " would settle it" +
                      one.more_means;
  }
  return verdict;
}

// Which of the refutations survive: a proof always, a test only beside all the others.
void CorrectForMany(double alpha, std::vector<Case>* cases) {
  std::vector<double> p_values;
  std::vector<Case*> tested;
  for (Case& one : *cases) {
    one.traffic_violated = one.traffic.kind == TrafficFinding::Kind::kProvenViolated;
    if (one.traffic.kind != TrafficFinding::Kind::kTested) continue;
    tested.push_back(&one);
    // A clause with its own confidence spends its own error.
    p_values.push_back(std::min(1.0, one.traffic.p_violated * alpha / one.alpha));
  }
  const std::vector<bool> rejected = HolmRejects(p_values, alpha);
  for (size_t i = 0; i < tested.size(); ++i) tested[i]->traffic_violated = rejected[i];
}

double DeviationOf(const Case& one) {
  const Clause& clause = *one.clause;
  if (!clause.hard()) {
    const UnitCounts& units = *one.facts.units;
    const double rate = static_cast<double>(units.beyond_sure) / static_cast<double>(units.units);
    return Deviation(rate - clause.exceedance, clause.exceedance);
  }
  const double excess = clause.bound == BoundKind::kAtMost ? one.facts.value.lo - clause.threshold
                                                           : clause.threshold - one.facts.value.hi;
  return Deviation(excess, clause.threshold);
}

std::optional<ExceedanceCount> CountOf(const Case& one) {
  if (!one.facts.units) return {};
  const UnitCounts& units = *one.facts.units;
  const double budget = one.clause->hard()
                            ? static_cast<double>(units.allowed) / static_cast<double>(units.units)
                            : one.clause->exceedance;
  return ExceedanceCount{static_cast<int64_t>(units.units), static_cast<int64_t>(units.beyond_sure),
                         budget};
}

SliceVerdict MakeSliceVerdict(const Case& one, Population about, const Relevance& relevance,
                              const std::string& unvouched, FactReader* reader) {
  SliceVerdict result;
  result.slice = one.slice->name;
  result.value = one.facts.value;
  result.threshold = one.clause->threshold;
  result.count = one.facts.samples;
  result.exceedance = CountOf(one);
  const PopulationVerdict traffic = AboutTraffic(one);
  PopulationVerdict evaluation_set = AboutEvaluationSet(one);
  if (one.facts.estimate) {  // no fact about the set: another draw would give another number
    evaluation_set = traffic;
    evaluation_set.reason = "estimated from sampled tokens: " + traffic.reason;
  }
  const bool about_set = about == Population::kEvaluationSet;
  result.about = about_set ? evaluation_set : traffic;
  result.other = about_set ? traffic : evaluation_set;
  for (PopulationVerdict* verdict : {&result.about, &result.other}) {
    if (!relevance.mismatch.empty()) {
      *verdict = {Verdict::kError, relevance.mismatch, {}, {}};
      continue;
    }
    for (const std::string* doubt : {&relevance.unstated, &unvouched}) {
      if (doubt->empty() || verdict->verdict != Verdict::kSatisfied) continue;
      verdict->verdict = Verdict::kInconclusive;
      verdict->reason += "; " + *doubt;
    }
  }
  if (result.verdict() == Verdict::kViolated) {
    result.deviation = DeviationOf(one);
    const Passing passing = WouldHavePassed(*one.clause, one.facts, reader);
    result.smallest_passing = passing.threshold;
    result.smallest_budget = passing.budget;
  }
  return result;
}

// The clause must hold on what either side's own outcomes select: the worse verdict counts, about
// each population.
void HoldOnBoth(SliceVerdict of_train, SliceVerdict* verdict) {
  for (PopulationVerdict* each : {&of_train.about, &of_train.other}) {
    each->reason += " (of what train's own outcomes select)";
  }
  PopulationVerdict other = of_train.other.verdict > verdict->other.verdict
                                ? std::move(of_train.other)
                                : std::move(verdict->other);
  if (of_train.verdict() > verdict->verdict()) *verdict = std::move(of_train);
  verdict->other = std::move(other);
}

ClauseVerdict MakeClauseVerdict(const Clause& clause, const Escalation& escalation) {
  ClauseVerdict row;
  row.id = clause.id;
  row.family = clause.family;
  row.metric = MetricName(clause.metric);
  row.level = clause.level;
  row.bound = clause.bound;
  row.hard = clause.hard();
  row.action = ActionOf(escalation, clause);
  row.mark = clause.mark;
  return row;
}

}  // namespace

Judgement Judge(const Contract& contract, const Summary& summary, const JudgeOptions& options) {
  Judgement judgement;
  judgement.about = AboutOf(contract, options);
  judgement.stage = options.stage;
  judgement.confidence = contract.decision.confidence;

  // Later stages are judged again and again while their evidence grows.
  const bool once = options.stage == Stage::kOffline || options.look;
  const Looks looks = once ? Looks::kOnce : Looks::kAgain;
  const auto spent = [&](double own) {
    return options.look ? std::min(own * options.look->share, options.look->alpha) : own;
  };
  FactReader reader(summary);
  const bool lists =
      std::any_of(summary.sources.begin(), summary.sources.end(), [](const Source& source) {
        return source.train.evidence == EvidenceLevel::kTopK ||
               source.infer.evidence == EvidenceLevel::kTopK;
      });
  std::vector<Case> cases;
  for (const Clause& clause : contract.clauses) {
    const std::vector<Stage>& stages = clause.stages;
    if (std::find(stages.begin(), stages.end(), options.stage) == stages.end()) continue;
    judgement.clauses.push_back(MakeClauseVerdict(clause, contract.escalation));
    const std::vector<PlanTest> tests = TestsOf(clause, contract.assumptions);
    for (const std::string& name : clause.slices) {
      const Slice* slice = contract.FindSlice(name);
      for (const Side outcomes : {Side::kInfer, Side::kTrain}) {
        Case one;
        one.clause = &clause;
        one.slice = slice;
        if (outcomes == Side::kTrain && !ReadsOutcome(*one.slice)) continue;
        one.outcomes = outcomes;
        one.from_lists = lists;
        one.alpha = spent(1 - clause.confidence.value_or(contract.decision.confidence));
        one.facts = reader.Read(clause, *one.slice, outcomes);
        if (one.facts.truth < Truth::kNoEvidence) {
          one.traffic = FindInTraffic(clause, contract.assumptions, tests, one.facts, summary,
                                      one.alpha, looks);
        }
        if (one.traffic.more_requests && one.facts.slice) {
          one.more_means = WhatMoreRequestsMean(clause, one.facts, summary.slices[*one.facts.slice],
                                                *one.traffic.more_requests, one.alpha, looks);
        }
        cases.push_back(std::move(one));
      }
    }
  }
  CorrectForMany(spent(1 - contract.decision.confidence), &cases);

  const Relevance relevance = RelevanceOf(contract, summary);
  auto next = cases.cbegin();
  for (ClauseVerdict& row : judgement.clauses) {
    for (const Clause* clause = next->clause; next != cases.cend() && next->clause == clause;
         ++next) {
      const std::string unvouched =
          UnvouchedBy(contract, summary, *clause, *next->slice, next->facts.slice);
      SliceVerdict verdict =
          MakeSliceVerdict(*next, judgement.about, relevance, unvouched, &reader);
      if (next->outcomes == Side::kInfer) {
        row.slices.push_back(std::move(verdict));
      } else {
        HoldOnBoth(std::move(verdict), &row.slices.back());
      }
    }
  }
  judgement.warnings = WarningsOf(contract, summary, judgement);
  Conclude(contract.escalation, &judgement);
  return judgement;
}

}  // namespace kcc
