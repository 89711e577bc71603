#include "kcc/judge/facts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/selection.h"
#include "kcc/judge/rate_counts.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

using End = SeriesView::End;

// From the signs of (value - threshold) at the two ends of the value's interval.
Truth TruthOfSigns(bool at_most, int sign_low, int sign_high) {
  const int worst = at_most ? sign_high : -sign_low;
  const int best = at_most ? sign_low : -sign_high;
  if (worst <= 0) return Truth::kHolds;
  return best > 0 ? Truth::kFails : Truth::kStraddles;
}

int Sign(double difference) { return (difference > 0) - (difference < 0); }

// The clause's limit on bad units among n, by the form of its metric.
uint64_t Allowed(const Clause& clause, uint64_t n) {
  if (n == 0) return 0;
  if (!clause.hard()) return AllowedBad(clause.exceedance, n);
  const int ppm = PercentilePpm(clause.metric.aggregate);
  if (ppm < 0) {
    return clause.at_most() ? AllowedBad(clause.threshold, n)
                            : AllowedBadOfGood(clause.threshold, n);
  }
  const uint64_t rank = QuantileRank(n, ppm);
  return clause.at_most() ? n - rank : rank - 1;
}

void DecideUnits(const Clause& clause, UnitCounts units, Facts* facts) {
  units.allowed = Allowed(clause, units.units);
  facts->units = units;
  facts->fails_surely = units.beyond_proven > Allowed(clause, units.units_possible);
  facts->truth = units.beyond_possible <= units.allowed ? Truth::kHolds
                 : units.beyond_sure > units.allowed    ? Truth::kFails
                                                        : Truth::kStraddles;
}

std::string NothingIn(const Facts& facts, const std::string& otherwise) {
  if (!facts.why_empty.empty()) return facts.why_empty;
  return facts.samples.requests == 0 ? "no request of the evidence is in this slice" : otherwise;
}

// Which fields of a coverage clause are missing, and from how many requests.
std::string Lacking(const Clause& clause, const CoverageCounts& counts) {
  if (counts.no == 0) return {};
  const std::vector<std::string> fields = SortedFields(clause);
  const std::string known = std::to_string(counts.known());
  const auto in_words = [&](const std::string& field, uint64_t requests) {
    return field + " from " + std::to_string(requests) + " of " + known +
           (counts.known() == 1 ? " request" : " requests");
  };
  if (fields.size() == 1) return "missing: " + in_words(fields[0], counts.no);
  std::string text;
  if (counts.noted != counts.no || counts.lacking.size() != fields.size()) {
    for (const std::string& field : fields) text += (text.empty() ? "" : ", ") + field;
    return "asked for: " + text + "; kcc run on the traces says which are missing";
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (counts.lacking[i] == 0) continue;
    text += (text.empty() ? "" : ", ") + in_words(fields[i], counts.lacking[i]);
  }
  return "missing: " + text;
}

// How many records do not keep to the published schema, and who says which.
std::string NotConforming(const Summary& summary, size_t slice, Side side) {
  const FlagCounts& counts =
      summary.slices[slice].population.sides[static_cast<size_t>(side)].conforming;
  if (counts.no == 0) return {};
  return std::to_string(counts.no) + " of " + std::to_string(counts.known()) +
         " records do not keep to it; kcc trace verify names the first";
}

// A field that the slice reads and nothing in the evidence has; empty where there is none. Then the
// slice holds nothing for want of a record, whatever the requests are like.
std::string NobodyHas(const Summary& summary, size_t index, const Slice& slice) {
  if (!slice.where) return {};
  const std::map<std::string, uint64_t>& noted = summary.slices[index].unvouched;
  for (const std::string& field : slice.where->Fields()) {
    const auto absent = noted.find(AbsentField(field));
    if (absent != noted.end() && absent->second == summary.requests.size()) {
      return "no request has the field '" + field + "', which the slice reads";
    }
    if (field == "token.advantage" && summary.advantage_abs_max < 0) {
      return "no token has an advantage, which the slice reads";
    }
  }
  return {};
}

