// The page: a small chart for each curve, a line for each run, and what the contract said.
#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/report/static_page.h"
#include "kcc/report/text.h"
#include "kcc/rltrain/curves.h"
#include "kcc/rltrain/curves_assets.h"

namespace kcc {
namespace {

constexpr size_t kLineStyles = 5;
constexpr size_t kSmoothed = 10;

struct ChartInfo {
  std::string_view part;  // id of the section
  std::string_view key, title, explained;
  bool smooth = false;  // a mean of the last ten steps
};
constexpr ChartInfo kCharts[] = {
    {"reward", "reward", "Reward of the rollouts",
     "Mean over all answers of a step, by the answering kernel; mean of ten steps.", true},
    {"reward", "held out rewardTrain", "Held out: trained kernel",
     "Reward on problems that are not trained on, answered by the kernel that is trained."},
    {"reward", "held out rewardInfer", "Held out: answering kernel",
     "The same problems, answered by the kernel that makes the rollouts."},
    {"gap", "metrics token.mean_abs_log_ratio", "mean |log ratio|",
     "Of the trained kernel's log-prob and the rollout's, a token."},
    {"gap", "metrics token.mean_k1", "k1", "Estimates KL(rollout, trained); can be negative."},
    {"gap", "metrics token.mean_k3", "k3", "Estimates the same; never negative."},
    {"gap", "metrics token.ess", "Effective sample size", "Of the token ratios, as a share."},
    {"gap", "metrics skew.positive", "Skew where the advantage is positive",
     "Mean of -(w - 1) A: what the gap adds to the gradient, and k1 and k3 cannot see."},
    {"gap", "metrics skew.negative", "Skew where it is negative", "The same, of the other sign."},
    {"loss", "correction keptShare", "Kept tokens", "The share that rejection and veto leave."},
    {"loss", "correction ess", "Effective sample size of the weights",
     "After truncation, masks and rejection."},
    {"loss", "clip high", "Clipped above", "Share of tokens with A > 0 beyond the clip range."},
    {"loss", "clip low", "Clipped below", "Share of tokens with A < 0 below the clip range."},
    {"loss", "gradientLength", "Length of the gradient", "Before it was limited."},
    {"loss", "klToReference", "KL to the first weights", "k3 a token, of the trained kernel."},
};

std::string Fixed(double value) {
  // Hundredths, which is finer than a pixel.
  const auto hundredths = static_cast<long>(std::lround(value * 100));
  const long rest = std::labs(hundredths % 100);
  return std::string(hundredths < 0 ? "-" : "") + std::to_string(std::labs(hundredths / 100)) +
         (rest < 10 ? ".0" : ".") + std::to_string(rest);
}

Curve Smoothed(const Curve& curve) {
  Curve made;
  for (size_t i = 0; i < curve.size(); ++i) {
    const size_t from = i + 1 > kSmoothed ? i + 1 - kSmoothed : 0;
    double sum = 0;
    for (size_t k = from; k <= i; ++k) sum += curve[k].value;
    made.push_back({curve[i].step, sum / static_cast<double>(i + 1 - from)});
  }
  return made;
}

struct Axes {
  double last_step = 1, low = 0, high = 0;

