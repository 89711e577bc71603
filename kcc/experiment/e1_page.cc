// E1 as a page of histograms and curves, as Markdown for docs/results, and as JSON.
#include <algorithm>
#include <cmath>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/experiment/e1.h"
#include "kcc/experiment/experiment_page.h"
#include "kcc/experiment/experiment_text.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 4> kMeaning = {
    "logit_span: largest minus smallest change of a logit",
    "logit_linf: largest change after the best shift", "tv: total variation",
    "kl: from the training distribution"};

// The decades that any slice of any perturbation reaches in a quantity.
LogScale ScaleOf(const E1Result& result, size_t quantity) {
  size_t first = kHistogramBins, last = 0;
  for (const E1Row& row : result.rows) {
    for (const E1Slice& slice : row.by_slice) {
      const std::vector<int64_t>& bins = slice.drift[quantity].histogram;
      for (size_t i = 0; i < bins.size(); ++i) {
        if (bins[i] == 0) continue;
        first = std::min(first, i);
        last = std::max(last, i + 1);
      }
    }
  }
  if (first >= last) return {-1, 0};
  return {std::floor(kHistogramLow + kHistogramStep * static_cast<double>(first)),
          std::ceil(kHistogramLow + kHistogramStep * static_cast<double>(last))};
}

std::string AreaSvg(const Distribution& d, const LogScale& scale) {
  const int64_t most =
      std::max<int64_t>(1, *std::max_element(d.histogram.begin(), d.histogram.end()));
  std::string path;
  const auto x = [&](double bin) {
    const double exponent = kHistogramLow + kHistogramStep * bin;
    return std::clamp(100 * (exponent - scale.low) / (scale.high - scale.low), 0.0, 100.0);
  };
  for (size_t i = 0; i < d.histogram.size(); ++i) {
    if (d.histogram[i] == 0) continue;
    const double top = 23 - 22 * static_cast<double>(d.histogram[i]) / static_cast<double>(most);
    const auto bin = static_cast<double>(i);
    path += "M" + FixedNumber(x(bin), 2) + " 23V" + FixedNumber(top, 1) + "H" +
            FixedNumber(x(bin + 1), 2) + "V23z";
  }
  std::string svg =
      "<svg viewBox=\"0 0 100 24\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
      "<line class=\"base\" x1=\"0\" x2=\"100\" y1=\"23.5\" y2=\"23.5\"/><path class=\"area\" "
      "d=\"" +
      path + "\"/>";
  const std::pair<double, const char*> ticks[] = {{d.p50, "q"}, {d.p95, "q q95"}, {d.p99, "q"}};
  for (const auto& [value, style] : ticks) {
    if (!(value > 0)) continue;
    const std::string at = FixedNumber(scale.place(value), 2);
    svg += "<line class=\"" + std::string(style) + "\" x1=\"" + at + "\" x2=\"" + at +
           "\" y1=\"6\" y2=\"23\"/>";
  }
  return svg + "</svg>";
}

std::string Ridges(const E1Result& result, size_t slice, size_t quantity, const LogScale& scale) {
  std::string panel = "<div class=\"card panel\"><h3>" + std::string(kMeaning[quantity]) +
                      "</h3><div class=\"ridge\"><span></span><span></span><span "
                      "class=\"num\">p99</span></div>\n";
  for (const E1Row& row : result.rows) {
    const Distribution& d = row.by_slice[slice].drift[quantity];
    const std::string said = row.name + ": p50 " + ReadableNumber(d.p50) + ", p95 " +
                             ReadableNumber(d.p95) + ", p99 " + ReadableNumber(d.p99) +
                             ", largest " + ReadableNumber(d.max) + "; " + std::to_string(d.zeros) +
                             " tokens exactly 0";
    panel += "<div class=\"ridge s-" + std::string(Name(row.source)) + "\" title=\"" +
             MarkupEscaped(said) + "\"><span class=\"name\">" + MarkupEscaped(row.name) +
             "</span>" + AreaSvg(d, scale) + "<span class=\"num\">" + BriefNumber(d.p99) +
             "</span></div>\n";
  }
  return panel + "<div class=\"ridge\"><span></span>" + scale.labels() +
         "<span></span></div></div>\n";
}

std::string SourceKey() {
  std::string key = "<div class=\"key\" style=\"margin:0 0 12px\">";
  for (const ErrorSource source : kErrorSources) {
    key += "<span><i class=\"swatch\" style=\"background:var(--" + std::string(Name(source)) +
           ")\"></i>" + std::string(Name(source)) + "</span>";
  }
  return key + "<span>bars: tokens by log10; lines: p50, p95 (dashed), p99</span></div>\n";
}

