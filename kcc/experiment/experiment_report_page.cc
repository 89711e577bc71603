// The template as a section of the experiments' pages and of their Markdown: the same tables in
// both, but for the pass rates, which are a heat map on the page.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/experiment/experiment_report.h"
#include "kcc/experiment/experiment_text.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr std::string_view kPassExplained =
    "Verdicts of the judge: satisfied / judged. ?n are inconclusive, !n errors, and · means that "
    "there was nothing to judge.";
constexpr std::string_view kWorkExplained =
    "What the engine counted: the same on every machine. In brackets the difference from the "
    "baseline, where there is one.";

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

std::string NumberText(double value) {
  const bool whole = std::fabs(value) < 1e15 && value == std::floor(value);
  return whole ? Grouped(static_cast<int64_t>(value)) : ShortNumber(value);
}

std::string EstimateText(const std::optional<Estimate>& estimate, std::string_view unit = "") {
  if (!estimate) return "–";
  return ShortNumber(estimate->value) + " [" + ShortNumber(estimate->interval.lo) + ", " +
         ShortNumber(estimate->interval.hi) + "]" + (unit.empty() ? "" : " " + std::string(unit));
}

std::string PassText(const VerdictCounts& counts) {
  if (counts.judged() == 0) return "·";
  std::string text = std::to_string(counts.satisfied) + "/" + std::to_string(counts.judged());
  if (counts.inconclusive > 0) text += " ?" + std::to_string(counts.inconclusive);
  if (counts.error > 0) text += " !" + std::to_string(counts.error);
  return text;
}

// Where the arms are declared; a figure of an arm that is not would be of nobody knows what.
const ReportedArm& ArmOf(const ExperimentReport& report, std::string_view name) {
  const auto found = std::find_if(report.arms.begin(), report.arms.end(),
                                  [&](const ReportedArm& arm) { return arm.name == name; });
  KCC_CHECK(found != report.arms.end());
  return *found;
}

std::string ArmText(const ReportedArm& arm) {
  return arm.name + (arm.role == ArmRole::kBaseline ? " (baseline)" : "");
}

Table RequestsTable(const ExperimentReport& report) {
  Table table{{"requests", "count", "tokens", "digest"}, {}};
  for (const ReportedRequests& set : report.requests) {
    table.rows.push_back({set.name, Grouped(set.requests), Grouped(set.tokens), set.digest});
  }
  return table;
}

Table PassTable(const ExperimentReport& report, const PassRates& rates) {
  KCC_CHECK(!rates.arms.empty());
  Table table{{"arm", "train", "infer", "regimes"}, {}};
  for (const SlicePass& slice : rates.arms.front().slices) table.head.push_back(slice.slice);
  for (const ArmPass& pass : rates.arms) {
    const ReportedArm& arm = ArmOf(report, pass.arm);
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {ArmText(arm), arm.train, arm.infer, std::to_string(pass.regimes)};
    for (const SlicePass& slice : pass.slices) row.push_back(PassText(slice.total()));
  }
  return table;
}

Table QualityTable(const ExperimentReport& report, const std::vector<QualityFigure>& figures) {
  Table table{{"quantity", "arm", "slice", "value", "against the baseline", "interval", "samples"},
              {}};
  for (const QualityFigure& figure : figures) {
    table.rows.push_back({figure.quantity + (figure.unit.empty() ? "" : ", " + figure.unit),
                          ArmText(ArmOf(report, figure.arm)), figure.slice,
                          EstimateText(figure.value), EstimateText(figure.delta),
                          Percent(figure.value.confidence) + ", " + figure.value.method,
                          Grouped(figure.value.samples)});
  }
  return table;
}

std::string CostText(const CostFigure& figure) {
  std::string text = NumberText(figure.value);
  const double delta = figure.baseline ? figure.value - *figure.baseline : 0;
  if (delta != 0) text += " (" + std::string(delta > 0 ? "+" : "") + NumberText(delta) + ")";
  return text;
}

