// What a report shows of very many slices: the limits, and which ones come first.
//
// report.json keeps every verdict. Statistics, histograms, curves and worst tokens are kept of at
// most kDetailedSlicesMax slices, and the page shows at most kPagePairsMax pairs of a clause and a
// slice; both say what they leave out. First come the pairs that are violated, then errors, then
// undecided ones, then by how far they are from their threshold. Below the limits nothing changes.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/report/report.h"

namespace kcc {

inline constexpr size_t kDetailedSlicesMax = 100;
inline constexpr size_t kPagePairsMax = 4000;
// Beyond, each verdict of report.json stands on one line.
inline constexpr size_t kSpreadPairsMax = kPagePairsMax;

// Of the named slices those whose details are kept: "all", then those with the most severe pairs,
// then the rest in their order.
std::set<std::string> DetailedSlices(const Judgement& judgement,
                                     const std::vector<std::string>& names);

// The report as the page shows it: the clauses with their most severe pairs, every clause with at
// least one, and the details of as many slices as there may be; what is left out is said as a
// warning. The same report where nothing is to be left out.
ReportData ShownOnPage(const ReportData& report);

}  // namespace kcc
