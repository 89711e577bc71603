// The pages of E1 and E2: tables and inline SVG, no script, and the same figures as Markdown.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kcc/base/strings.h"
#include "kcc/lab/experiment.h"

namespace kcc {
namespace {

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string Head(std::string_view title, std::string_view style) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" +
         std::string(title) + "</title><style>" + std::string(style) +
         "\nmain{max-width:1100px;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse}"
         "td,th{padding:.25rem .6rem;text-align:right}td:first-child,th:first-child{text-align:"
         "left}svg{display:block}.pass{background:#2a7d4f;color:#fff}.narrow{background:#b58b1b;"
         "color:#fff}.fail{background:#a33a3a;color:#fff}</style></head><body><main><h1>" +
         std::string(title) + "</h1>\n";
}

// Bars over powers of ten, with a mark under every fifth.
std::string HistogramSvg(const Distribution& d) {
  const int64_t most =
      std::max<int64_t>(1, *std::max_element(d.histogram.begin(), d.histogram.end()));
  std::string svg = "<svg width=\"220\" height=\"46\" role=\"img\" aria-label=\"histogram\">";
  for (size_t i = 0; i < d.histogram.size(); ++i) {
    const double height = 34.0 * static_cast<double>(d.histogram[i]) / static_cast<double>(most);
    svg += "<rect x=\"" + std::to_string(2 + 6 * i) + "\" y=\"" + Fixed(34 - height, 1) +
           "\" width=\"5\" height=\"" + Fixed(height, 1) + "\" fill=\"currentColor\"/>";
  }
  for (int exponent = -15; exponent <= 2; exponent += 5) {
    const double x = 2 + 6 * (exponent - kHistogramLow) / kHistogramStep;
    svg += "<text x=\"" + Fixed(x, 0) + "\" y=\"45\" font-size=\"9\" fill=\"currentColor\">1e" +
           std::to_string(exponent) + "</text>";
  }
  return svg + "</svg>";
}

std::string CurveSvg(const E1Row& row) {
  double most = 1e-6;
  for (const MarginPoint& point : row.curve) {
    most = std::max({most, point.top1, point.top5});
  }
  const auto line = [&](bool top5) {
    std::string points;
    for (size_t i = 0; i < row.curve.size(); ++i) {
      const double value = top5 ? row.curve[i].top5 : row.curve[i].top1;
      points += Fixed(4 + 10.0 * static_cast<double>(i), 0) + "," +
                Fixed(40 - 36 * value / most, 1) + " ";
    }
    return "<polyline fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"" +
           std::string(top5 ? " stroke-dasharray=\"3 3\"" : "") + " points=\"" + points + "\"/>";
  };
  return "<svg width=\"220\" height=\"44\" role=\"img\" aria-label=\"disagreement\">" +
         line(false) + line(true) + "</svg>";
}

// The slice on which the 99th percentile of KL is largest.
size_t WorstSlice(const E1Row& row) {
  size_t worst = 0;
  for (size_t s = 1; s < row.by_slice.size(); ++s) {
    if (row.by_slice[s][3].p99 > row.by_slice[worst][3].p99) worst = s;
  }
  return worst;
}

std::string EnvelopeText(const E1Row& row) {
  return ReadableNumber(row.envelope) + (row.vacuous ? " (vacuous)" : "");
}

std::string_view CellClass(const E2Cell& cell) {
  if (cell.requests == 0) return "";
  if (cell.passing < cell.requests) return "fail";
  return cell.narrow > 0 ? "narrow" : "pass";
}

std::string CellText(const E2Cell& cell) {
  if (cell.requests == 0) return "-";
  const double rate =
      100.0 * static_cast<double>(cell.passing) / static_cast<double>(cell.requests);
  std::string text = Fixed(rate, 1) + " %";
  if (cell.narrow > 0) text += " (" + std::to_string(cell.narrow) + " narrow)";
  return text;
}

}  // namespace

