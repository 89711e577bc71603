#include "kcc/report/contradiction.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kcc/base/strings.h"
#include "kcc/judge/health.h"
#include "kcc/report/report.h"

namespace kcc {
namespace {

// Shares and means are rounded once or twice on their way into a report.
constexpr double kSlack = 1e-9;

bool Above(double value, double limit) { return value > limit + kSlack * std::fabs(limit); }

std::string Quoted(std::string_view word) { return "'" + std::string(word) + "'"; }

std::string Mismatch(const std::string& path, const std::string& stored, std::string_view source,
                     const std::string& recomputed) {
  return path + " is " + stored + ", but " + std::string(source) + " " + recomputed;
}

std::string NumberMismatch(const std::string& path, double stored, double recomputed) {
  if (std::fabs(stored - recomputed) <= kSlack * std::fabs(recomputed)) return {};
  return Mismatch(path, ShortestNumber(stored), "the clauses make it", ShortestNumber(recomputed));
}

std::string SliceContradiction(const ClauseVerdict& clause, const SliceVerdict& slice,
                               Population about, const std::string& path) {
  if (!(slice.deviation >= 0 && slice.deviation <= 2)) {
    return path + ".deviation is not from 0 to 2";
  }
  if (slice.verdict() != Verdict::kSatisfied || about != Population::kEvaluationSet) return {};
  const bool at_most = clause.bound == BoundKind::kAtMost;
  const bool beyond =
      at_most ? Above(slice.value.lo, slice.threshold) : Above(slice.threshold, slice.value.hi);
  const bool over_budget =
      slice.exceedance && Above(slice.exceedance->rate(), slice.exceedance->budget);
  if (clause.hard ? beyond : over_budget) {
    return Mismatch(
        path + ".verdict", "'satisfied'", "its",
        clause.hard ? "value is beyond the threshold" : "exceedance is over the budget");
  }
  return {};
}

std::string ClauseContradiction(const ClauseVerdict& stored, const ClauseVerdict& again,
                                Population about, const std::string& path) {
  if (stored.slices.empty()) return path + " names no slice, so nothing shows its verdict";
  for (size_t i = 0; i < stored.slices.size(); ++i) {
    const SliceVerdict& slice = stored.slices[i];
    const std::string place = path + ".slices[" + std::to_string(i) + "]";
    std::string found = SliceContradiction(stored, slice, about, place);
    if (found.empty()) {
      found = NumberMismatch(place + ".weight", slice.weight, again.slices[i].weight);
    }
    if (!found.empty()) return found;
  }
  if (stored.verdict == again.verdict) return {};
  return Mismatch(path + ".verdict", Quoted(Name(stored.verdict)), "its slices make it",
                  Quoted(Name(again.verdict)));
}

// `least` has the action that is ordered whatever the contract wants of undecided pairs.
std::string ActionContradiction(const Judgement& stored, const Judgement& least) {
  const VerdictTotals pairs = CountPairs(stored);
  const bool undecided = pairs.of(Verdict::kInconclusive) > 0 || pairs.of(Verdict::kError) > 0 ||
                         stored.clauses.empty();
  const bool follows =
      undecided ? stored.action && *stored.action >= *least.action : stored.action == least.action;
  if (follows) return {};
  return Mismatch(".action", Quoted(ActionText(stored)),
                  undecided ? "the clauses make it at least" : "the clauses make it",
                  Quoted(ActionText(least)));
}

// A name that stands twice: which of the two a reader, or a comparison with another report, would
// take is anybody's guess.
std::string NameTwice(const Judgement& stored) {
  std::set<std::string_view> ids;
  for (const ClauseVerdict& clause : stored.clauses) {
    if (!ids.insert(clause.id).second) return "has the clause " + Quoted(clause.id) + " twice";
    std::set<std::string_view> slices;
    for (const SliceVerdict& slice : clause.slices) {
      if (slices.insert(slice.slice).second) continue;
      return "has the slice " + Quoted(slice.slice) + " of clause " + Quoted(clause.id) + " twice";
    }
  }
  return {};
}

}  // namespace

std::string Contradiction(const Judgement& stored) {
  if (std::string twice = NameTwice(stored); !twice.empty()) return twice;
  Escalation least;
  least.on_inconclusive = least.on_error = Action::kLog;
  Judgement again = stored;
  Conclude(least, &again);
  for (size_t i = 0; i < stored.clauses.size(); ++i) {
    std::string found = ClauseContradiction(stored.clauses[i], again.clauses[i], stored.about,
                                            ".clauses[" + std::to_string(i) + "]");
    if (!found.empty()) return found;
  }
  if (stored.verdict != again.verdict) {
    return Mismatch(".verdict", Quoted(Name(stored.verdict)), "the clauses make it",
                    Quoted(Name(again.verdict)));
  }
  if (stored.convergent != again.convergent) {
    return Mismatch(".convergent", stored.convergent ? "true" : "false", "the clauses make it",
                    again.convergent ? "true" : "false");
  }
  for (const std::string& found : {NumberMismatch(".thresholds[0]", stored.eta1, again.eta1),
                                   NumberMismatch(".thresholds[1]", stored.eta2, again.eta2),
                                   NumberMismatch(".health", stored.health, again.health)}) {
    if (!found.empty()) return found;
  }
  return ActionContradiction(stored, again);
}

}  // namespace kcc
