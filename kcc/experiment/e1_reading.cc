// What E1's figures say, in sentences that are computed from them.
#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/experiment/e1.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr size_t kKl = 3;

double KlP99(const E1Row& row, size_t slice) { return row.by_slice[slice].drift[kKl].p99; }

// The paper's own way to be wrong: a slice whose drift follows no perturbation.
Finding Controlled(const E1Result& result) {
  double least_decades = INFINITY;
  std::string where;
  double quiet = 0;
  for (size_t s = 0; s < result.slices.size(); ++s) {
    if (result.tokens[s] == 0) continue;
    double low = INFINITY, high = 0;
    for (const E1Row& row : result.rows) {
      low = std::min(low, KlP99(row, s));
      high = std::max(high, KlP99(row, s));
    }
    quiet = std::max(quiet, low);
    const double decades = std::log10(high / std::max(low, 1e-20));
    if (decades < least_decades) {
      least_decades = decades;
      where = result.slices[s];
    }
  }
  Finding made;
  made.predicted =
      "the drift of every slice is controlled by the perturbations (the framework is falsified if "
      "one is not)";
  made.seen = "on every slice the p99 of KL follows the switch thrown, over at least " +
              ReadableNumber(std::floor(least_decades)) + " decades (" + where +
              "), and is at most " + ReadableNumber(quiet) + " under the mildest";
  made.holds = least_decades >= 3;
  return made;
}

Finding Concentrated(const E1Result& result) {
  double most = 0;
  std::string where;
  size_t twice = 0;
  for (const E1Row& row : result.rows) {
    const size_t worst = WorstSlice(row);
    const double ratio = KlP99(row, 0) > 0 ? KlP99(row, worst) / KlP99(row, 0) : 0;
    twice += ratio >= 2;
    if (ratio > most) {
      most = ratio;
      where = row.name + " on " + result.slices[worst];
    }
  }
  Finding made;
  made.predicted = "drift concentrates in slices that the average hides";
  made.seen = "the worst slice has at least twice the p99 KL of all tokens under " +
              std::to_string(twice) + " of " + std::to_string(result.rows.size()) +
              " perturbations; most under " + where + " (" + ReadableNumber(most) + " times)";
  made.holds = twice > 0;
  return made;
}

Finding Ordered(const E1Result& result) {
  double reorder = 0, format = INFINITY;
  std::string largest;
  double most = 0;
  for (const E1Row& row : result.rows) {
    const double median = row.by_slice[0].drift[0].p50;
    const bool is_format = row.source == ErrorSource::kPrecision && row.name != "accumulate=f32";
    if (is_format) format = std::min(format, median);
    if (!is_format) reorder = std::max(reorder, median);
    if (median > most) {
      most = median;
      largest = row.name;
    }
  }
  Finding made;
  made.predicted =
      "sources can be told apart: formats move logits more than fusion, batch and route do";
  made.seen = "median span at most " + ReadableNumber(reorder) +
              " for anything that reorders or approximates, at least " + ReadableNumber(format) +
              " for any format, largest " + ReadableNumber(most) + " (" + largest + ")";
  made.holds = reorder < format;
  return made;
}

// |margin| above the span means that nothing can overtake: a theorem, so this may not fail.
Finding Flips(const E1Result& result) {
  double margin = 0;
  std::string where;
  bool within = true;
  for (const E1Row& row : result.rows) {
    within = within && row.flip_margin_max <= row.flip_span_max;
    if (row.flip_margin_max > margin) {
      margin = row.flip_margin_max;
      where = row.name;
    }
  }
  Finding made;
  made.predicted = "the top token changes only where the margin is small";
  made.seen = where.empty()
                  ? "no top token changed under any perturbation"
                  : "the largest margin of a token that changed is " + ReadableNumber(margin) +
                        " (" + where + "); none exceeds the span of its perturbation";
  made.holds = within;
  return made;
}

Finding Enveloped(const E1Result& result) {
  double tightest = 0;
  std::string where;
  size_t vacuous = 0;
  bool within = true;
  for (const E1Row& row : result.rows) {
    within = within && row.linf_max <= row.envelope;
    vacuous += row.vacuous;
    if (row.linf_max / row.envelope > tightest) {
      tightest = row.linf_max / row.envelope;
      where = row.name;
    }
  }
  Finding made;
  made.predicted = "per-source bounds are loose by design but never exceeded (section 5.3)";
  made.seen = std::string(within ? "no measured drift exceeds its worst case" : "EXCEEDED") +
              "; at most " + Percent(tightest) + " of it is used (" + where + "), and " +
              std::to_string(vacuous) + " of " + std::to_string(result.rows.size()) +
              " worst cases say no more than that logits are bounded";
  made.holds = within;
  return made;
}

}  // namespace

std::vector<Finding> E1Findings(const E1Result& result) {
  return {Controlled(result), Concentrated(result), Ordered(result), Flips(result),
          Enveloped(result)};
}

}  // namespace kcc
