// kcc report and kcc compare: a stored report shown again, two of them side by side.
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/reporting.h"
#include "kcc/base/file.h"
#include "kcc/report/compare.h"
#include "kcc/report/html.h"
#include "kcc/report/json.h"
#include "kcc/report/junit.h"
#include "kcc/report/markdown.h"
#include "kcc/report/sarif.h"
#include "kcc/report/terminal.h"

namespace kcc::cli {
namespace {

Result<ReportData> LoadReport(const std::string& path, Console& console) {
  KCC_TRY(const std::string text, ReadInput(path, kReportBytesMax, console));
  Result<ReportData> report = ReadReport(text);
  if (!report.has_value()) return std::move(report.error()).At(Place{DisplayName(path)});
  return report;
}

}  // namespace

Result<> WriteReports(const ReportData& report, const std::string& directory, bool sarif) {
  const std::filesystem::path folder(directory);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return IoError("cannot make the directory: " + failed.message(), Place{directory});
  const auto write = [&](const char* name, const std::string& text) {
    return WriteFileAtomically((folder / name).string(), text);
  };
  KCC_TRY_VOID(write("report.json", ReportJson(report)));
  KCC_TRY_VOID(write("report.html", ReportHtml(report)));
  KCC_TRY_VOID(write("report.md", ReportMarkdown(report)));
  KCC_TRY_VOID(write("junit.xml", ReportJunit(report)));
  if (sarif) KCC_TRY_VOID(write("report.sarif", ReportSarif(report)));
  return {};
}

void PrintReport(const ReportData& report, bool all, Console& console) {
  if (console.json) {
    console.out << ReportJson(report);
    return;
  }
  console.out << ReportTerminal(report, {console.width, console.colour_out, all});
}

int RunReport(const ReportOptions& options, Console& console) {
  const Result<ReportData> report = LoadReport(options.file, console);
  if (!report.has_value()) return ReportError(report.error(), console);
  if (!options.output.empty()) {
    const Result<> written = WriteReports(*report, options.output, options.sarif);
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  PrintReport(*report, options.all, console);
  return kExitOk;
}

int RunCompare(const CompareOptions& options, Console& console) {
  const Result<ReportData> before = LoadReport(options.before, console);
  if (!before.has_value()) return ReportError(before.error(), console);
  const Result<ReportData> after = LoadReport(options.after, console);
  if (!after.has_value()) return ReportError(after.error(), console);
  const ReportComparison comparison = CompareReports(*before, *after);
  if (console.json) {
    console.out << ComparisonJson(comparison);
  } else if (options.markdown) {
    console.out << ComparisonMarkdown(comparison);
  } else {
    console.out << ComparisonTerminal(comparison, {console.width, console.colour_out, false});
  }
  return comparison.Count(PairChange::kRegressed) > 0 ? kExitViolated : kExitOk;
}

}  // namespace kcc::cli
