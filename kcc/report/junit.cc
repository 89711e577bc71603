#include "kcc/report/junit.h"

#include <algorithm>

#include "kcc/report/choices.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

std::string Attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + MarkupEscaped(OneLine(value)) + "\"";
}

std::string Totals(const VerdictTotals& totals) {
  return Attribute("tests", std::to_string(totals.all())) +
         Attribute("failures", std::to_string(totals.of(Verdict::kViolated))) +
         Attribute("errors", std::to_string(totals.of(Verdict::kError))) +
         Attribute("skipped", std::to_string(totals.of(Verdict::kInconclusive)));
}

// What a CI shows below the message.
std::string Body(const ClauseVerdict& clause, const SliceVerdict& slice) {
  std::string text = slice.about.reason + "\n";
  text += "value: " + IntervalText(slice.value) + "\n";
  text += "bound: " + BoundText(clause.bound, slice.threshold) + "\n";
  if (slice.exceedance) text += "exceedance: " + ExceedanceText(*slice.exceedance) + "\n";
  text += "evidence: " + CountText(slice.count) + "\n";
  if (slice.smallest_passing) {
    text += "smallest passing threshold: " + PassingNumber(clause.bound, *slice.smallest_passing) +
            "\n";
  }
  if (slice.smallest_budget) {
    text += "smallest passing budget: " + Percent(*slice.smallest_budget) + "\n";
  }
  text += "level: " + std::string(Name(clause.level)) +
          ", action: " + std::string(Name(clause.action)) + "\n";
  return MarkupEscaped(text);
}

std::string Case(const ReportData& report, const ClauseVerdict& clause, const SliceVerdict& slice) {
  std::string text = "    <testcase";
  text += Attribute("classname", report.contract.name + "." + std::string(Name(clause.family)));
  text += Attribute("name", clause.id + " " + clause.metric + " [" + slice.slice + "]");
  if (!report.contract.file.empty()) text += Attribute("file", report.contract.file);
  if (clause.mark.line > 0) text += Attribute("line", std::to_string(clause.mark.line));
  const std::string message = Attribute("message", slice.about.reason);
  const std::string type = Attribute("type", Name(slice.verdict()));
  switch (slice.verdict()) {
    case Verdict::kSatisfied:
      return text + "/>\n";
    case Verdict::kViolated:
      return text + ">\n      <failure" + message + type + ">" + Body(clause, slice) +
             "</failure>\n    </testcase>\n";
    case Verdict::kError:
      return text + ">\n      <error" + message + type + ">" + Body(clause, slice) +
             "</error>\n    </testcase>\n";
    case Verdict::kInconclusive:
      break;
  }
  return text + ">\n      <skipped" + message + "/>\n    </testcase>\n";
}

}  // namespace

std::string ReportJunit(const ReportData& report) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites";
  text += Attribute("name", report.contract.name + " " + report.contract.version);
  text += Totals(CountPairs(report.judgement)) + ">\n";
  for (const Family family : kFamilies) {
    Judgement of_family;
    for (const ClauseVerdict& clause : report.judgement.clauses) {
      if (clause.family == family) of_family.clauses.push_back(clause);
    }
    if (of_family.clauses.empty()) continue;
    text +=
        "  <testsuite" + Attribute("name", Name(family)) + Totals(CountPairs(of_family)) + ">\n";
    for (const ClauseVerdict& clause : of_family.clauses) {
      for (const SliceVerdict& slice : clause.slices) text += Case(report, clause, slice);
    }
    text += "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

// Suites are named after the families of clauses, which no test runner does.
bool IsReportJunit(std::string_view bytes) {
  constexpr std::string_view kHead =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"";
  if (!bytes.starts_with(kHead)) return false;
  const size_t line_end = bytes.find('\n', kHead.size());
  if (line_end == std::string_view::npos) return false;
  const std::string_view body = bytes.substr(line_end + 1);
  if (body == "</testsuites>\n") return true;
  return std::any_of(kFamilies.begin(), kFamilies.end(), [body](Family family) {
    return body.starts_with("  <testsuite name=\"" + std::string(Name(family)) + "\" tests=\"");
  });
}

}  // namespace kcc