// Why requests are in no window: the side that places them does not say when they came.
std::string Unplaced(const Clause& clause, uint64_t requests) {
  const std::string field = clause.window.kind == Window::Kind::kTime ? "started_at_ms" : "ordinal";
  const PlanWindow window{clause.metric, clause.window, {}, {}, {}, false};
  const bool by_infer = PlacementOf(window) == Placement::kInfer;
  std::string text = std::to_string(requests) + (requests == 1 ? " request is" : " requests are") +
                     " missing from the windows: no " + field + " on the " +
                     (by_infer ? "infer" : "train") + " side, which places them";
  if (!by_infer) text += "; evidence.trust: [" + field + "] would believe infer's";
  return text;
}

}  // namespace

uint64_t AllowedBad(double share, uint64_t n) {
  if (!(share > 0)) return 0;
  if (share >= 1) return n;
  const auto count = static_cast<double>(n);
  const auto within = [&](uint64_t k) { return static_cast<double>(k) / count <= share; };
  auto allowed = std::min(n, static_cast<uint64_t>(share * count));
  while (allowed > 0 && !within(allowed)) --allowed;
  while (allowed < n && within(allowed + 1)) ++allowed;
  return allowed;
}

uint64_t AllowedBadOfGood(double share, uint64_t n) {
  if (!(share > 0)) return n;
  if (share > 1) return 0;
  const auto count = static_cast<double>(n);
  const auto enough = [&](uint64_t good) { return static_cast<double>(good) / count >= share; };
  auto good = std::min(n, static_cast<uint64_t>(share * count));
  while (good < n && !enough(good)) ++good;
  while (good > 0 && enough(good - 1)) --good;
  return n - good;
}

FactReader::FactReader(const Summary& summary) : summary_(summary), complete_(summary.Complete()) {
  if (complete_) return;
  requests_missing_ = std::max<uint64_t>(1, summary.RequestsMissing());
  uint64_t tokens = 0;
  for (const Source& source : summary.sources) tokens += source.tokens;
  const uint64_t seen = summary.FindSlice("all")->tokens;
  tokens_missing_ = tokens - std::min(tokens, seen);
}

const SeriesView& FactReader::View(size_t slice, size_t series) {
  const auto key = std::make_pair(slice, series);
  const auto found = views_.find(key);
  if (found != views_.end()) return found->second;
  return views_.emplace(key, SeriesView(summary_, slice, series)).first->second;
}

Facts FactReader::Read(const Clause& clause, const Slice& slice, Side outcomes) {
  Facts facts;
  facts.slice = summary_.plan.FindSlice(slice, outcomes);
  if (!facts.slice) {
    facts.why_not =
        "the summary was measured without slice '" + slice.name + "' as " +
        (outcomes == Side::kInfer ? "the contract defines it" : "train's own outcomes select it") +
        "; measure again with this contract";
    return facts;
  }
  if (!IsMeasured(clause, &facts)) return facts;
  facts.unmeasured = requests_missing_;
  const SliceStats& stats = summary_.slices[*facts.slice];
  facts.samples = {static_cast<int64_t>(stats.population.requests),
                   static_cast<int64_t>(stats.tokens)};
  if (facts.samples.requests == 0 || facts.samples.tokens == 0) {
    facts.why_empty = NobodyHas(summary_, *facts.slice, slice);
  }
  if (!clause.hard()) {
    ReadWindows(clause, slice, &facts);
  } else if (clause.metric.quantity->level == QuantityLevel::kPopulation) {
    ReadPopulation(clause, &facts);
  } else {
    ReadSeries(clause, slice, &facts);
  }
  if (facts.complete()) facts.fails_surely = facts.truth == Truth::kFails;
  CheckRange(clause, &facts);
  return facts;
}

// What is kept only where a plan asks for it.
bool FactReader::IsMeasured(const Clause& clause, Facts* facts) const {
  const Quantity& quantity = *clause.metric.quantity;
  if (quantity.counts == RequestCounts::kConformance && !summary_.plan.events()) {
    facts->why_not =
        "the summary was measured without which records keep to the published schema; measure "
        "again with this contract";
    return false;
  }
  if (quantity.own == nullptr || summary_.plan.FindSeries(quantity, clause.metric.side)) {
    return true;
  }
  const bool other =
      summary_.plan.FindSeries(MetricName({&quantity, Aggregate::kNone, clause.metric.side}))
          .has_value();
  facts->why_not = "the summary was measured " +
                   std::string(other ? "with another definition of '" : "without the metric '") +
                   std::string(quantity.id) + "'; measure again with this contract";
  return false;
}

