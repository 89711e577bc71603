// The parts that the pages of experiments share, within the frame of report/static_page.h: the list
// of predictions, scales and marks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/experiment/experiment.h"
#include "kcc/report/static_page.h"

namespace kcc {

// One self-contained page: the figures, then what was seen in them (`findings`, none of a preview),
// then the template's parts.
struct ExperimentParts {
  std::string title;
  std::string lead;
  std::string foot;
  std::vector<PageSection> figures;
  PageSection seen;    // its body is made from the findings
  PageSection report;  // experiment_report.h
};
std::string ExperimentPage(const ExperimentParts& parts, std::span<const Finding> findings,
                           bool preview);

std::string FindingsHtml(std::span<const Finding> findings);
std::string FindingsMarkdown(std::span<const Finding> findings);

// A number with so many digits after the point.
std::string FixedNumber(double value, int digits);
// Three significant digits, where there is room for no more: "0.000761", "1.62e-05".
std::string BriefNumber(double value);

// A logarithmic axis from 10^low to 10^high.
struct LogScale {
  double low = 0, high = 1;          // exponents
  double place(double value) const;  // percent of the width, cut off at both ends
  std::string labels() const;        // HTML: a decade every few
};

std::string MarkdownRow(std::span<const std::string> cells);
std::string MarkdownTable(std::span<const std::string> head,
                          std::span<const std::vector<std::string>> rows);

}  // namespace kcc