std::string Histograms(const E1Result& result) {
  std::array<LogScale, 4> scales;
  for (size_t q = 0; q < 4; ++q) scales[q] = ScaleOf(result, q);
  std::string body = SourceKey();
  for (size_t s = 0; s < result.slices.size(); ++s) {
    if (result.tokens[s] == 0) continue;
    body += "<details class=\"slice\"" + std::string(s == 0 ? " open" : "") + "><summary>" +
            MarkupEscaped(result.slices[s]) + " <small>" + Grouped(result.requests[s]) +
            " requests, " + Grouped(result.tokens[s]) +
            " tokens</small></summary><div class=\"ridges\">\n";
    for (size_t q = 0; q < 4; ++q) body += Ridges(result, s, q, scales[q]);
    body += "</div></details>\n";
  }
  return body;
}

// The five perturbations that change the five best most often get a line each, the same in every
// slice.
std::vector<size_t> CurveRows(const E1Result& result) {
  std::vector<size_t> rows(result.rows.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    return result.rows[a].by_slice[0].curve.back().top5 >
           result.rows[b].by_slice[0].curve.back().top5;
  });
  rows.resize(std::min<size_t>(rows.size(), 5));
  return rows;
}

std::string Plot(const E1Result& result, const std::vector<size_t>& rows, size_t slice, bool top5) {
  const auto value = [&](size_t row, size_t i) {
    const MarginPoint& point = result.rows[row].by_slice[slice].curve[i];
    return top5 ? point.top5 : point.top1;
  };
  double most = 0;
  for (const size_t row : rows) most = std::max(most, value(row, kMarginPoints - 1));
  std::string plot = "<div class=\"plot\"><h4>" + std::string(top5 ? "top five" : "top token") +
                     " <b>" + (most > 0 ? Percent(most) : "none") +
                     "</b></h4><svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" "
                     "aria-hidden=\"true\">";
  for (size_t k = 0; most > 0 && k < rows.size(); ++k) {
    std::string points;
    for (size_t i = 0; i < kMarginPoints; ++i) {
      points += FixedNumber(100.0 * static_cast<double>(i) / (kMarginPoints - 1), 1) + "," +
                FixedNumber(100 - 96 * value(rows[k], i) / most, 1) + " ";
    }
    plot += "<polyline class=\"line l" + std::to_string(k) + "\" points=\"" + points + "\"/>";
  }
  const LogScale margins{-4, 2};
  return plot + "</svg>" + margins.labels() + "</div>\n";
}

std::string Curves(const E1Result& result) {
  const std::vector<size_t> rows = CurveRows(result);
  std::string body = "<div class=\"curves\">\n";
  for (size_t s = 0; s < result.slices.size(); ++s) {
    if (result.tokens[s] == 0) continue;
    body += "<div class=\"card panel\"><h3>" + MarkupEscaped(result.slices[s]) +
            "</h3><div class=\"plots\">" + Plot(result, rows, s, false) +
            Plot(result, rows, s, true) + "</div><div class=\"key\">";
    for (size_t k = 0; k < rows.size(); ++k) {
      const E1Row& row = result.rows[rows[k]];
      const MarginPoint& end = row.by_slice[s].curve.back();
      const std::string number = std::to_string(k);
      body += "<span><svg viewBox=\"0 0 26 10\"><line class=\"line l" + number +
              "\" x1=\"0\" x2=\"26\" y1=\"5\" y2=\"5\"/></svg><span class=\"mono\">" +
              MarkupEscaped(row.name) + "</span> " + Percent(end.top1) + " · " + Percent(end.top5) +
              "</span>";
    }
    body += "</div></div>\n";
  }
  return body + "</div>\n";
}

std::string Concentration(const E1Result& result) {
  std::string map =
      "<div class=\"card panel heat\"><div class=\"heat-scroll\"><table "
      "class=\"map\"><thead><tr><th class=\"first\"></th>";
  for (size_t s = 0; s < result.slices.size(); ++s) {
    map += "<th>" + MarkupEscaped(result.slices[s]) + (s == 0 ? ": p99" : "") + "</th>";
  }
  map += "</tr></thead><tbody>\n";
  for (const E1Row& row : result.rows) {
    const double all = row.by_slice[0].drift[3].p99;
    map += "<tr><th scope=\"row\" class=\"mono\">" + MarkupEscaped(row.name) + "</th><td>" +
           ReadableNumber(all) + "</td>";
    for (size_t s = 1; s < result.slices.size(); ++s) {
      if (result.tokens[s] == 0 || !(all > 0)) {
        map += "<td class=\"none\">·</td>";
        continue;
      }
      const double ratio = row.by_slice[s].drift[3].p99 / all;
      const char* heat = ratio <= 0.5 ? "h4"
                         : ratio <= 1 ? "h3"
                         : ratio <= 2 ? "h2"
                         : ratio <= 4 ? "h1"
                                      : "h0";
      map += "<td class=\"" + std::string(heat) + (ratio > 2 ? " near" : "") + "\">×" +
             FixedNumber(ratio, ratio < 0.095  ? 2
                                : ratio < 9.95 ? 1
                                               : 0) +
             "</td>";
    }
    map += "</tr>\n";
  }
  return map + "</tbody></table></div></div>\n";
}

