// Writing and printing reports, as judge, run and report all do it.
#pragma once

#include <optional>
#include <string>

#include "apps/kcc/console.h"
#include "kcc/base/result.h"
#include "kcc/report/report.h"
#include "kcc/report/report_directory.h"

namespace kcc::cli {

// The directory that --report names, locked; none where it names none. Taken with nothing of an
// earlier run in it, before anything else can fail: whatever happens then, no old verdict stays.
Result<std::optional<ReportDirectory>> TakeReportDirectory(const std::string& path,
                                                           const AskedFormats& asked);

// A stored report with the digest of its bytes.
struct StoredReport {
  ReportData data;
  std::string digest;  // of report.json
};

// A report.json, or a report directory whose files must all be of one run; "-" is standard input.
Result<StoredReport> LoadReport(const std::string& path, Console& console);

// The terminal's form, or report.json with --json.
void PrintReport(const ReportData& report, bool all, Console& console);

// After the last word on standard output. A run whose output was lost fails, so a report that it
// wrote is taken back.
void KeepIfPrinted(std::optional<ReportDirectory>& directory, Console& console);

}  // namespace kcc::cli
