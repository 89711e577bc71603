// The files of a report directory, and how to tell one that kcc wrote from somebody else's of the
// same name. Every format carries a mark that no version has been without; a test renders every
// format and looks for it.
#pragma once

#include <array>
#include <string_view>

namespace kcc {

inline constexpr std::string_view kReportJsonName = "report.json";
inline constexpr std::string_view kReportSarifName = "report.sarif";

// In the order in which an old report is taken away: report.json first, since what it does not
// stand beside is no report.
inline constexpr std::array<std::string_view, 5> kReportFileNames = {
    kReportJsonName, "report.html", "report.md", "junit.xml", kReportSarifName};

// Whether kcc, of this version or an earlier one, wrote these bytes under this name. An edited file
// that kept its mark counts: it may still say what the run said.
bool HasReportMark(std::string_view name, std::string_view bytes);

}  // namespace kcc