void FactReader::CheckRange(const Clause& clause, Facts* facts) {
  const Quantity& quantity = *clause.metric.quantity;
  const bool own = quantity.own != nullptr;
  // What kcc computes keeps its range, but for rounding; what was recorded may be anything.
  const bool recorded = quantity.level == QuantityLevel::kRequest && OfWholeRequests(quantity);
  if (!own && !recorded) return;
  const SeriesView& view =
      View(*facts->slice, summary_.plan.SeriesOf(quantity, clause.metric.side));
  if (view.count() == 0) return;
  const double low = view.Min(End::kLow);
  const double high = view.Max(End::kHigh);
  if (low >= quantity.min && high <= quantity.max) return;
  const bool below = low < quantity.min;
  facts->truth = Truth::kBroken;
  facts->fails_surely = false;
  facts->why_not =
      "a value of " + std::string(quantity.id) + " is " + ReadableNumber(below ? low : high) +
      ", and " + (own ? "the contract says that it is" : "it cannot be but") + " at " +
      (below ? "least " : "most ") + ReadableNumber(below ? quantity.min : quantity.max) +
      (own ? "" : "; leave the field out where nothing was measured");
}

uint64_t FactReader::MissingUnits(const Clause& clause, const Facts& facts) const {
  const bool of_tokens = clause.metric.quantity->observation == Observation::kToken;
  return facts.missing + (of_tokens ? tokens_missing_ : requests_missing_);
}

void FactReader::ReadSeries(const Clause& clause, const Slice& slice, Facts* facts) {
  const Quantity& quantity = *clause.metric.quantity;
  const size_t at = *facts->slice;
  const SeriesView* view = &View(at, summary_.plan.SeriesOf(quantity, clause.metric.side));
  facts->missing = view->missing();
  if (view->count() == 0 && clause.metric.aggregate == Aggregate::kMean) {
    // Where only the sampled token was seen, the mean of its Monte-Carlo term estimates the mean.
    // Summaries keep such terms only for tokens that the infer side sampled.
    const auto estimate = EstimateSeries(quantity);
    if (estimate && View(at, *estimate).count() > 0) {
      // Tokens that were chosen after they were drawn are no sample of the distribution.
      if (SelectionOf(slice) == Selection::kOutcomes) {
        facts->why_not = "slice '" + slice.name +
                         "' selects by what was drawn or came of it, so its sampled tokens do not "
                         "estimate " +
                         MetricName(clause.metric) + "; full logits or top-k lists would settle it";
        return;
      }
      // The quantity itself is missing for every token, those included that have no row at all.
      const uint64_t tokens = view->missing();
      view = &View(at, *estimate);
      facts->estimate = true;
      facts->missing = tokens - std::min(tokens, view->count());
    }
  }
  if (view->count() == 0) {
    facts->why_not = NothingIn(
        *facts, facts->samples.tokens == 0 && !OfWholeRequests(quantity)
                    ? "no token of the evidence counts: it has none, or all are masked or "
                      "lie before their request's prompt_tokens"
                    : "the evidence holds no value of " + std::string(quantity.id));
  } else if (clause.metric.aggregate == Aggregate::kMean) {
    ReadMean(clause, *view, facts);
  } else {
    ReadUnits(clause, *view, facts);
  }
}

void FactReader::ReadMean(const Clause& clause, const SeriesView& view, Facts* facts) const {
  const bool at_most = clause.at_most();
  facts->value = {view.Mean(End::kLow), view.Mean(End::kHigh)};
  // Overflow in the good direction, or in both, is no evidence that all is well.
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const bool good_overflow = at_most ? facts->value.hi == -kInf : facts->value.lo == kInf;
  if (std::isnan(facts->value.lo) || std::isnan(facts->value.hi) || good_overflow) {
    facts->truth = Truth::kBroken;
    facts->why_not = "values of " + std::string(clause.metric.quantity->id) +
                     " overflowed to infinity, so their mean is not a number to compare";
    return;
  }
  facts->truth = TruthOfSigns(at_most, view.CompareMean(End::kLow, clause.threshold),
                              view.CompareMean(End::kHigh, clause.threshold));
  // Were the missing values as good as can be, would it still fail?
  Tally tally = view.stream(at_most ? End::kLow : End::kHigh).tally;
  const double kindest = at_most ? clause.metric.quantity->min : clause.metric.quantity->max;
  const uint64_t missing = MissingUnits(clause, *facts);
  if (!std::isfinite(kindest)) return;
  tally.sum.Add(kindest * static_cast<double>(missing));
  tally.count += missing;
  facts->fails_surely = TruthOfSigns(at_most, tally.CompareMean(clause.threshold),
                                     tally.CompareMean(clause.threshold)) == Truth::kFails;
}