Table CostTable(const ExperimentReport& report, const std::vector<ArmCost>& rows) {
  KCC_CHECK(!rows.empty());
  Table table{{"arm", "regime"}, {}};
  for (const CostFigure& figure : rows.front().figures) {
    table.head.push_back(figure.quantity + (figure.unit.empty() ? "" : ", " + figure.unit));
  }
  for (const ArmCost& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells = {ArmText(ArmOf(report, row.arm)), row.regime.empty() ? "–" : row.regime};
    for (const CostFigure& figure : row.figures) cells.push_back(CostText(figure));
  }
  return table;
}

Table IncidentTable(const ExperimentReport& report, const std::vector<IncidentFigures>& rows) {
  Table table{
      {"arm", "faults", "detected", "false alarms", "rollbacks", "detection lag", "time to repair"},
      {}};
  for (const IncidentFigures& row : rows) {
    table.rows.push_back({ArmText(ArmOf(report, row.arm)), Grouped(row.faults),
                          Grouped(row.detected), Grouped(row.false_alarms),
                          Grouped(row.rollbacks_succeeded) + "/" + Grouped(row.rollbacks),
                          EstimateText(row.detection_lag, row.delay_unit),
                          EstimateText(row.repair_time, row.delay_unit)});
  }
  return table;
}

std::string HeatClass(const VerdictCounts& counts) {
  const std::optional<double> share = counts.share();
  if (!share) return "none";
  if (counts.satisfied == counts.judged()) return "h4";
  return *share >= 0.9 ? "h3" : *share >= 0.5 ? "h2" : *share > 0 ? "h1" : "h0";
}

std::string PassMap(const ExperimentReport& report, const PassRates& rates) {
  KCC_CHECK(!rates.arms.empty());
  std::string map =
      "<div class=\"heat-scroll\"><table class=\"map\"><thead><tr><th class=\"first\"></th>";
  for (const SlicePass& slice : rates.arms.front().slices) {
    map += "<th>" + MarkupEscaped(slice.slice) + "</th>";
  }
  map += "</tr></thead><tbody>\n";
  for (const ArmPass& pass : rates.arms) {
    map += "<tr><th scope=\"row\" class=\"mono\">" +
           MarkupEscaped(ArmText(ArmOf(report, pass.arm))) + "</th>";
    for (const SlicePass& slice : pass.slices) {
      const VerdictCounts counts = slice.total();
      map += "<td class=\"" + HeatClass(counts) + "\">" + PassText(counts) + "</td>";
    }
    map += "</tr>\n";
  }
  return map + "</tbody></table></div>\n";
}

std::string NotJudgedText(const PassRates& rates) {
  std::string text;
  for (const ClauseNotJudged& clause : rates.not_judged) {
    text += (text.empty() ? "Not judged: " : "; ") + clause.clause + " (" + clause.why + ")";
  }
  return text.empty() ? text : text + ".";
}

// Both forms of a part: what the template calls it, then the table or the reason that there is
// none.
template <class T, class Show>
std::string PartMarkdown(std::string_view title, const Part<T>& part, const Show& show) {
  const auto* missing = std::get_if<NotMeasured>(&part);
  return "\n### " + std::string(title) + "\n\n" +
         (missing != nullptr ? "Not measured: " + missing->why + ".\n" : show(std::get<T>(part)));
}

template <class T, class Show>
std::string PartHtml(std::string_view title, const Part<T>& part, const Show& show) {
  const auto* missing = std::get_if<NotMeasured>(&part);
  return "<div class=\"card panel part\"><h3>" + std::string(title) + "</h3>\n" +
         (missing != nullptr ? "<p>Not measured: " + MarkupEscaped(missing->why) + ".</p>\n"
                             : show(std::get<T>(part))) +
         "</div>\n";
}

std::string Grid(const Table& table) { return TableHtml(table.head, table.rows) + "\n"; }
std::string Lines(const Table& table) { return MarkdownTable(table.head, table.rows); }

