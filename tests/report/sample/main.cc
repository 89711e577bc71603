// kcc_report_sample_files DIR: writes every sample in every format into DIR/<sample>/.
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kcc/base/file.h"
#include "kcc/report/compare.h"
#include "kcc/report/report_formats.h"
#include "kcc/report/report_json.h"
#include "kcc/report/terminal.h"
#include "tests/report/sample/sample_report.h"

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

Files FormatsOf(const kcc::ReportData& report) {
  Files files;
  for (const kcc::ReportFormat& format : kcc::ReportFormats()) {
    const std::string_view name = format.file.empty() ? "report.txt" : format.file;
    files.emplace_back(name, format.write(report, {}));
  }
  files.emplace_back("color.txt", kcc::ReportTerminal(report, {100, true, true}));
  return files;
}

bool Write(const std::string& folder, const Files& files) {
  std::error_code failed;  // then writing says why
  std::filesystem::create_directories(folder, failed);
  for (const auto& [name, text] : files) {
    if (const auto written = kcc::WriteFileAtomically(folder + "/" + name, text); !written) {
      std::fprintf(stderr, "%s\n", written.error().Format().c_str());
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: kcc_report_sample_files DIR\n");
    return 2;
  }
  const std::string root = argv[1];
  const std::vector<std::pair<std::string, kcc::ReportData>> samples = {
      {"violated", kcc::SampleReport()},
      {"convergent", kcc::ConvergentSample()},
      {"large", kcc::LargeSample()},
      {"hostile", kcc::HostileSample()},
      {"empty", kcc::EmptySample()}};
  for (const auto& [name, report] : samples) {
    if (!Write(root + "/" + name, FormatsOf(report))) return 4;
  }
  const kcc::ReportComparison comparison =
      kcc::CompareReports(kcc::ConvergentSample(), kcc::SampleReport());
  const Files compared = {{"compare.txt", kcc::ComparisonTerminal(comparison, {})},
                          {"compare.md", kcc::ComparisonMarkdown(comparison)},
                          {"compare.json", kcc::ComparisonJson(comparison)}};
  return Write(root + "/compare", compared) &&
                 Write(root, {{"schema.json", kcc::ReportJsonSchema()}})
             ? 0
             : 4;
}