Interval FactReader::Quantile(size_t slice, const Metric& metric) {
  const size_t series = summary_.plan.SeriesOf(*metric.quantity, metric.side);
  const int ppm = PercentilePpm(metric.aggregate);
  const auto [entry, is_new] = quantiles_.try_emplace({slice, series, ppm});
  if (is_new) {
    const auto exact = summary_.exact_quantiles.find({slice, series, ppm});
    if (exact != summary_.exact_quantiles.end()) {
      entry->second = {exact->second, exact->second};
      return entry->second;
    }
    const SeriesView& view = View(slice, series);
    entry->second = {view.Quantile(End::kLow, ppm).lo, view.Quantile(End::kHigh, ppm).hi};
  }
  return entry->second;
}

const PopulationValue& FactReader::PopulationOf(size_t slice, const Clause& clause) {
  const auto [entry, is_new] =
      populations_.try_emplace({slice, MetricName(clause.metric), clause.fields});
  if (is_new) entry->second = SlicePopulation(summary_, slice, clause.metric, clause.fields);
  return entry->second;
}

void FactReader::ReadUnits(const Clause& clause, const SeriesView& view, Facts* facts) {
  const bool at_most = clause.at_most();
  const Aggregate aggregate = clause.metric.aggregate;
  UnitCounts units;
  units.units = view.count();
  if (aggregate == Aggregate::kRate) {
    facts->value = {view.Rate(End::kLow), view.Rate(End::kHigh)};
    const auto nonzero = [&](End end) {
      const Tally& tally = view.stream(end).tally;
      return tally.count - tally.zeros;
    };
    uint64_t fewest = nonzero(End::kLow);
    uint64_t most = nonzero(End::kHigh);
    if (clause.metric.quantity->min < 0 && !view.exact()) {
      // An interval around 0 is non-zero at both ends and may still hold 0.
      fewest = view.Above(End::kLow, 0).lo + view.Below(End::kHigh, 0).lo;
      most = units.units;
    }
    units.beyond_sure = at_most ? fewest : units.units - most;
    units.beyond_possible = at_most ? most : units.units - fewest;
  } else {
    const auto beyond = [&](End end) {
      return at_most ? view.Above(end, clause.threshold) : view.Below(end, clause.threshold);
    };
    units.beyond_sure = beyond(at_most ? End::kLow : End::kHigh).lo;
    units.beyond_possible = beyond(at_most ? End::kHigh : End::kLow).hi;
    if (aggregate == Aggregate::kMax) {
      facts->value = {view.Max(End::kLow), view.Max(End::kHigh)};
    } else if (aggregate == Aggregate::kMin) {
      facts->value = {view.Min(End::kLow), view.Min(End::kHigh)};
    } else {
      facts->value = Quantile(*facts->slice, clause.metric);
    }
  }
  units.beyond_proven = units.beyond_sure;
  units.units_possible = units.units + MissingUnits(clause, *facts);
  DecideUnits(clause, units, facts);
}

void FactReader::ReadPopulation(const Clause& clause, Facts* facts) {
  const PopulationValue& value = PopulationOf(*facts->slice, clause);
  facts->missing = value.missing;
  if (value.count == 0) {
    std::string needs = "the evidence does not hold what " + MetricName(clause.metric) + " needs";
    const std::string_view fields = clause.metric.quantity->fields;
    if (!fields.empty()) needs += " (request fields: " + std::string(fields) + ")";
    if (clause.metric.quantity->observation == Observation::kReplay) {
      needs += "; kcc run --repeat 2 asks every request again";
    }
    if (JoinsPairs(summary_, clause.metric)) {
      needs = std::to_string(summary_.sources.size()) + " pairs of traces have no one " +
              MetricName(clause.metric) + ": judge the summary of each";
    }
    facts->why_not = NothingIn(*facts, needs);
    return;
  }
  facts->value = value.value;
  if (const CoverageCounts* counts = CoverageOf(clause, summary_, *facts->slice)) {
    facts->lacking = Lacking(clause, *counts);
  }
  if (clause.metric.quantity->counts == RequestCounts::kConformance) {
    facts->lacking = NotConforming(summary_, *facts->slice, clause.metric.side);
  }
  if (auto share = BadShare(clause, summary_, *facts->slice)) {
    share->beyond_proven = share->beyond_sure;
    share->units_possible = share->units + MissingUnits(clause, *facts);
    return DecideUnits(clause, *share, facts);
  }
  facts->truth = TruthOfSigns(clause.at_most(), Sign(value.value.lo - clause.threshold),
                              Sign(value.value.hi - clause.threshold));
  // The largest of what was seen stays: more evidence cannot bring it down.
  facts->fails_surely =
      facts->truth == Truth::kFails && clause.metric.quantity->form == TestForm::kLargest;
}

