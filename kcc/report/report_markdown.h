// The report for a pull request: GitHub and GitLab flavoured Markdown. What is wrong comes first,
// the rest is folded away.
#pragma once

#include <string>
#include <string_view>

#include "kcc/report/report.h"

namespace kcc {

// GitHub refuses a comment above 65,536 characters; rows that do not fit are counted, not shown.
inline constexpr size_t kMarkdownBytesMax = 60'000;

std::string ReportMarkdown(const ReportData& report, size_t bytes_max = kMarkdownBytesMax);
// Whether ReportMarkdown wrote these bytes (report_formats.h, ReportFormat::has_mark).
bool IsReportMarkdown(std::string_view bytes);

// Text that Markdown shows as it is, on one line and inside a table cell: punctuation that has a
// meaning is escaped, and an @ mentions nobody.
std::string MarkdownText(std::string_view text);

// A code span, safe inside a table cell.
std::string MarkdownCode(std::string_view text);

// "✅ satisfied".
std::string MarkdownVerdict(Verdict verdict);

}  // namespace kcc
