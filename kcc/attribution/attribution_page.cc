#include "kcc/attribution/attribution_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <vector>

#include "kcc/attribution/attribution_assets.h"
#include "kcc/base/strings.h"
#include "kcc/metric/catalog.h"
#include "kcc/report/static_page.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string PercentOf(double part, double whole) {
  return whole == 0 ? "–" : Fixed(100 * part / whole, 1) + "%";
}

// From where to where the bars and whiskers of a quantity reach; one scale for all its slices.
struct Range {
  double low = 0;
  double high = 0;

  void Hold(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Percent of the width.
  double Place(double value) const {
    return high > low ? 100 * (std::clamp(value, low, high) - low) / (high - low) : 0;
  }
};

Range RangeOf(const std::vector<const AttributedCell*>& cells) {
  Range range;
  for (const AttributedCell* cell : cells) {
    double at = 0;
    for (size_t i = 0; i < kShapleySources; ++i) {
      range.Hold(at + cell->interval[i].lo);
      range.Hold(at + cell->interval[i].hi);
      at += cell->shapley.share[i];
      range.Hold(at);
    }
    range.Hold(cell->shapley.total);
  }
  return range;
}

std::string Line(const char* style, double x1, double x2, double y1, double y2) {
  return "<line class=\"" + std::string(style) + "\" x1=\"" + Fixed(x1, 2) + "\" x2=\"" +
         Fixed(x2, 2) + "\" y1=\"" + Fixed(y1, 1) + "\" y2=\"" + Fixed(y2, 1) + "\"/>";
}

// A bar between two values, and the interval of its length around where it ends.
std::string Bar(const Range& range, double from, double to, const Interval* interval) {
  const double left = range.Place(std::min(from, to));
  const double right = range.Place(std::max(from, to));
  std::string svg =
      "<svg viewBox=\"0 0 100 22\" preserveAspectRatio=\"none\" aria-hidden=\"true\">" +
      Line("zero", range.Place(0), range.Place(0), 0, 22) +
      Line("step", range.Place(from), range.Place(from), 0, 4) + "<rect class=\"bar-of\" x=\"" +
      Fixed(left, 2) + "\" width=\"" + Fixed(std::max(0.25, right - left), 2) +
      "\" y=\"4\" height=\"11\" rx=\"0.4\"/>";
  if (interval != nullptr && interval->known()) {
    const double lo = range.Place(from + interval->lo);
    const double hi = range.Place(from + interval->hi);
    svg += Line("whisker", lo, hi, 18, 18) + Line("whisker", lo, lo, 16, 20) +
           Line("whisker", hi, hi, 16, 20);
  }
  return svg + "</svg>";
}

std::string SourceRow(const AttributedCell& cell, size_t source, double from, const Range& range) {
  const std::string name(Name(kErrorSources[source]));
  const double share = cell.shapley.share[source];
  const Interval& interval = cell.interval[source];
  const std::string said = name + ": " + ShortestNumber(share) + ", interval [" +
                           ShortestNumber(interval.lo) + ", " + ShortestNumber(interval.hi) +
                           "]; alone " + ShortestNumber(cell.shapley.alone[source]);
  return "<div class=\"fall-row s-" + name + "\" title=\"" + MarkupEscaped(said) + "\"><span>" +
         name + "</span>" + Bar(range, from, from + share, &interval) +
         "<span class=\"num value\">" + ShortNumber(share) + " <small>[" +
         ShortNumber(interval.lo) + ", " + ShortNumber(interval.hi) +
         "]</small></span><span class=\"num\">" + PercentOf(share, cell.shapley.total) +
         "</span></div>\n";
}

std::string Waterfall(const AttributedCell& cell, const Range& range, const std::string& unit) {
  std::string html = "<div class=\"fall\"><h3>" + MarkupEscaped(cell.slice) + " <small>" +
                     Grouped(cell.requests) + (cell.requests == 1 ? " request, " : " requests, ") +
                     Grouped(cell.tokens) + (cell.tokens == 1 ? " token" : " tokens") +
                     "</small></h3>\n";
  double at = 0;
  for (size_t i = 0; i < kShapleySources; ++i) {
    html += SourceRow(cell, i, at, range);
    at += cell.shapley.share[i];
  }
  return html + "<div class=\"fall-row total\" title=\"" + ShortestNumber(cell.shapley.total) +
         "\"><span>total</span>" + Bar(range, 0, cell.shapley.total, nullptr) +
         "<span class=\"num value\"><b>" + ShortNumber(cell.shapley.total) + "</b>" +
         (unit.empty() ? "" : " " + unit) + "</span><span class=\"num\">" +
         PercentOf(cell.shapley.interaction, cell.shapley.total) +
         " <small>joint</small></span></div></div>\n";
}

std::string UnitOf(std::string_view id) {
  const Quantity* quantity = FindQuantity(id);
  return quantity == nullptr ? "" : std::string(Name(quantity->unit));
}

std::string Explained(std::string_view id, double confidence) {
  const Quantity* quantity = FindQuantity(id);
  const std::string unit = UnitOf(id);
  return (quantity == nullptr ? "" : std::string(quantity->definition) + ". ") +
         "Means over the tokens of a slice" +
         (unit.empty() ? "" : ", in " + unit + (unit.size() > 2 ? "s" : "")) +
         "; whiskers and brackets are " + Percent(confidence) +
         " intervals of a source's share, in the same unit.";
}

std::string EnvelopeTable(const Attribution& attribution,
                          const std::array<SourceEnvelope, 5>& envelopes) {
  const std::vector<std::string> head = {"source", "largest drift of a logit", "worst case",
                                         "typical"};
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < envelopes.size(); ++i) {
    const size_t corner = i < 4 ? size_t{1} << i : kCorners - 1;
    rows.push_back(
        {i < 4 ? std::string(Name(kErrorSources[i])) : "all",
         ShortNumber(attribution.corner_linf_max[corner]),
         ShortNumber(envelopes[i].worst_linf) + (envelopes[i].vacuous ? " (vacuous)" : ""),
         ShortNumber(envelopes[i].statistical_linf)});
  }
  return "<div class=\"card\">" + TableHtml(head, rows) + "</div>\n";
}

}  // namespace

