// The formats of a report: one row each, which the report directory, the program, the C interface
// and the docs read. A new format is its writer and one row.
//
// A format with a file also knows its own bytes: every one carries a mark that no version has been
// without, which tells a file that kcc wrote from somebody else's of the same name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/report/report.h"
#include "kcc/report/report_json.h"

namespace kcc {

struct ReportFormat {
  std::string_view name;        // as kcc_judge and Report.render take it
  std::string_view file;        // in a report directory, from a literal; empty: has none
  std::string_view media_type;  // with its charset where it is text
  bool on_request = false;      // its file is written with the flag --NAME alone
  // `beside` are the other files of the directory, which report.json names; else empty.
  std::string (*write)(const ReportData& report, const ReportFiles& beside) = nullptr;
  // Whether kcc, of this version or an earlier one, wrote these bytes. An edited file that kept its
  // mark counts: it may still say what the run said. Null where there is no file.
  bool (*has_mark)(std::string_view bytes) = nullptr;
  std::string_view reader;  // who reads it, and more about it: docs/report.md
  std::string_view notes;
};

// The first is report.json: without it there is no report, so it is taken away first and written
// last.
std::span<const ReportFormat> ReportFormats();

inline constexpr std::string_view kReportJsonName = "report.json";

const ReportFormat* FindReportFormat(std::string_view name);  // null: there is none
const ReportFormat* FindReportFile(std::string_view file);    // null: no format has this file

// Names of formats with `on_request`, those whose files are to be written.
using AskedFormats = std::vector<std::string_view>;

// Whether the format has a file in a report directory for which `asked` was asked.
bool IsWritten(const ReportFormat& format, const AskedFormats& asked);

// ReportFormat::has_mark of the format with this file; false where none has it.
bool HasReportMark(std::string_view file, std::string_view bytes);

}  // namespace kcc
