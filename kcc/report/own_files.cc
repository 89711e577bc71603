#include "kcc/report/own_files.h"

#include <algorithm>
#include <string>

#include "kcc/report/choices.h"
#include "kcc/report/report_markdown.h"

namespace kcc {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// JSON that a formatter has been over still begins and nests the same way.
std::string WithoutBlanks(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char c) { return c != ' ' && c != '\n' && c != '\r' && c != '\t'; });
  return out;
}

// "## ✅ satisfied: name version", and the lines that follow every such heading.
bool IsMarkdown(std::string_view text) {
  const bool titled = std::any_of(kVerdicts.begin(), kVerdicts.end(), [text](Verdict verdict) {
    return text.starts_with("## " + MarkdownVerdict(verdict) + ": ");
  });
  return titled && Contains(text, "\n**Action:** ") &&
         Contains(text, "<details><summary>Provenance</summary>");
}

// Suites are named after the families of clauses, which no test runner does.
bool IsJunit(std::string_view text) {
  constexpr std::string_view kHead =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"";
  if (!text.starts_with(kHead)) return false;
  const size_t line_end = text.find('\n', kHead.size());
  if (line_end == std::string_view::npos) return false;
  const std::string_view body = text.substr(line_end + 1);
  if (body == "</testsuites>\n") return true;
  return std::any_of(kFamilies.begin(), kFamilies.end(), [body](Family family) {
    return body.starts_with("  <testsuite name=\"" + std::string(Name(family)) + "\" tests=\"");
  });
}

}  // namespace

bool HasReportMark(std::string_view name, std::string_view bytes) {
  if (name == kReportJsonName) {
    return WithoutBlanks(bytes.substr(0, 256)).starts_with("{\"kccReport\":");
  }
  if (name == "report.html") return Contains(bytes, " id=\"report\">{\"kccReport\":");
  if (name == "report.md") return IsMarkdown(bytes);
  if (name == "junit.xml") return IsJunit(bytes);
  if (name == kReportSarifName) {
    return Contains(WithoutBlanks(bytes), "\"driver\":{\"name\":\"kcc\"");
  }
  return false;
}

}  // namespace kcc
