// From what was measured and judged to what a report shows.
#pragma once

#include <string>
#include <string_view>

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/report/report.h"
#include "kcc/summary/summary.h"

namespace kcc {

// Statistics of every quantity that was measured, on every slice; histograms and worst tokens of
// those that a clause names, on the slices it names. `file` is the contract as the user named it.
// `shown`: a part of the summary's plan, and the report is as if no more had been measured; null:
// all of it.
ReportData MakeReport(const Contract& contract, const std::string& file, std::string_view version,
                      const Summary& summary, const Judgement& judgement,
                      const Plan* shown = nullptr);

}  // namespace kcc
