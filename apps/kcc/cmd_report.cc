// kcc report and kcc compare: a stored report shown again, two of them side by side.
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/reporting.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/report/compare.h"
#include "kcc/report/report_formats.h"
#include "kcc/report/report_json.h"
#include "kcc/report/terminal.h"

namespace kcc::cli {
namespace {

namespace fs = std::filesystem;

Result<StoredReport> ParseReport(const std::string& text, const std::string& file) {
  Result<ReportData> report = ReadReport(text);
  if (!report.has_value()) return std::move(report.error()).At(Place{file});
  return StoredReport{std::move(*report), Sha256Of(text)};
}

// A directory is a report of several files, which must all be of one run.
Result<StoredReport> LoadDirectory(const std::string& directory, Console& console) {
  const fs::path path = fs::path(directory) / kReportJsonName;
  std::error_code unknown;
  if (!fs::exists(path, unknown)) {
    return IoError("holds no report.json: no run has finished its report here", Place{directory});
  }
  KCC_TRY(const std::string text, ReadRegularFile(path.string(), kReportBytesMax));
  KCC_TRY(StoredReport report, ParseReport(text, path.string()));
  Result<ReportFiles> files = ReadReportFiles(text);
  if (!files.has_value()) return std::move(files.error()).At(Place{path.string()});
  if (files->empty()) {
    console.err << Shown(path.string())
                << ": warning: it names no files, as written by an earlier kcc; those beside it "
                   "were not checked\n";
    return report;
  }
  KCC_TRY_VOID(VerifyReportFiles(directory, *files));
  return report;
}

// Whether a report lies in the directory it is to be written to, or would if it were there; of a
// pipe nobody knows.
bool MayLieIn(const std::string& file, const std::string& directory) {
  std::error_code failed;
  const fs::file_status status = fs::status(file, failed);
  const bool folder = fs::is_directory(status);
  if (file == "-" || (fs::exists(status) && !fs::is_regular_file(status) && !folder)) return true;
  const fs::path real = fs::weakly_canonical(fs::absolute(file, failed), failed);
  return fs::equivalent(folder ? real : real.parent_path(), directory, failed);
}

}  // namespace

Result<StoredReport> LoadReport(const std::string& path, Console& console) {
  std::error_code unknown;
  if (path != "-" && fs::is_directory(path, unknown)) return LoadDirectory(path, console);
  KCC_TRY(const std::string text, ReadInput(path, kReportBytesMax, console));
  return ParseReport(text, DisplayName(path));
}

Result<std::optional<ReportDirectory>> TakeReportDirectory(const std::string& path,
                                                           const AskedFormats& asked) {
  if (path.empty()) return std::optional<ReportDirectory>();
  KCC_TRY(std::optional<ReportDirectory> directory, ReportDirectory::Open(path));
  KCC_TRY_VOID(directory->Clear(asked));
  return directory;
}

void KeepIfPrinted(std::optional<ReportDirectory>& directory, Console& console) {
  console.out.flush();
  if (!console.out && directory) directory->Discard();
}

void PrintReport(const ReportData& report, bool all, Console& console) {
  if (console.json) {
    console.out << ReportJson(report);
    return;
  }
  console.out << ReportTerminal(report, {console.width, console.colour_out, all});
}

int RunReport(const ReportOptions& options, Console& console) {
  std::optional<ReportDirectory> directory;
  if (!options.output.empty()) {
    Result<ReportDirectory> opened = ReportDirectory::Open(options.output);
    if (!opened.has_value()) return ReportError(opened.error(), console);
    directory.emplace(std::move(*opened));
  }
  const Result<StoredReport> report = LoadReport(options.file, console);
  if (!report.has_value()) {
    // What the directory held must not pass for what was asked; but a report that was to be
    // written over itself stays, for its owner to look at.
    if (directory && !MayLieIn(options.file, options.output)) {
      (void)directory->Clear(options.formats);
    }
    return ReportError(report.error(), console);
  }
  if (directory) {
    const Result<> written = directory->Write(report->data, options.formats);
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  PrintReport(report->data, options.all, console);
  KeepIfPrinted(directory, console);
  return kExitOk;
}

int RunCompare(const CompareOptions& options, Console& console) {
  const Result<StoredReport> before = LoadReport(options.before, console);
  if (!before.has_value()) return ReportError(before.error(), console);
  const Result<StoredReport> after = LoadReport(options.after, console);
  if (!after.has_value()) return ReportError(after.error(), console);
  const ReportComparison comparison = CompareReports(before->data, after->data);
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