std::string Envelopes(const E1Result& result) {
  const LogScale scale{-6, 3};
  std::string body =
      "<div class=\"card panel\"><div class=\"key\" style=\"margin:0 0 8px\"><span>● "
      "measured</span>"
      "<span>┃ typical</span><span>┋ worst case</span></div>\n";
  for (const E1Row& row : result.rows) {
    const auto line = [&](double value, const char* style) {
      const std::string at = FixedNumber(scale.place(value), 2);
      return "<line class=\"" + std::string(style) + "\" x1=\"" + at + "\" x2=\"" + at +
             "\" y1=\"2\" y2=\"16\"/>";
    };
    const std::string measured = FixedNumber(scale.place(row.linf_max), 2);
    body += "<div class=\"ridge tall s-" + std::string(Name(row.source)) + "\" title=\"" +
            MarkupEscaped(row.name + ": measured " + ReadableNumber(row.linf_max) + ", typical " +
                          ReadableNumber(row.typical) + ", worst case " +
                          ReadableNumber(row.envelope)) +
            "\"><span class=\"name\">" + MarkupEscaped(row.name) +
            "</span><svg viewBox=\"0 0 100 18\" preserveAspectRatio=\"none\" "
            "aria-hidden=\"true\"><line class=\"base\" x1=\"" +
            measured + "\" x2=\"" + FixedNumber(scale.place(row.envelope), 2) +
            "\" y1=\"9\" y2=\"9\"/><line class=\"area\" style=\"stroke-width:9\" "
            "stroke-linecap=\"round\" x1=\"" +
            measured + "\" x2=\"" + measured + "\" y1=\"9\" y2=\"9\"/>" + line(row.typical, "q") +
            line(row.envelope, "q q95") + "</svg><span class=\"num\">" +
            Percent(row.linf_max / row.envelope) + "</span></div>\n";
  }
  return body + "<div class=\"ridge\"><span></span>" + scale.labels() +
         "<span class=\"num\">used</span></div></div>\n";
}

std::string Numbers(const E1Result& result) {
  std::string body;
  for (size_t s = 0; s < result.slices.size(); ++s) {
    if (result.tokens[s] == 0) continue;
    body += "<details class=\"data\"><summary>" + MarkupEscaped(result.slices[s]) +
            "</summary><div class=\"table-scroll tall\"><table class=\"grid\"><thead><tr>"
            "<th>perturbation</th>";
    for (const std::string_view q : kE1Quantities) {
      body += "<th>" + std::string(q) + " p50</th><th>p95</th><th>p99</th>";
    }
    body += "</tr></thead><tbody>\n";
    for (const E1Row& row : result.rows) {
      body += "<tr><td class=\"mono\">" + MarkupEscaped(row.name) + "</td>";
      for (const Distribution& d : row.by_slice[s].drift) {
        for (const double value : {d.p50, d.p95, d.p99}) {
          body += "<td class=\"n\">" + ReadableNumber(value) + "</td>";
        }
      }
      body += "</tr>\n";
    }
    body += "</tbody></table></div></details>\n";
  }
  return body;
}

std::string CountsText(const E1Result& result) {
  return Grouped(result.requests[0]) + " requests, " + Grouped(result.tokens[0]) + " tokens";
}

}  // namespace

std::string E1Page(const E1Result& result) {
  const ExperimentReport report = E1Report(result);
  ExperimentParts parts;
  parts.title = "E1: what each switch does when thrown alone";
  parts.lead = "Numerical drift of the lab's kernels, one perturbation at a time, on " +
               CountsText(result) + " of the shipped model's evaluation set.";
  parts.foot = "Made by kcc lab e1; the same figures give the same page.";
  parts.figures = {
      {"histograms", "Histograms by slice",
       "One row a perturbation, thrown alone. Every panel has one logarithmic scale for all "
       "slices, so that slices can be compared; what is exactly 0 has no bar.",
       Histograms(result)},
      {"slices", "Where it concentrates",
       "p99 of KL on a slice against that of all tokens. Framed: more than twice as much.",
       Concentration(result)},
      {"curves", "Disagreement by margin",
       "The share of a slice's tokens whose best token, or whose five best, differ and whose "
       "margin (best logit minus second) is at most x. The five perturbations that change most; "
       "beside each, the share of tokens in the end.",
       Curves(result)},
      {"envelopes", "Measured against the envelope",
       "The largest logit drift beside the worst case that weights and ranges allow, and beside "
       "what is typical.",
       Envelopes(result)},
      {"numbers", "Numbers", "p50, p95 and p99 behind the pictures.", Numbers(result)}};
  parts.seen = {"seen", "What was seen", "The paper's expectations, against these figures.", ""};
  parts.report = ReportSection(report);
  return ExperimentPage(parts, report.findings, report.preview);
}