std::string KernelsHtml(const ExperimentReport& report) {
  Table kernels{{"kernel", "fingerprint"}, {}};
  for (const ReportedKernel& kernel : report.kernels) {
    kernels.rows.push_back({kernel.name, kernel.fingerprint});
  }
  return "<details class=\"data\"><summary>" + std::to_string(kernels.rows.size()) +
         " kernels</summary>" + Grid(kernels) + "</details>\n";
}

}  // namespace

std::string ExperimentReportMarkdown(const ExperimentReport& report) {
  std::string text =
      "## Report\n\nThe template of the paper's section 8.6, which every experiment fills; `" +
      report.experiment +
      ".json` holds it as data, with the kernels' fingerprints, and docs/experiment.schema.json "
      "describes it.\n\nContract " +
      report.contract.name + " " + report.contract.version + ", `" + report.contract.digest +
      "`. Model `" + report.model_digest + "`.\n\n" + Lines(RequestsTable(report));
  text += PartMarkdown("Clause pass rates", report.pass_rates, [&](const PassRates& rates) {
    const std::string open = NotJudgedText(rates);
    return std::string(kPassExplained) + (open.empty() ? "" : " " + open) + "\n\n" +
           Lines(PassTable(report, rates));
  });
  text += PartMarkdown("Quality and reward", report.quality,
                       [&](const auto& part) { return Lines(QualityTable(report, part)); });
  text += PartMarkdown("Runtime cost: work", report.work, [&](const auto& part) {
    return std::string(kWorkExplained) + "\n\n" + Lines(CostTable(report, part));
  });
  text += PartMarkdown("Runtime cost: time", report.time,
                       [&](const auto& part) { return Lines(CostTable(report, part)); });
  return text + PartMarkdown("Incidents", report.incidents,
                             [&](const auto& part) { return Lines(IncidentTable(report, part)); });
}

std::string SeenMarkdown(const ExperimentReport& report) {
  if (report.preview) return "";
  return "## What the paper expects, and what was seen\n\n" + FindingsMarkdown(report.findings) +
         "\n";
}

std::string SeenText(const ExperimentReport& report) {
  if (report.preview) return "\n" + TextParagraph(kPreviewText);
  return "\nWhat the paper expects, and what was seen\n" + FindingsText(report.findings);
}

PageSection ReportSection(const ExperimentReport& report) {
  std::string body =
      "<div class=\"card panel part\"><h3>What was judged</h3><dl class=\"pairs\"><dt>contract"
      "</dt><dd>" +
      MarkupEscaped(report.contract.name + " " + report.contract.version) + " <code>" +
      MarkupEscaped(report.contract.digest) + "</code></dd><dt>model</dt><dd><code>" +
      MarkupEscaped(report.model_digest) + "</code></dd></dl>\n" + Grid(RequestsTable(report)) +
      KernelsHtml(report) + "</div>\n";
  body += PartHtml("Clause pass rates", report.pass_rates, [&](const PassRates& rates) {
    return "<p>" + MarkupEscaped(kPassExplained) + " " + MarkupEscaped(NotJudgedText(rates)) +
           "</p>\n" + PassMap(report, rates);
  });
  body += PartHtml("Quality and reward", report.quality,
                   [&](const auto& part) { return Grid(QualityTable(report, part)); });
  body += PartHtml("Runtime cost: work", report.work, [&](const auto& part) {
    return "<p>" + MarkupEscaped(kWorkExplained) + "</p>\n" + Grid(CostTable(report, part));
  });
  body += PartHtml("Runtime cost: time", report.time,
                   [&](const auto& part) { return Grid(CostTable(report, part)); });
  body += PartHtml("Incidents", report.incidents,
                   [&](const auto& part) { return Grid(IncidentTable(report, part)); });
  return {"report", "Report", "The template that every experiment fills (the paper's section 8.6).",
          std::move(body)};
}

}  // namespace kcc
