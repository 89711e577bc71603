#include "kcc/report/shown.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "kcc/report/text.h"

namespace kcc {
namespace {

struct Pair {
  size_t clause = 0;
  size_t slice = 0;
};

// Violated, error, inconclusive, satisfied.
int Rank(Verdict verdict) {
  constexpr std::array<Verdict, 4> kOrder = {Verdict::kViolated, Verdict::kError,
                                             Verdict::kInconclusive, Verdict::kSatisfied};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), verdict) - kOrder.begin());
}

// Every pair, the most severe first; of equals, the one that stands first in the report.
std::vector<Pair> BySeverity(const Judgement& judgement) {
  std::vector<Pair> pairs;
  for (size_t c = 0; c < judgement.clauses.size(); ++c) {
    for (size_t s = 0; s < judgement.clauses[c].slices.size(); ++s) pairs.push_back({c, s});
  }
  const auto key = [&](const Pair& pair) {
    const ClauseVerdict& clause = judgement.clauses[pair.clause];
    const SliceVerdict& slice = clause.slices[pair.slice];
    const double deviation = slice.deviation == slice.deviation ? slice.deviation : 0;
    return std::tuple(Rank(slice.verdict()), -static_cast<int>(clause.level), -deviation);
  };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const Pair& a, const Pair& b) { return key(a) < key(b); });
  return pairs;
}

// The most severe pairs, and of every clause at least one, however many clauses there are.
void KeepMostSevere(const Judgement& all, Judgement* shown) {
  const std::vector<Pair> order = BySeverity(all);
  std::vector<std::vector<bool>> kept(all.clauses.size());
  for (size_t c = 0; c < kept.size(); ++c) kept[c].resize(all.clauses[c].slices.size());
  std::vector<bool> seen(all.clauses.size());
  size_t count = 0;
  for (const Pair& pair : order) {
    if (seen[pair.clause]) continue;
    seen[pair.clause] = true;
    kept[pair.clause][pair.slice] = true;
    ++count;
  }
  for (const Pair& pair : order) {
    if (count >= kPagePairsMax) break;
    if (kept[pair.clause][pair.slice]) continue;
    kept[pair.clause][pair.slice] = true;
    ++count;
  }
  for (size_t c = 0; c < kept.size(); ++c) {
    size_t at = 0;
    std::erase_if(shown->clauses[c].slices, [&](const SliceVerdict&) { return !kept[c][at++]; });
  }
}

std::string PairsNote(const Judgement& all, const Judgement& shown) {
  const VerdictTotals total = CountPairs(all);
  const VerdictTotals here = CountPairs(shown);
  std::string rest;
  for (const Verdict verdict :
       {Verdict::kViolated, Verdict::kError, Verdict::kInconclusive, Verdict::kSatisfied}) {
    const int64_t missing = total.of(verdict) - here.of(verdict);
    if (missing == 0) continue;
    rest += (rest.empty() ? "" : ", ") + Grouped(missing) + " " + std::string(Name(verdict));
  }
  return "this page shows " + Grouped(here.all()) + " of " + Grouped(total.all()) +
         " clause–slice pairs, the most severe first; in report.json alone are " + rest + ".";
}

}  // namespace

std::set<std::string> DetailedSlices(const Judgement& judgement,
                                     const std::vector<std::string>& names) {
  if (names.size() <= kDetailedSlicesMax) return {names.begin(), names.end()};
  const std::set<std::string_view> known(names.begin(), names.end());
  std::set<std::string> chosen;
  const auto choose = [&](const std::string& name) {
    if (chosen.size() < kDetailedSlicesMax && known.contains(name)) chosen.insert(name);
  };
  choose("all");
  for (const Pair& pair : BySeverity(judgement)) {
    choose(judgement.clauses[pair.clause].slices[pair.slice].slice);
  }
  for (const std::string& name : names) choose(name);
  return chosen;
}

ReportData ShownOnPage(const ReportData& report) {
  const Judgement& all = report.judgement;
  ReportData shown = report;
  std::vector<std::string> names;
  std::set<std::string_view> known;
  for (const QuantitySlice& row : report.quantities) {
    if (known.insert(row.slice).second) names.push_back(row.slice);
  }
  const bool many_pairs = CountPairs(all).all() > static_cast<int64_t>(kPagePairsMax);
  if (many_pairs) {
    KeepMostSevere(all, &shown.judgement);
    const std::set<std::string> detailed = DetailedSlices(all, names);
    shown.slices_without_detail += static_cast<int64_t>(names.size() - detailed.size());
    names.resize(detailed.size());
    const auto keep = [&](auto* rows) {
      std::erase_if(*rows, [&](const auto& row) { return !detailed.contains(row.slice); });
    };
    keep(&shown.quantities);
    keep(&shown.histograms);
    keep(&shown.curves);
    keep(&shown.worst);
    shown.judgement.warnings.push_back(PairsNote(all, shown.judgement));
  }
  if (shown.slices_without_detail > 0) {
    shown.judgement.warnings.push_back(
        "charts and tables speak of the " + Grouped(static_cast<int64_t>(names.size())) +
        " slices with the most severe verdicts; of " + Grouped(shown.slices_without_detail) +
        " further slices the verdicts alone are kept.");
  }
  return shown;
}

}  // namespace kcc