std::string AttributionHeadline(const Attribution& attribution) {
  const AttributedCell* worst = nullptr;
  for (const AttributedCell& cell : attribution.cells) {
    if (cell.quantity != attribution.cells.front().quantity) continue;
    if (worst == nullptr || cell.shapley.total > worst->shapley.total) worst = &cell;
  }
  if (worst == nullptr || !(worst->shapley.total > 0)) return "";
  const auto& shares = worst->shapley.share;
  const auto most =
      static_cast<size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
  const std::string unit = UnitOf(worst->quantity);
  return std::string(Name(kErrorSources[most])) + " brings " +
         PercentOf(shares[most], worst->shapley.total) + " of the mean " + worst->quantity +
         " on " + worst->slice + " (" + ShortNumber(worst->shapley.total) +
         (unit.empty() ? "" : " " + unit) + "), the slice with the most";
}

std::string AttributionHtml(const Attribution& attribution,
                            const std::optional<std::array<SourceEnvelope, 5>>& envelopes,
                            bool beside_report) {
  std::vector<std::string> quantities;  // in the order of the cells
  for (const AttributedCell& cell : attribution.cells) {
    if (std::find(quantities.begin(), quantities.end(), cell.quantity) == quantities.end()) {
      quantities.push_back(cell.quantity);
    }
  }
  std::deque<std::string> texts;  // that sections look at
  std::vector<PageSection> sections;
  for (const std::string& quantity : quantities) {
    std::vector<const AttributedCell*> cells;
    for (const AttributedCell& cell : attribution.cells) {
      if (cell.quantity == quantity && cell.tokens > 0) cells.push_back(&cell);
    }
    const Range range = RangeOf(cells);
    std::string body = "<div class=\"card panel falls\">\n";
    for (const AttributedCell* cell : cells) body += Waterfall(*cell, range, UnitOf(quantity));
    texts.push_back(Explained(quantity, attribution.confidence));
    sections.push_back({quantity, quantity, texts.back(), body + "</div>\n"});
  }
  if (envelopes) {
    sections.push_back({"envelopes", "Envelopes",
                        "The largest drift of any logit with one source switched, beside the worst "
                        "case that weights and ranges allow, and what is typical.",
                        EnvelopeTable(attribution, *envelopes)});
  }
  std::string lead = AttributionHeadline(attribution);
  if (lead.empty()) lead = "the two kernels do not drift apart on these requests";
  StaticPage page;
  page.kind = kAttributionKind;
  page.title = "Where the drift comes from";
  lead[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(lead[0])));
  lead += ".";
  page.lead = lead;
  page.note =
      "<p class=\"pair-of\">infer <code>" + MarkupEscaped(attribution.infer_fingerprint) +
      "</code><br>against train <code>" + MarkupEscaped(attribution.train_fingerprint) +
      "</code></p>" +
      (beside_report ? "<p class=\"pair-of\"><a href=\"report.html\">The report</a></p>" : "");
  page.sections = sections;
  page.foot =
      "A share is the Shapley value of a source over the sixteen corners between the kernels; the "
      "shares add up to the total. Joint is what the sources do together beyond the sum of what "
      "each does alone. Made by kcc attribute.";
  page.style = kPage_attribution_css;
  return StaticPageHtml(page);
}

}  // namespace kcc
