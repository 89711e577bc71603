#include "kcc/experiment/experiment_report.h"

#include <algorithm>

namespace kcc {
namespace {

// The row of a name, made where there is none yet: slices come in the order of the first clause
// that names them.
template <class Row>
Row& RowOf(std::vector<Row>& rows, std::string Row::*name, const std::string& wanted) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.*name == wanted; });
  if (found != rows.end()) return *found;
  rows.emplace_back().*name = wanted;
  return rows.back();
}

}  // namespace

std::string_view Name(ArmRole role) {
  return role == ArmRole::kBaseline ? "baseline" : "candidate";
}

void VerdictCounts::Add(const SliceVerdict& verdict) {
  // The judge calls a slice without evidence inconclusive, and rightly; here it would look as if
  // more evidence of the same kind could settle it.
  if (verdict.verdict() == Verdict::kInconclusive && verdict.count.requests == 0) {
    ++empty;
    return;
  }
  switch (verdict.verdict()) {
    case Verdict::kSatisfied:
      ++satisfied;
      return;
    case Verdict::kViolated:
      ++violated;
      return;
    case Verdict::kInconclusive:
      ++inconclusive;
      return;
    case Verdict::kError:
      ++error;
      return;
  }
}

void VerdictCounts::Add(const VerdictCounts& other) {
  satisfied += other.satisfied;
  violated += other.violated;
  inconclusive += other.inconclusive;
  error += other.error;
  empty += other.empty;
}

std::optional<double> VerdictCounts::share() const {
  if (judged() == 0) return {};
  return static_cast<double>(satisfied) / static_cast<double>(judged());
}

VerdictCounts SlicePass::total() const {
  VerdictCounts sum;
  for (const ClausePass& clause : clauses) sum.Add(clause.counts);
  return sum;
}

void ArmPass::Add(const Judgement& judgement) {
  ++regimes;
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& verdict : clause.slices) {
      SlicePass& slice = RowOf(slices, &SlicePass::slice, verdict.slice);
      RowOf(slice.clauses, &ClausePass::clause, clause.id).counts.Add(verdict);
    }
  }
}

}  // namespace kcc
