// Any bytes: reading them as a report ends. What was read renders in every format, and its JSON
// reads back to the same bytes.
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/report/compare.h"
#include "kcc/report/report_formats.h"
#include "kcc/report/report_json.h"
#include "kcc/report/terminal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto files = kcc::ReadReportFiles(text);
  const auto report = kcc::ReadReport(text);
  if (!report) {
    KCC_CHECK(!report.error().message().empty());
    return 0;
  }
  const std::string json = kcc::ReportJson(*report);
  const auto again = kcc::ReadReport(json);
  KCC_CHECK(again.has_value());
  KCC_CHECK(kcc::ReportJson(*again) == json);
  if (files) {
    const auto named = kcc::ReadReportFiles(kcc::ReportJson(*report, *files));
    KCC_CHECK(named.has_value() && *named == *files);
  }
  for (const kcc::ReportFormat& format : kcc::ReportFormats()) {
    KCC_CHECK(!format.write(*report, {}).empty());
  }
  KCC_CHECK(!kcc::ReportTerminal(*report, {.width = 60, .color = true, .all = true}).empty());
  KCC_CHECK(kcc::CompareReports(*report, *again).pairs.empty());
  return 0;
}
