#include "kcc/experiment/experiment_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kcc/experiment/experiment_text.h"
#include "kcc/experiment/lab_page_assets.h"
#include "kcc/report/text.h"

namespace kcc {

std::string ExperimentPage(const ExperimentParts& parts, std::span<const Finding> findings,
                           bool preview) {
  std::vector<PageSection> sections = parts.figures;
  if (!preview) {
    sections.push_back(parts.seen);
    sections.back().body = FindingsHtml(findings);
  }
  sections.push_back(parts.report);
  const std::string title = (preview ? "Preview of " : "") + parts.title;
  StaticPage page;
  page.kind = "lab";
  page.title = title;
  page.lead = parts.lead;
  if (preview) page.note = "<p class=\"warning\">" + MarkupEscaped(kPreviewText) + "</p>";
  page.sections = sections;
  page.foot = parts.foot;
  page.style = kPage_experiment_css;
  return StaticPageHtml(page);
}

std::string FindingsHtml(std::span<const Finding> findings) {
  std::string list = "<ul class=\"say card\">\n";
  for (const Finding& finding : findings) {
    list += std::string("<li><span class=\"") +
            (finding.open    ? "open\">– not run"
             : finding.holds ? "yes\">✓ seen"
                             : "no\">✕ not seen") +
            "</span><b>" + MarkupEscaped(finding.predicted) + "</b><span>" +
            MarkupEscaped(finding.seen) + "</span></li>\n";
  }
  return list + "</ul>\n";
}

std::string FindingsMarkdown(std::span<const Finding> findings) {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    rows.push_back({finding.predicted, std::string(FindingWord(finding)), finding.seen});
  }
  const std::vector<std::string> head = {"the paper expects", "seen", "figures"};
  return MarkdownTable(head, rows);
}

std::string FixedNumber(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string BriefNumber(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double LogScale::place(double value) const {
  if (!(value > 0)) return 0;
  return std::clamp(100 * (std::log10(value) - low) / (high - low), 0.0, 100.0);
}

std::string LogScale::labels() const {
  std::string made = "<div class=\"scale\">";
  const int every = std::max(1, static_cast<int>(std::ceil((high - low) / 5)));
  for (int at = static_cast<int>(std::ceil(low)); at <= high; at += every) {
    made += "<span style=\"left:" + FixedNumber(100 * (at - low) / (high - low), 1) + "%\">1e" +
            std::to_string(at) + "</span>";
  }
  return made + "</div>";
}

std::string MarkdownRow(std::span<const std::string> cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row + "\n";
}

std::string MarkdownTable(std::span<const std::string> head,
                          std::span<const std::vector<std::string>> rows) {
  std::string table = MarkdownRow(head) + "|";
  for (size_t i = 0; i < head.size(); ++i) table += "---|";
  table += "\n";
  for (const std::vector<std::string>& row : rows) table += MarkdownRow(row);
  return table;
}

}  // namespace kcc
