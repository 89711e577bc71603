#include "kcc/report/html.h"

#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"
#include "kcc/report/content_policy.h"
#include "kcc/report/next_steps.h"
#include "kcc/report/page_assets.h"
#include "kcc/report/report_json.h"
#include "kcc/report/report_markdown.h"
#include "kcc/report/shown.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

// What "Copy as Markdown" gives: the findings, and as much of the folded tables as fits a comment
// that people still read.
constexpr size_t kCopiedBytesMax = 12'000;

// JSON inside a <script>: no "<" can end the element or open a comment, and none is needed, for
// "<" occurs in JSON only inside strings.
std::string ScriptSafe(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Cell(std::string_view text) { return "<td>" + MarkupEscaped(text) + "</td>"; }

std::string StaticClauseRow(const ClauseVerdict& clause) {
  Judgement one;
  one.clauses = {clause};
  const VerdictTotals totals = CountPairs(one);
  std::string pairs;
  for (const Verdict verdict :
       {Verdict::kViolated, Verdict::kError, Verdict::kInconclusive, Verdict::kSatisfied}) {
    if (totals.of(verdict) == 0) continue;
    pairs += (pairs.empty() ? "" : ", ") + Grouped(totals.of(verdict)) + " " +
             std::string(Name(verdict));
  }
  return "<tr>" + Cell(clause.id) + Cell(clause.metric) + Cell(Name(clause.level)) +
         Cell(Name(clause.verdict)) + Cell(pairs) + "</tr>\n";
}

std::string StaticFindings(const Judgement& judgement) {
  std::string rows;
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      if (slice.verdict() == Verdict::kSatisfied) continue;
      rows += "<tr>" + Cell(clause.id) + Cell(slice.slice) + Cell(Name(slice.verdict())) +
              Cell(IntervalText(slice.value)) + Cell(BoundText(clause.bound, slice.threshold)) +
              Cell(slice.about.reason) + "</tr>\n";
    }
  }
  if (rows.empty()) return "";
  return "<h2>What is not satisfied</h2>\n<table><thead><tr><th>clause</th><th>slice</th>"
         "<th>verdict</th><th>value</th><th>bound</th><th>why</th></tr></thead>\n<tbody>" +
         rows + "</tbody></table>\n";
}

// What ShownOnPage says of what it leaves out; a judge's own warnings are the script's to show.
std::string StaticNotes(const Judgement& all, const Judgement& shown) {
  std::string notes;
  for (size_t i = all.warnings.size(); i < shown.warnings.size(); ++i) {
    notes += "<p>Warning: " + MarkupEscaped(shown.warnings[i]) + "</p>\n";
  }
  return notes;
}

std::string StaticSteps(const ReportData& report) {
  std::string list;
  for (const NextStep& step : NextSteps(report)) {
    list += "<li>" + MarkupEscaped(step.question) + "<br><code>" + MarkupEscaped(step.command) +
            "</code></li>\n";
  }
  return list.empty() ? list : "<h2>What to do next</h2>\n<ul>" + list + "</ul>\n";
}

// What a reader without scripts sees; the page's script takes it away once it has drawn.
std::string StaticSummary(const ReportData& report, const Judgement& shown) {
  const Judgement& judgement = report.judgement;
  std::string rows;
  for (const ClauseVerdict& clause : judgement.clauses) rows += StaticClauseRow(clause);
  return "<h1>" + MarkupEscaped(report.contract.name + " " + report.contract.version) + ": " +
         std::string(Name(judgement.verdict)) + "</h1>\n<p>" + MarkupEscaped(Headline(judgement)) +
         " " + MarkupEscaped(WorstText(judgement)) +
         " Action: " + std::string(ActionText(judgement)) + " (" +
         std::string(ActionMeaning(judgement)) + "). " + RiskText(judgement) + ".</p>\n" +
         StaticNotes(judgement, shown) + StaticFindings(shown) + StaticSteps(report) +
         "<h2>Clauses</h2>\n<table><thead><tr><th>clause</th><th>metric</th><th>level</th>"
         "<th>verdict</th><th>slices</th></tr></thead>\n<tbody>" +
         rows + "</tbody></table>\n<p>Contract " + MarkupEscaped(report.contract.digest) +
         ", kcc " + MarkupEscaped(report.provenance.kcc) + "</p>\n";
}

// One pass over the template, so that a "{{name}}" inside a value stays what it is.
std::string Filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string_view>>& values) {
  std::string out;
  for (;;) {
    const size_t open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) return out;
    const size_t close = page.find("}}", open);
    KCC_CHECK(close != std::string_view::npos);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    bool found = false;
    for (const auto& [key, value] : values) {
      if (key != name) continue;
      out += value;
      found = true;
    }
    KCC_CHECK(found);
    page.remove_prefix(close + 2);
  }
}

}  // namespace

std::string ReportHtml(const ReportData& report) {
  std::string script = "\n";
  for (const std::string_view part :
       {kPage_theme_js, kPage_elements_js, kPage_glyphs_js, kPage_copy_js, kPage_data_js,
        kPage_share_js, kPage_charts_js, kPage_findings_js, kPage_page_js}) {
    script += part;
  }
  const std::string policy = "default-src 'none'; style-src 'unsafe-inline'; script-src " +
                             SourceHash(script) +
                             "; img-src data:; base-uri 'none'; form-action 'none'";
  const std::string title =
      MarkupEscaped(std::string(Name(report.judgement.verdict)) + " · " +
                    OneLine(report.contract.name) + " " + OneLine(report.contract.version));
  const ReportData shown = ShownOnPage(report);
  const std::string data =
      ScriptSafe(PageJson(shown, report.judgement, ReportMarkdown(report, kCopiedBytesMax)));
  const std::string summary = StaticSummary(report, shown.judgement);
  return Filled(kPage_page_html, {{"policy", policy},
                                  {"title", title},
                                  {"style", kPage_style_css},
                                  {"summary", summary},
                                  {"data", data},
                                  {"script", script}});
}

bool IsReportHtml(std::string_view bytes) {
  return bytes.find(" id=\"report\">{\"kccReport\":") != std::string_view::npos;
}

}  // namespace kcc
