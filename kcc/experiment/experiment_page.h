// The parts that the pages of experiments share: head and foot under the report's style, the list
// of predictions, scales and marks. Pictures are inline SVG without text in them, so that they
// stretch with the page; words and numbers around them are HTML. No script but the choice of theme.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/experiment/experiment.h"

namespace kcc {

struct PageSection {
  std::string_view id;
  std::string_view title;
  std::string_view explained;  // one paragraph
  std::string body;
};

// One self-contained page.
std::string ExperimentPage(std::string_view title, std::string_view lead,
                           std::span<const PageSection> sections, std::string_view foot);

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

// Texts are escaped here.
std::string TableHtml(std::span<const std::string> head,
                      std::span<const std::vector<std::string>> rows);
std::string MarkdownRow(std::span<const std::string> cells);
std::string MarkdownTable(std::span<const std::string> head,
                          std::span<const std::vector<std::string>> rows);

}  // namespace kcc
