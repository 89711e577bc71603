// SARIF 2.1.0: every clause-slice pair that is not satisfied, pointing at its clause in the
// contract file, so that a review shows the violation at the line that forbids it.
#pragma once

#include <string>
#include <string_view>

#include "kcc/report/report.h"

namespace kcc {

// The contract's file (report.contract.file) becomes the location, relative to the repository as
// the user named it; without one, results carry no location.
std::string ReportSarif(const ReportData& report);
// Whether ReportSarif wrote these bytes (report_formats.h, ReportFormat::has_mark).
bool IsReportSarif(std::string_view bytes);

}  // namespace kcc
