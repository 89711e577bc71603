// JUnit XML, so that any CI shows clauses as tests: a suite per family, a case per clause and
// slice. Violated is a failure, error is an error, inconclusive is skipped with its reason: the
// evidence decided nothing (docs/report.md; the exit code still says 3).
#pragma once

#include <string>
#include <string_view>

#include "kcc/report/report.h"

namespace kcc {

std::string ReportJunit(const ReportData& report);
// Whether ReportJunit wrote these bytes (report_formats.h, ReportFormat::has_mark).
bool IsReportJunit(std::string_view bytes);

}  // namespace kcc
