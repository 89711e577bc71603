#include "kcc/report/report.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "kcc/base/check.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

void Count(Verdict verdict, VerdictTotals* totals) {
  ++totals->by_verdict[static_cast<size_t>(verdict)];
}

std::string Clauses(int64_t count) {
  return Grouped(count) + (count == 1 ? " clause is " : " clauses are ");
}

// Which bucket of the coarser histogram an edge belongs to: its sign and the leading bits of its
// magnitude, so that keys rise with the value.
int64_t EdgeKey(double edge, int dropped_bits) {
  const auto bits = std::bit_cast<uint64_t>(std::abs(edge));
  const auto key = static_cast<int64_t>(bits >> dropped_bits);
  return std::signbit(edge) && edge != 0 ? -key - 1 : key;
}

size_t KeysWith(const ReportHistogram& histogram, int dropped_bits) {
  size_t keys = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    keys += i == 0 || EdgeKey(histogram.edges[i], dropped_bits) !=
                          EdgeKey(histogram.edges[i - 1], dropped_bits);
  }
  return keys;
}

void DropEmptyEnds(ReportHistogram* histogram) {
  auto& counts = histogram->counts;
  auto& edges = histogram->edges;
  while (!counts.empty() && counts.back() == 0) {
    counts.pop_back();
    edges.pop_back();
  }
  size_t leading = 0;
  while (leading < counts.size() && counts[leading] == 0) ++leading;
  counts.erase(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(leading));
  edges.erase(edges.begin(), edges.begin() + static_cast<ptrdiff_t>(leading));
  if (counts.empty()) edges.clear();
}

}  // namespace

int64_t VerdictTotals::all() const {
  return std::accumulate(std::begin(by_verdict), std::end(by_verdict), int64_t{0});
}

OwnLabel LabelOf(const Quantity& quantity) {
  return {std::string(quantity.id), std::string(Name(quantity.unit)),
          std::string(Name(quantity.direction)), std::string(Name(quantity.level)),
          std::string(quantity.definition)};
}

VerdictTotals CountPairs(const Judgement& judgement) {
  VerdictTotals totals;
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) Count(slice.verdict(), &totals);
  }
  return totals;
}

VerdictTotals CountClauses(const Judgement& judgement) {
  VerdictTotals totals;
  for (const ClauseVerdict& clause : judgement.clauses) Count(clause.verdict, &totals);
  return totals;
}

std::string Headline(const Judgement& judgement) {
  const VerdictTotals clauses = CountClauses(judgement);
  const VerdictTotals pairs = CountPairs(judgement);
  if (clauses.all() == 0) return "No clause of the contract applies at this stage.";
  const std::string of_all = " of " + Grouped(clauses.all()) + " clauses";
  if (clauses.of(Verdict::kSatisfied) == clauses.all()) {
    return clauses.all() == 1 ? "The one clause is satisfied on every slice it names."
                              : "All " + Grouped(clauses.all()) +
                                    " clauses are satisfied on every slice they name.";
  }
  std::string text;
  for (const Verdict verdict : {Verdict::kViolated, Verdict::kError, Verdict::kInconclusive}) {
    const int64_t count = clauses.of(verdict);
    if (count == 0) continue;
    const std::string word = verdict == Verdict::kError ? "in error" : std::string(Name(verdict));
    if (text.empty()) {
      text = Grouped(count) + of_all + (count == 1 ? " is " : " are ") + word + ", on " +
             Grouped(pairs.of(verdict)) + " of " + Grouped(pairs.all()) + " clause–slice pairs";
    } else {
      text += "; " + Clauses(count) + word;
    }
  }
  return text + ".";
}

std::string HealthText(const Judgement& judgement) {
  if (judgement.health < judgement.eta1) return "no L2 or L3 clause is violated";
  if (judgement.health < judgement.eta2) return "an L2 clause is violated, no L3 clause";
  return "an L3 clause is violated";
}

std::string_view ActionText(const Judgement& judgement) {
  return judgement.action ? Name(*judgement.action) : "none";
}

ReportHistogram Coarsen(ReportHistogram histogram, size_t buckets_max) {
  KCC_CHECK(buckets_max >= 4);  // two signs, and zero beside the rest
  KCC_CHECK(histogram.counts.empty() || histogram.edges.size() == histogram.counts.size() + 1);
  DropEmptyEnds(&histogram);
  if (histogram.counts.size() <= buckets_max) return histogram;
  int dropped_bits = 0;
  while (dropped_bits < 62 && KeysWith(histogram, dropped_bits) > buckets_max) ++dropped_bits;

  ReportHistogram coarse{histogram.quantity, histogram.slice, {}, {}, histogram.infinite};
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const bool same = i > 0 && EdgeKey(histogram.edges[i], dropped_bits) ==
                                   EdgeKey(histogram.edges[i - 1], dropped_bits);
    if (same) {
      coarse.counts.back() += histogram.counts[i];
    } else {
      coarse.edges.push_back(histogram.edges[i]);
      coarse.counts.push_back(histogram.counts[i]);
    }
  }
  coarse.edges.push_back(histogram.edges.back());
  return coarse;
}

}  // namespace kcc