std::string E1Page(const E1Result& result, std::string_view style) {
  std::string page = Head("E1: numerical drift, one perturbation at a time", style);
  page +=
      "<p>Each kernel differs from its base in one switch. Histograms are of log10 per token; "
      "curves are the share of all tokens whose top token (solid) or top five (dashed) differ "
      "among those of at most a given margin, 1e-4 to 10.</p>\n";
  for (size_t s = 0; s < result.slices.size(); ++s) {
    page += "<h2>" + result.slices[s] + " (" + std::to_string(result.tokens[s]) +
            " tokens)</h2>\n<table><tr><th>perturbation</th><th>source</th>";
    for (const std::string_view q : kE1Quantities) {
      page += "<th>" + std::string(q) + " p50</th><th>p95</th><th>p99</th>";
    }
    page += "</tr>\n";
    for (const E1Row& row : result.rows) {
      page += "<tr><td>" + row.name + "</td><td>" + std::string(Name(row.source)) + "</td>";
      for (const Distribution& d : row.by_slice[s]) {
        page += "<td>" + ReadableNumber(d.p50) + "</td><td>" + ReadableNumber(d.p95) + "</td><td>" +
                ReadableNumber(d.p99) + "</td>";
      }
      page += "</tr>\n";
    }
    page += "</table>\n";
  }
  page +=
      "<h2>Shapes, on all tokens</h2>\n<table><tr><th>perturbation</th><th>logit_span</th>"
      "<th>kl</th><th>disagreement by margin</th></tr>\n";
  for (const E1Row& row : result.rows) {
    page += "<tr><td>" + row.name + "</td><td>" + HistogramSvg(row.by_slice[0][0]) + "</td><td>" +
            HistogramSvg(row.by_slice[0][3]) + "</td><td>" + CurveSvg(row) + "</td></tr>\n";
  }
  return page + "</table></main></body></html>\n";
}

std::string E1Markdown(const E1Result& result) {
  std::string text =
      "| perturbation | source | base | span p50 | span p99 | KL p50 | KL p99 | worst slice (KL "
      "p99) | top-1 changed | largest L∞ | worst case | tightness | typical | measured / typical "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const E1Row& row : result.rows) {
    const auto& all = row.by_slice[0];
    const size_t worst = WorstSlice(row);
    const std::vector<std::string> cells = {
        "`" + row.name + "`",
        std::string(Name(row.source)),
        row.base,
        ReadableNumber(all[0].p50),
        ReadableNumber(all[0].p99),
        ReadableNumber(all[3].p50),
        ReadableNumber(all[3].p99),
        result.slices[worst] + " (" + ReadableNumber(row.by_slice[worst][3].p99) + ")",
        Fixed(100 * row.curve.back().top1, 2) + " %",
        ReadableNumber(row.linf_max),
        EnvelopeText(row),
        ReadableNumber(row.linf_max / row.envelope),
        ReadableNumber(row.typical),
        ReadableNumber(row.linf_max / row.typical)};
    text += "|";
    for (const std::string& cell : cells) text += " " + cell + " |";
    text += "\n";
  }
  return text;
}

std::string E2Page(const E2Result& result, std::string_view style) {
  std::string page = Head("E2: engines and load, by slice", style);
  page += "<p>Share of requests whose mean KL against lab:train is at most " +
          ReadableNumber(result.threshold) +
          ". Green: all pass; amber: some use more than 80 % of the threshold; red: some fail.</p>"
          "\n<table><tr><th>engine</th><th>concurrency</th>";
  for (const std::string& slice : result.slices) page += "<th>" + slice + "</th>";
  page += "</tr>\n";
  for (const E2Row& row : result.rows) {
    page += "<tr><td>lab:" + row.engine + "</td><td>" + std::to_string(row.concurrency) + "</td>";
    for (const E2Cell& cell : row.by_slice) {
      page += "<td class=\"" + std::string(CellClass(cell)) + "\">" + CellText(cell) + "</td>";
    }
    page += "</tr>\n";
  }
  return page + "</table></main></body></html>\n";
}

std::string E2Markdown(const E2Result& result) {
  std::string text = "| engine | concurrency |";
  std::string rule = "\n|---|---|";
  for (const std::string& slice : result.slices) {
    text += " " + slice + " |";
    rule += "---|";
  }
  text += rule + "\n";
  for (const E2Row& row : result.rows) {
    text += "| `lab:" + row.engine + "` | " + std::to_string(row.concurrency) + " |";
    for (const E2Cell& cell : row.by_slice) text += " " + CellText(cell) + " |";
    text += "\n";
  }
  return text;
}

}  // namespace kcc