std::string E1Markdown(const E1Result& result) {
  const ExperimentReport report = E1Report(result);
  std::string text =
      "# " + std::string(report.preview ? "Preview of " : "") +
      "E1: one perturbation at a time\n\nWhat each switch of the lab does to the shipped model "
      "when it is thrown alone, on " +
      CountsText(result) +
      ", some of the requests again in contexts of hundreds of tokens. Made by `kcc lab e1` (`make "
      "results` writes this page again); the page `e1.html` that it writes beside it has the "
      "histograms and disagreement curves of every slice.\n\n" +
      (report.preview ? std::string(kPreviewText) + "\n\n" : "") +
      "## Figures\n\n*Base* is the kernel that both sides share. *Worst case* is the envelope of "
      "that source alone, *typical* its statistical form, *tightness* what is measured over worst "
      "case.\n\n";
  const std::vector<std::string> head = {"perturbation",
                                         "source",
                                         "base",
                                         "span p50",
                                         "span p99",
                                         "KL p50",
                                         "KL p99",
                                         "worst slice (KL p99)",
                                         "top-1 changed",
                                         "top-5 changed",
                                         "largest L∞",
                                         "worst case",
                                         "tightness",
                                         "typical",
                                         "measured / typical"};
  std::vector<std::vector<std::string>> rows;
  for (const E1Row& row : result.rows) {
    const E1Slice& all = row.by_slice[0];
    const size_t worst = WorstSlice(row);
    rows.push_back(
        {"`" + row.name + "`", std::string(Name(row.source)), row.base,
         ReadableNumber(all.drift[0].p50), ReadableNumber(all.drift[0].p99),
         ReadableNumber(all.drift[3].p50), ReadableNumber(all.drift[3].p99),
         result.slices[worst] + " (" + ReadableNumber(row.by_slice[worst].drift[3].p99) + ")",
         Percent(all.curve.back().top1), Percent(all.curve.back().top5),
         ReadableNumber(row.linf_max),
         ReadableNumber(row.envelope) + (row.vacuous ? " (vacuous)" : ""),
         ReadableNumber(row.linf_max / row.envelope), ReadableNumber(row.typical),
         ReadableNumber(row.linf_max / row.typical)});
  }
  return text + MarkdownTable(head, rows) + "\n" + SeenMarkdown(report) +
         ExperimentReportMarkdown(report);
}

std::string E1Text(const E1Result& result) {
  const ExperimentReport report = E1Report(result);
  const std::vector<std::string> head = {"perturbation",         "source",        "KL p99",
                                         "worst slice (KL p99)", "top-1 changed", "top-5 changed"};
  std::vector<std::vector<std::string>> rows;
  for (const E1Row& row : result.rows) {
    const E1Slice& all = row.by_slice[0];
    const size_t worst = WorstSlice(row);
    rows.push_back(
        {row.name, std::string(Name(row.source)), BriefNumber(all.drift[3].p99),
         result.slices[worst] + " (" + BriefNumber(row.by_slice[worst].drift[3].p99) + ")",
         Percent(all.curve.back().top1), Percent(all.curve.back().top5)});
  }
  return TextParagraph("E1: one perturbation at a time, on " + CountsText(result)) + "\n" +
         TextTable(head, rows) + SeenText(report);
}

std::string E1Json(const E1Result& result) {
  JsonWriter json;
  json.BeginObject().Field("kccLab", 1);
  WriteExperimentReport(E1Report(result), &json);
  json.Key("perturbations").BeginArray();
  for (const E1Row& row : result.rows) {
    json.BeginObject().Field("name", row.name).Field("source", Name(row.source));
    json.Field("base", row.base).Field("linfMax", row.linf_max);
    json.Field("worstCase", row.envelope).Field("vacuous", row.vacuous);
    json.Field("typical", row.typical).Key("slices").BeginArray();
    for (size_t s = 0; s < result.slices.size(); ++s) {
      const E1Slice& slice = row.by_slice[s];
      json.BeginObject().Field("slice", result.slices[s]).Field("tokens", result.tokens[s]);
      for (size_t q = 0; q < 4; ++q) {
        const Distribution& d = slice.drift[q];
        json.Key(kE1Quantities[q]).BeginObject().Field("p50", d.p50).Field("p95", d.p95);
        json.Field("p99", d.p99).Field("max", d.max).EndObject();
      }
      json.Field("top1Changed", slice.curve.back().top1);
      json.Field("top5Changed", slice.curve.back().top5).EndObject();
    }
    json.EndArray().EndObject();
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace kcc
