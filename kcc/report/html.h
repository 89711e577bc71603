// report.html: one self-contained page. It renders itself from the report.json it carries; with
// scripts off, a static summary remains. No request leaves the page: its content security policy
// forbids them, and forbids every script but the page's own.
#pragma once

#include <string>
#include <string_view>

#include "kcc/report/report.h"

namespace kcc {

std::string ReportHtml(const ReportData& report);
// Whether ReportHtml wrote these bytes (report_formats.h, ReportFormat::has_mark).
bool IsReportHtml(std::string_view bytes);

}  // namespace kcc