bool FactReader::EstimatedWindows(const Clause& clause, size_t slice) {
  const Quantity& quantity = *clause.metric.quantity;
  if (quantity.level != QuantityLevel::kToken || clause.metric.aggregate != Aggregate::kMean) {
    return false;
  }
  const auto estimate = EstimateSeries(quantity);
  return estimate &&
         View(slice, summary_.plan.SeriesOf(quantity, clause.metric.side)).missing() > 0 &&
         View(slice, *estimate).count() > 0;
}

void FactReader::ReadWindows(const Clause& clause, const Slice& slice, Facts* facts) {
  const auto outcome = SliceWindows(summary_, *facts->slice, clause.metric, clause.window,
                                    clause.threshold, clause.fields);
  if (!outcome) {
    facts->why_not = "the summary was measured without windows of " + WindowText(clause.window) +
                     " for " + MetricName(clause.metric) +
                     " at this threshold; measure again with this contract";
    return;
  }
  if (EstimatedWindows(clause, *facts->slice)) {
    facts->why_not =
        "sampled tokens estimate " + MetricName(clause.metric) +
        " over many requests, not in each window; full logits or top-k would settle it";
    return;
  }
  const WindowCounts& folded = outcome->folded;
  const WindowCounts& open = outcome->open;
  facts->missing = folded.incomplete + folded.unplaced + open.incomplete + open.unplaced;
  if (folded.unplaced + open.unplaced > 0) {
    facts->unplaced = Unplaced(clause, folded.unplaced + open.unplaced);
  }
  const bool at_most = clause.at_most();
  // Each window with a gap, each request without a place and each one not measured may turn one
  // window good, and make one more.
  const bool by_request = clause.window.kind == Window::Kind::kRequest;
  const uint64_t unsure = facts->missing + (by_request ? 0 : facts->unmeasured);
  const auto count = [&](std::initializer_list<const WindowCounts*> parts) {
    UnitCounts units;
    uint64_t undefined = 0;
    for (const WindowCounts* part : parts) {
      const Beyond& beyond = part->beyond;
      units.units += part->windows;
      units.beyond_sure += at_most ? beyond.above_sure : beyond.below_sure;
      units.beyond_possible += at_most ? beyond.above_possible : beyond.below_possible;
      undefined += part->undefined;
    }
    units.beyond_proven = units.beyond_sure - std::min(units.beyond_sure, unsure);
    units.units_possible =
        units.units + facts->missing + facts->unmeasured + std::min(undefined, facts->missing);
    return units;
  };
  const UnitCounts units = count({&folded, &open});
  if (units.units == 0) {
    facts->why_not =
        NothingIn(*facts, facts->unplaced.empty() ? "no window of the slice holds a value of " +
                                                        std::string(clause.metric.quantity->id)
                                                  : facts->unplaced);
    return;
  }
  // A request that never came would have been in a window with a gap: what that window would have
  // been is not known, and leaving it out would let the bad ones be left out.
  facts->traffic_windows = count({&folded});
  facts->gaps = outcome->gaps;
  for (uint64_t* each : {&facts->traffic_windows->units, &facts->traffic_windows->beyond_possible,
                         &facts->traffic_windows->units_possible}) {
    *each += outcome->gaps;
  }
  DecideUnits(clause, units, facts);

  // The verdict is about windows; the reader also wants the metric of the slice as a whole.
  Facts whole = *facts;
  if (clause.metric.quantity->level == QuantityLevel::kPopulation) {
    ReadPopulation(clause, &whole);
  } else {
    ReadSeries(clause, slice, &whole);
  }
  facts->value = whole.value;
  facts->lacking = std::move(whole.lacking);
}

}  // namespace kcc
