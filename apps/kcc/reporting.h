// Writing and printing reports, as judge, run and report all do it.
#pragma once

#include <string>

#include "apps/kcc/console.h"
#include "kcc/base/result.h"
#include "kcc/report/report.h"

namespace kcc::cli {

// report.json, report.html, report.md and junit.xml in a directory made if need be, each written
// atomically; report.sarif where asked.
Result<> WriteReports(const ReportData& report, const std::string& directory, bool sarif);

// The terminal's form, or report.json with --json.
void PrintReport(const ReportData& report, bool all, Console& console);

}  // namespace kcc::cli
