#include "kcc/experiment/experiment_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kcc/experiment/lab_page_assets.h"
#include "kcc/report/page_assets.h"
#include "kcc/report/text.h"

namespace kcc {

std::string ExperimentPage(std::string_view title, std::string_view lead,
                           std::span<const PageSection> sections, std::string_view foot) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"robots\" "
      "content=\"noindex\">\n<title>" +
      MarkupEscaped(title) + "</title>\n<style>\n" + std::string(kPage_style_css) +
      std::string(kPage_experiment_css) +
      "</style>\n</head>\n<body>\n<div class=\"bar\"><div class=\"wrap\"><div "
      "class=\"brand\">kcc <span>lab</span></div><nav aria-label=\"Sections\">";
  for (const PageSection& section : sections) {
    page += "<a href=\"#" + std::string(section.id) + "\">" + MarkupEscaped(section.title) + "</a>";
  }
  page += "</nav><button class=\"tool\" id=\"theme\" hidden>Dark</button></div></div>\n";
  page += "<main class=\"wrap\">\n<div class=\"hero lead\"><h1>" + MarkupEscaped(title) +
          "</h1><p class=\"headline\">" + MarkupEscaped(lead) + "</p></div>\n";
  for (const PageSection& section : sections) {
    page += "<section id=\"" + std::string(section.id) + "\"><header><div><h2>" +
            MarkupEscaped(section.title) + "</h2><p>" + MarkupEscaped(section.explained) +
            "</p></div></header>\n" + section.body + "</section>\n";
  }
  return page + "<footer>" + MarkupEscaped(foot) + "</footer>\n</main>\n<script>" +
         std::string(kPage_theme_js) + std::string(kPage_experiment_js) +
         "</script>\n</body>\n</html>\n";
}

std::string FindingsHtml(std::span<const Finding> findings) {
  std::string list = "<ul class=\"say card\">\n";
  for (const Finding& finding : findings) {
    list += std::string("<li><span class=\"") +
            (finding.holds ? "yes\">✓ seen" : "no\">✕ not seen") + "</span><b>" +
            MarkupEscaped(finding.predicted) + "</b><span>" + MarkupEscaped(finding.seen) +
            "</span></li>\n";
  }
  return list + "</ul>\n";
}

std::string FindingsMarkdown(std::span<const Finding> findings) {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    rows.push_back({finding.predicted, finding.holds ? "yes" : "no", finding.seen});
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

std::string TableHtml(std::span<const std::string> head,
                      std::span<const std::vector<std::string>> rows) {
  std::string table = "<div class=\"table-scroll\"><table class=\"grid\"><thead><tr>";
  for (const std::string& cell : head) table += "<th>" + MarkupEscaped(cell) + "</th>";
  table += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    table += "<tr>";
    for (const std::string& cell : row) table += "<td>" + MarkupEscaped(cell) + "</td>";
    table += "</tr>\n";
  }
  return table + "</tbody></table></div>";
}

}  // namespace kcc