  double x(double step) const { return 100 * step / last_step; }
  double y(double value) const { return high > low ? 98 - 96 * (value - low) / (high - low) : 98; }
};

std::string LineStyle(size_t run) { return "l" + std::to_string(run % kLineStyles); }

std::string LineSvg(const Curve& curve, const Axes& axes, size_t run) {
  std::string points;
  for (const CurvePoint& point : curve) {
    if (std::isfinite(point.value))
      points += Fixed(axes.x(point.step)) + "," + Fixed(axes.y(point.value)) + " ";
  }
  if (curve.size() == 1) {
    const std::string x = Fixed(axes.x(curve[0].step));
    const std::string y = Fixed(axes.y(curve[0].value));
    return "<line class=\"dot " + LineStyle(run) + "\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" +
           y + "\" y2=\"" + y + "\"/>";
  }
  return "<polyline class=\"line " + LineStyle(run) + "\" points=\"" + points + "\"/>";
}

// Empty where no run has the curve.
std::string Chart(std::span<const RunCurves> runs, const ChartInfo& info) {
  std::vector<std::pair<size_t, Curve>> lines;
  Axes axes;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto found = runs[r].curves.find(info.key);
    if (found == runs[r].curves.end() || found->second.empty()) continue;
    lines.emplace_back(r, info.smooth ? Smoothed(found->second) : found->second);
    axes.last_step = std::max(axes.last_step, runs[r].last_step);
    for (const CurvePoint& point : lines.back().second) {
      if (!std::isfinite(point.value)) continue;
      axes.low = std::min(axes.low, point.value);
      axes.high = std::max(axes.high, point.value);
    }
  }
  if (lines.empty()) return "";
  std::string svg;
  std::string last;
  std::string said;
  for (const auto& [run, curve] : lines) {
    svg += LineSvg(curve, axes, run);
    const std::string value = ShortNumber(curve.back().value);
    if (lines.size() == 1) last = "<b>" + value + "</b>";
    said += (said.empty() ? "" : "; ") + runs[run].name + " " + value;
  }
  if (axes.low < 0) {
    const std::string zero = Fixed(axes.y(0));
    svg =
        "<line class=\"zero\" x1=\"0\" x2=\"100\" y1=\"" + zero + "\" y2=\"" + zero + "\"/>" + svg;
  }
  const std::string top = ShortNumber(axes.high);
  const std::string bottom = axes.low < 0 ? ShortNumber(axes.low) : "0";
  const std::string range = axes.high > axes.low ? bottom + " to " + top : "0";
  return "<div class=\"card panel chart\" title=\"" + MarkupEscaped("last: " + said) + "\"><h3>" +
         MarkupEscaped(info.title) + last + "</h3><p>" + MarkupEscaped(info.explained) +
         "</p><svg class=\"plot\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" "
         "role=\"img\" "
         "aria-label=\"" +
         MarkupEscaped(std::string(info.title) + ", last: " + said) + "\">" + svg +
         "</svg><div class=\"axis\"><span>" + range + "</span><span>step " +
         Grouped(static_cast<int64_t>(axes.last_step)) + "</span></div></div>\n";
}

std::string Charts(std::span<const RunCurves> runs, std::string_view part) {
  std::string body = "<div class=\"charts\">\n";
  for (const ChartInfo& info : kCharts) {
    if (info.part == part) body += Chart(runs, info);
  }
  return body + "</div>\n";
}

std::string RunKey(std::span<const RunCurves> runs) {
  if (runs.size() < 2) return "";
  std::string key = "<div class=\"runs\">";
  for (size_t r = 0; r < runs.size(); ++r) {
    key += "<span><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line class=\"line " +
           LineStyle(r) + "\" x1=\"0\" x2=\"26\" y1=\"5\" y2=\"5\"/></svg>" +
           MarkupEscaped(runs[r].name) + "</span>";
  }
  return key + "</div>\n";
}

std::string StripRow(const RunCurves& run, const ClauseStrip& strip) {
  std::string svg;
  size_t violated = 0;
  const double width = 100 / std::max(1.0, run.last_step);
  for (const auto& [step, verdict] : strip.verdicts) {
    violated += verdict == "violated";
    svg += "<rect class=\"v-" + MarkupEscaped(verdict) + "\" x=\"" + Fixed((step - 1) * width) +
           "\" y=\"0\" width=\"" + Fixed(width) + "\" height=\"16\"/>";
  }
  const std::string counted =
      std::to_string(violated) + " of " + std::to_string(strip.verdicts.size()) + " steps violated";
  return "<div class=\"strip\"><span class=\"mono\">" + MarkupEscaped(strip.name) +
         "</span><svg viewBox=\"0 0 100 16\" preserveAspectRatio=\"none\" role=\"img\" "
         "aria-label=\"" +
         counted + "\">" + svg + "</svg><span class=\"num\">" + counted + "</span></div>\n";
}

std::string Strips(std::span<const RunCurves> runs) {
  std::string body;
  for (const RunCurves& run : runs) {
    if (run.clauses.empty()) continue;
    body += "<div class=\"card panel\"><h3>" + MarkupEscaped(run.name) + "</h3>\n";
    for (const ClauseStrip& strip : run.clauses) body += StripRow(run, strip);
    body += "</div>\n";
  }
  return body;
}

std::string LastValues(std::span<const RunCurves> runs) {
  std::vector<std::string> head = {"run", "steps"};
  for (const ChartInfo& info : kCharts) head.emplace_back(info.title);
  std::vector<std::vector<std::string>> rows;
  for (const RunCurves& run : runs) {
    std::vector<std::string> row = {run.name, Grouped(static_cast<int64_t>(run.last_step))};
    for (const ChartInfo& info : kCharts) {
      const auto found = run.curves.find(info.key);
      const bool has = found != run.curves.end() && !found->second.empty();
      row.push_back(
          has ? ShortNumber((info.smooth ? Smoothed(found->second) : found->second).back().value)
              : "none");
    }
    rows.push_back(std::move(row));
  }
  return "<div class=\"card panel\">" + TableHtml(head, rows) + "</div>\n";
}

}  // namespace

std::string CurvesPage(std::span<const RunCurves> runs, std::string_view title,
                       std::string_view lead) {
  const std::string note = RunKey(runs);
  std::vector<PageSection> sections = {
      {"reward", "Reward", "What the policy earns, while it learns and on problems it never sees.",
       Charts(runs, "reward")},
      {"gap", "Gap",
       "Between the kernel that answers and the one that is trained, on the tokens "
       "of the scored answers.",
       Charts(runs, "gap")},
      {"loss", "Loss", "What corrections and clipping leave, and how far the policy has moved.",
       Charts(runs, "loss")}};
  std::string strips = Strips(runs);
  if (!strips.empty()) {
    sections.push_back({"contract", "Contract",
                        "Each clause on each slice, step by step: green satisfied, red violated, "
                        "amber inconclusive.",
                        std::move(strips)});
  }
  sections.push_back({"last", "Last values", "Of every curve.", LastValues(runs)});
  StaticPage page;
  page.kind = "lab rl";
  page.title = title;
  page.lead = lead;
  page.note = note;
  page.sections = sections;
  page.foot = "Made by kcc lab rl from log.jsonl and held-out.jsonl of the runs.";
  page.style = kPage_curves_css;
  return StaticPageHtml(page);
}

}  // namespace kcc
