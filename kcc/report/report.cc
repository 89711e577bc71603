#include "kcc/report/report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"
#include "kcc/judge/severity.h"
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

// "2.9 times its limit of 0.015"; what the limit is depends on the kind of clause.
std::string BeyondText(const WorstPair& worst) {
  const SliceVerdict& slice = *worst.slice;
  const bool soft = !worst.clause->hard && slice.exceedance;
  const std::string limit = soft ? "its budget of " + Percent(slice.exceedance->budget)
                                 : "its limit of " + ShortestNumber(slice.threshold);
  if (!worst.factor || !(*worst.factor >= 1)) return "beyond " + limit;
  if (!std::isfinite(*worst.factor)) return "beyond " + limit;
  // What is hardly beyond its limit still reads as beyond.
  const double shown = *worst.factor > 1 && *worst.factor < 1.095
                           ? std::ceil(*worst.factor * 100) / 100
                           : std::round(*worst.factor * 10) / 10;
  const std::string times = ShortNumber(shown) + " times ";
  const bool at_least = worst.clause->bound == BoundKind::kAtLeast && !soft;
  return at_least
             ? times + "as far down as its limit of " + ShortestNumber(slice.threshold) + " allows"
             : times + limit;
}

// "On all requests N-1 holds.", where it does: the average hides what the slice shows.
std::string HoldsOnAll(const ClauseVerdict& clause, const SliceVerdict& worst) {
  for (const SliceVerdict& slice : clause.slices) {
    if (slice.slice != "all" || worst.slice == "all") continue;
    if (slice.verdict() == Verdict::kSatisfied) return " On all requests " + clause.id + " holds.";
  }
  return "";
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

std::optional<WorstPair> FindWorstPair(const Judgement& judgement) {
  std::optional<WorstPair> worst;
  const auto beyond = [](const WorstPair& pair) { return pair.factor.value_or(0); };
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      if (slice.verdict() != Verdict::kViolated) continue;
      const WorstPair pair{&clause, &slice, Severity(clause, slice)};
      if (worst && clause.level < worst->clause->level) continue;
      if (worst && clause.level == worst->clause->level && beyond(pair) <= beyond(*worst)) continue;
      worst = pair;
    }
  }
  return worst;
}

std::string WorstText(const Judgement& judgement) {
  const std::optional<WorstPair> worst = FindWorstPair(judgement);
  if (!worst) return "";
  const SliceVerdict& slice = *worst->slice;
  const bool soft = !worst->clause->hard && slice.exceedance;
  const std::string value = soft ? Percent(slice.exceedance->rate()) +
                                       " of the windows are beyond " +
                                       ShortestNumber(slice.threshold)
                                 : IntervalText(slice.value);
  return "Worst on " + slice.slice + ": " + worst->clause->metric + (soft ? ": " : " is ") + value +
         ", " + BeyondText(*worst) + " (" + worst->clause->id + ")." +
         HoldsOnAll(*worst->clause, slice);
}

std::string ReasonOf(const ReportData& report, std::string_view clause) {
  const auto found = std::find_if(report.reasons.begin(), report.reasons.end(),
                                  [&](const ClauseReason& row) { return row.clause == clause; });
  return found == report.reasons.end() ? "" : found->why;
}

std::string WhereOf(const ReportData& report, std::string_view slice) {
  const auto found = std::find_if(report.slices.begin(), report.slices.end(),
                                  [&](const ReportSlice& row) { return row.name == slice; });
  return found == report.slices.end() ? "" : found->where;
}

std::string KernelName(const KernelProvenance& kernel, const std::string& input) {
  constexpr size_t kShort = 48;
  if (!kernel.fingerprint.empty() && DisplayWidth(kernel.fingerprint) <= kShort) {
    return kernel.fingerprint;
  }
  if (!input.empty()) return input;
  return kernel.fingerprint.empty() ? "unnamed" : Truncated(kernel.fingerprint, kShort);
}

bool AnythingMeasured(const Judgement& judgement) {
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      if (slice.value.known() || slice.exceedance) return true;
    }
  }
  return false;
}

std::string HealthText(const Judgement& judgement) {
  if (judgement.health < judgement.eta1) return "no L2 or L3 clause is violated";
  if (judgement.health < judgement.eta2) return "an L2 clause is violated, no L3 clause";
  return "an L3 clause is violated";
}

std::string RiskText(const Judgement& judgement) {
  if (!AnythingMeasured(judgement)) return "Risk unknown: nothing was measured";
  return "Risk " + ShortNumber(judgement.health) + " (0 is good): " + HealthText(judgement);
}

std::string_view ActionText(const Judgement& judgement) {
  return judgement.action ? Name(*judgement.action) : "none";
}

std::string_view ActionMeaning(const Judgement& judgement) {
  return judgement.action ? Meaning(*judgement.action) : "nothing is ordered";
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
