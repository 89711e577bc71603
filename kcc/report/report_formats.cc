#include "kcc/report/report_formats.h"

#include <algorithm>
#include <array>

#include "kcc/report/html.h"
#include "kcc/report/junit.h"
#include "kcc/report/report_markdown.h"
#include "kcc/report/sarif.h"
#include "kcc/report/terminal.h"

namespace kcc {
namespace {

// A writer that needs nothing but the report.
template <auto kWrite>
std::string Plain(const ReportData& report, const ReportFiles& /*beside*/) {
  return kWrite(report);
}

std::string Markdown(const ReportData& report, const ReportFiles& /*beside*/) {
  return ReportMarkdown(report);
}

std::string Terminal(const ReportData& report, const ReportFiles& /*beside*/) {
  return ReportTerminal(report, {});
}

constexpr std::array kFormats = {
    ReportFormat{.name = "json",
                 .file = kReportJsonName,
                 .media_type = "application/json",
                 .write = ReportJson,
                 .has_mark = IsReportJson,
                 .reader = "programs",
                 .notes = "the source of all others; its shape is "
                          "[a published schema](report.schema.json)"},
    ReportFormat{.name = "html",
                 .file = "report.html",
                 .media_type = "text/html; charset=utf-8",
                 .write = Plain<ReportHtml>,
                 .has_mark = IsReportHtml,
                 .reader = "people",
                 .notes = "one file, no network, light and dark, phone and print"},
    ReportFormat{.name = "markdown",
                 .file = "report.md",
                 .media_type = "text/markdown; charset=utf-8",
                 .write = Markdown,
                 .has_mark = IsReportMarkdown,
                 .reader = "a pull request",
                 .notes = "what is wrong first, the rest folded; below the 65,536 characters of a "
                          "GitHub comment"},
    ReportFormat{.name = "junit",
                 .file = "junit.xml",
                 .media_type = "application/xml",
                 .write = Plain<ReportJunit>,
                 .has_mark = IsReportJunit,
                 .reader = "CI",
                 .notes = "clauses as tests"},
    ReportFormat{.name = "sarif",
                 .file = "report.sarif",
                 .media_type = "application/sarif+json",
                 .on_request = true,
                 .write = Plain<ReportSarif>,
                 .has_mark = IsReportSarif,
                 .reader = "code review",
                 .notes = "a violated clause points at its line in the contract"},
    ReportFormat{.name = "terminal",
                 .file = "",
                 .media_type = "text/plain; charset=utf-8",
                 .write = Terminal,
                 .reader = "you",
                 .notes = "as wide as your terminal; colour only on one"},
};

}  // namespace

std::span<const ReportFormat> ReportFormats() { return kFormats; }

const ReportFormat* FindReportFormat(std::string_view name) {
  for (const ReportFormat& format : kFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

const ReportFormat* FindReportFile(std::string_view file) {
  for (const ReportFormat& format : kFormats) {
    if (!file.empty() && format.file == file) return &format;
  }
  return nullptr;
}

bool IsWritten(const ReportFormat& format, const AskedFormats& asked) {
  if (format.file.empty()) return false;
  return !format.on_request || std::find(asked.begin(), asked.end(), format.name) != asked.end();
}

bool HasReportMark(std::string_view file, std::string_view bytes) {
  const ReportFormat* format = FindReportFile(file);
  return format != nullptr && format->has_mark(bytes);
}

}  // namespace kcc
