#include "kcc/summary/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/metric/token_slots.h"
#include "kcc/stats/betting.h"
#include "kcc/stats/mean_bounds.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

template <class T>
void SortDistinct(std::vector<T>* items) {
  std::sort(items->begin(), items->end());
  items->erase(std::unique(items->begin(), items->end()), items->end());
}

template <class T>
bool Includes(const std::vector<T>& whole, const std::vector<T>& part) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

bool CountsBeyondThreshold(Aggregate aggregate) { return PercentilePpm(aggregate) >= 0; }

bool IsGap(const Metric& metric) { return metric.quantity->form == TestForm::kMeanGap; }

auto WindowKey(const PlanWindow& row) {
  return std::make_tuple(MetricName(row.metric), row.window.kind, row.window.size, row.fields);
}

// All that tells tests of one metric apart.
auto TestKey(const PlanTest& row) {
  return std::tie(row.bound, row.threshold, row.negative, row.tokens_max, row.range_min,
                  row.range_max, row.truncated, row.two_valued);
}

bool TestComesBefore(const PlanTest& a, const PlanTest& b) {
  if (a.metric != b.metric) return MetricName(a.metric) < MetricName(b.metric);
  return TestKey(a) < TestKey(b);
}

}  // namespace

std::string OutcomeTwin(std::string_view slice) { return std::string(slice) + "@train"; }

namespace {

// A gap between the numbers of repeats (replay_gap.h).
bool IsReplayGap(const Quantity& quantity) {
  return quantity.observation == Observation::kReplay && quantity.form == TestForm::kLargest;
}

// A sided quantity of the fields is about one side's own run. The numbers of repeats are no record
// of a run: infer's times would let it choose which repeats meet in a window.
bool IsOfInfersRun(const Metric& metric) {
  return metric.quantity->sided && metric.side == Side::kInfer &&
         metric.quantity->evidence == EvidenceNeeded::kRequestFields &&
         !IsReplayGap(*metric.quantity);
}

// What the run took. When it was busy is the run's own to say, and a request's reward is not.
bool IsOfRuntime(const Quantity& quantity) {
  switch (quantity.unit) {
    case Unit::kMs:
    case Unit::kTokensPerSecond:
    case Unit::kMegabytes:
      return true;
    default:
      return quantity.families.contains(Family::kRuntime);
  }
}

}  // namespace

bool WasPlacedByInfer(const PlanWindow& window) {
  return window.window.kind != Window::Kind::kRequest && IsOfInfersRun(window.metric) &&
         !IsOfRuntime(*window.metric.quantity);
}

Placement PlacementOf(const PlanWindow& window) {
  const Metric& metric = window.metric;
  if (IsOfInfersRun(metric) && (window.by_infer || IsOfRuntime(*metric.quantity))) {
    return Placement::kInfer;
  }
  const bool of_trains_run = metric.quantity->sided &&
                             metric.quantity->evidence == EvidenceNeeded::kRequestFields &&
                             metric.side == Side::kTrain;
  return window.trusts_infer && !of_trains_run ? Placement::kTrainElseInfer : Placement::kTrain;
}

double TestMean(const PlanTest& test) {
  const int ppm = PercentilePpm(test.metric.aggregate);
  const bool at_most = test.bound == BoundKind::kAtMost;
  if (ppm >= 0) return (at_most ? 1000000 - ppm : ppm) / 1e6;
  const double scaled = (test.threshold - test.range_min) / (test.range_max - test.range_min);
  return at_most ? scaled : 1 - scaled;
}

namespace {

// The values' range, as the catalog or the contract's assumptions bound it.
Interval RangeOf(const Metric& metric, const Assumptions& assumptions) {
  const Quantity& quantity = *metric.quantity;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (PercentilePpm(metric.aggregate) >= 0) return {0, 0};  // counts need no range
  if (metric.aggregate == Aggregate::kRate) return {0, 1};
  switch (quantity.bounded_by) {
    case BoundedBy::kOwnRange:
      break;
    case BoundedBy::kRewardMax: {
      const double most = assumptions.reward_max.value_or(kInf);
      if (assumptions.reward_binary) return {IsGap(metric) ? -most : 0, most};
      return {IsGap(metric) ? -2 * most : -most, IsGap(metric) ? 2 * most : most};
    }
    case BoundedBy::kTokensMax:
      if (!assumptions.tokens_max) break;
      return {0, static_cast<double>(*assumptions.tokens_max)};
  }
  // The row bounds the size of a gap; its sign is tested too.
  return {IsGap(metric) ? -quantity.max : quantity.min, quantity.max};
}

// Whether a test over requests is what decides about traffic; else counts do, or nothing.
bool DecidedByBets(const Metric& metric) {
  switch (metric.quantity->form) {
    case TestForm::kByAggregate:
      return metric.quantity->observation == Observation::kToken ||
             metric.aggregate == Aggregate::kMean;
    case TestForm::kTokenShare:
    case TestForm::kMeanGap:
      return true;
    case TestForm::kRequestShare:
    case TestForm::kFlagGap:
    case TestForm::kLargest:
    case TestForm::kReplayShare:
    case TestForm::kNone:
      break;
  }
  return false;
}

// One test per cap, above the smallest value by a multiple of what the threshold is.
std::vector<PlanTest> TruncatedTests(PlanTest test) {
  std::vector<PlanTest> tests;
  const double height = test.threshold - test.range_min;
  if (!(height > 0)) return {};
  test.truncated = true;
  for (const double cap : TruncationCaps(height)) {
    test.range_max = test.range_min + cap;
    if (!std::isfinite(test.range_max) || !MakeBettingPlan(TestMean(test))) return {};
    tests.push_back(test);
  }
  return tests;
}

}  // namespace

std::vector<PlanTest> TestsOf(const Clause& clause, const Assumptions& assumptions) {
  const Metric& metric = clause.metric;
  const Quantity& quantity = *metric.quantity;
  const bool of_tokens = quantity.observation == Observation::kToken;
  if (!DecidedByBets(metric) || (of_tokens && !assumptions.tokens_max)) return {};
  const Interval range = RangeOf(metric, assumptions);
  PlanTest test{metric, clause.bound, clause.threshold + 0.0, false,        1, range.lo, range.hi,
                false,  false,        BetGrid::kFine,         clause.slices};
  test.two_valued = assumptions.reward_binary && std::isfinite(range.hi) &&
                    quantity.bounded_by == BoundedBy::kRewardMax;
  if (of_tokens) test.tokens_max = static_cast<double>(*assumptions.tokens_max);
  if (!std::isfinite(range.lo)) return {};
  if (!std::isfinite(range.hi)) return TruncatedTests(std::move(test));
  // Near 0 and 1 there is nothing to bet on: one exceedance is a proof, or the clause is vacuous.
  if (!MakeBettingPlan(TestMean(test))) return {};
  if (!IsGap(metric)) return {test};
  PlanTest other = test;
  other.negative = true;
  return {test, other};
}

Plan::Plan(Breadth breadth) : thresholds_(SeriesCount()), breadth_(breadth) {
  if (breadth == Breadth::kClauses) return;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (!SlotQuantity(slot).on_demand) slots_.set(slot);
  }
}

// What its clauses ask for, once each.
std::vector<OwnSeries> Plan::OwnSeriesOf(const Contract& contract) {
  std::vector<OwnSeries> own;
  for (const Clause& clause : contract.clauses) {
    const Metric& metric = clause.metric;
    if (metric.quantity->own == nullptr) continue;
    std::string name = MetricName({metric.quantity, Aggregate::kNone, metric.side});
    const bool known =
        std::any_of(own.begin(), own.end(), [&](const OwnSeries& row) { return row.name == name; });
    if (!known) own.push_back({metric.quantity, metric.side, std::move(name)});
  }
  return own;
}

Plan Plan::Default() {
  Plan plan;
  plan.AddSlice({"all", "", false});
  return plan;
}

void Plan::AddSlicesOf(const Contract& contract) {
  for (const Slice& slice : contract.slices) {
    PlanSlice row{slice.name, slice.where ? slice.where->Canonical() : "",
                  slice.where && slice.where->reads_token()};
    const bool twin = ReadsOutcome(slice);
    AddSlice(row);
    if (!twin) continue;
    row.name = OutcomeTwin(row.name);
    row.outcomes = Side::kTrain;
    AddSlice(std::move(row));
  }
}

Plan Plan::FromContract(const Contract& contract, Breadth breadth) {
  Plan plan(breadth);
  plan.SetOwn(OwnSeriesOf(contract));
  plan.AddSlicesOf(contract);
  if (contract.FindSlice("all") == nullptr) plan.AddSlice({"all", "", false});
  for (const Clause& clause : contract.clauses) plan.AddClause(clause, contract);
  plan.Canonicalise();
  return plan;
}

void Plan::AddSlice(PlanSlice slice) { slices_.push_back(std::move(slice)); }

void Plan::AddTwins(std::vector<std::string>* slices) const {
  for (size_t i = 0, count = slices->size(); i < count; ++i) {
    std::string twin = OutcomeTwin((*slices)[i]);
    if (FindSlice(twin) >= 0) slices->push_back(std::move(twin));
  }
}

void Plan::AddThreshold(size_t series, double threshold) {
  thresholds_[series].push_back(threshold + 0.0);  // -0 and 0 are one threshold
}

void Plan::AddClause(const Clause& clause, const Contract& contract) {
  const Quantity& quantity = *clause.metric.quantity;
  const bool own = quantity.own != nullptr;
  if (quantity.level == QuantityLevel::kToken && !own) {
    slots_.set(TokenSlot(quantity, clause.metric.side));
  }
  if (quantity.level != QuantityLevel::kToken && !own && !OfWholeRequests(quantity)) {
    AddSourceSlots(quantity, clause.metric.side);
  }
  if (quantity.level == QuantityLevel::kRequest && quantity.on_demand && !own) {
    requests_on_demand_.push_back(SeriesOf(quantity, clause.metric.side));
  }
  if (CountsBeyondThreshold(clause.metric.aggregate)) {
    AddThreshold(SeriesOf(quantity, clause.metric.side), clause.threshold);
  }
  if (!clause.fields.empty()) AddFieldSet(clause.fields);
  if (quantity.counts == RequestCounts::kConformance) events_ = true;
  if (IsReplayGap(quantity)) {
    AddSourceSlots(quantity, Side::kInfer);
    repeats_ = contract.Trusts("replica") ? Repeats::kByReplica : Repeats::kByGroup;
  }
  if (clause.hard()) {
    for (PlanTest& test : TestsOf(clause, contract.assumptions)) {
      AddTwins(&test.slices);
      AddTest(std::move(test));
    }
  } else {
    const bool by_time = clause.window.kind == Window::Kind::kTime;
    AddWindow(clause, clause.window.kind != Window::Kind::kRequest &&
                          contract.Trusts(by_time ? "started_at_ms" : "ordinal"));
  }
}

// What the quantities of requests and populations are made of. Calibration reads several quantities
// of a token and names none, so it gets all that are not on demand.
void Plan::AddSourceSlots(const Quantity& quantity, Side side) {
  const Quantity& source = SourceOf(quantity);
  if (source.level == QuantityLevel::kToken) {
    slots_.set(TokenSlot(source, side));
    return;
  }
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (!SlotQuantity(slot).on_demand) slots_.set(slot);
  }
}

void Plan::AddFieldSet(std::vector<std::string> fields) {
  SortDistinct(&fields);
  field_sets_.push_back(std::move(fields));
}

void Plan::AddWindow(const Clause& clause, bool trusts_infer) {
  PlanWindow window{clause.metric, clause.window, clause.fields, {clause.threshold + 0.0},
                    clause.slices, trusts_infer};
  AddTwins(&window.slices);
  SortDistinct(&window.fields);
  const auto same = std::find_if(windows_.begin(), windows_.end(), [&](const PlanWindow& row) {
    return WindowKey(row) == WindowKey(window);
  });
  if (same == windows_.end()) {
    windows_.push_back(std::move(window));
    return;
  }
  same->thresholds.push_back(window.thresholds[0]);
  same->slices.insert(same->slices.end(), window.slices.begin(), window.slices.end());
}

void Plan::AddTest(PlanTest test) {
  const int same = FindTest(test);
  if (same < 0) {
    tests_.push_back(std::move(test));
    return;
  }
  std::vector<std::string>& slices = tests_[static_cast<size_t>(same)].slices;
  slices.insert(slices.end(), test.slices.begin(), test.slices.end());
}

void Plan::Canonicalise() {
  std::sort(slices_.begin(), slices_.end(),
            [](const PlanSlice& a, const PlanSlice& b) { return a.name < b.name; });
  for (std::vector<double>& thresholds : thresholds_) SortDistinct(&thresholds);
  SortDistinct(&field_sets_);
  SortDistinct(&requests_on_demand_);
  for (PlanWindow& window : windows_) {
    SortDistinct(&window.thresholds);
    SortDistinct(&window.slices);
  }
  std::sort(windows_.begin(), windows_.end(),
            [](const PlanWindow& a, const PlanWindow& b) { return WindowKey(a) < WindowKey(b); });
  for (PlanTest& test : tests_) SortDistinct(&test.slices);
  std::sort(tests_.begin(), tests_.end(), TestComesBefore);
}

bool Plan::Keeps(size_t series) const {
  if (series >= SeriesCount()) return true;  // it has no own series but those it keeps
  const Quantity& quantity = SeriesQuantity(series);
  if (!quantity.on_demand || quantity.always_named) return true;
  if (IsTokenSeries(series)) return slots_[TokenSlot(quantity, SeriesSide(series))];
  return std::binary_search(requests_on_demand_.begin(), requests_on_demand_.end(), series);
}

std::optional<size_t> Plan::FindSlice(const Slice& slice, Side outcomes) const {
  const std::string where = slice.where ? slice.where->Canonical() : std::string();
  const std::string name = outcomes == Side::kInfer ? slice.name : OutcomeTwin(slice.name);
  std::optional<size_t> found;
  for (size_t i = 0; i < slices_.size(); ++i) {
    if (slices_[i].where != where || slices_[i].outcomes != outcomes) continue;
    if (slices_[i].name == name) return i;
    if (!found) found = i;
  }
  return found;
}

int Plan::FindSlice(std::string_view name) const {
  const auto found = std::find_if(slices_.begin(), slices_.end(),
                                  [&](const PlanSlice& slice) { return slice.name == name; });
  return found == slices_.end() ? -1 : static_cast<int>(found - slices_.begin());
}

int Plan::FindThreshold(size_t series, double threshold) const {
  const std::vector<double>& all = thresholds_[series];
  const auto found = std::lower_bound(all.begin(), all.end(), threshold);
  return found == all.end() || *found != threshold ? -1 : static_cast<int>(found - all.begin());
}

int Plan::FindWindow(const Metric& metric, const Window& window,
                     const std::vector<std::string>& sorted_fields) const {
  for (size_t i = 0; i < windows_.size(); ++i) {
    const PlanWindow& row = windows_[i];
    if (row.metric == metric && row.window == window && row.fields == sorted_fields) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int Plan::FindTest(const PlanTest& test) const {
  for (size_t i = 0; i < tests_.size(); ++i) {
    if (tests_[i].metric == test.metric && TestKey(tests_[i]) == TestKey(test))
      return static_cast<int>(i);
  }
  return -1;
}

int Plan::FindFieldSet(const std::vector<std::string>& sorted_fields) const {
  const auto found = std::find(field_sets_.begin(), field_sets_.end(), sorted_fields);
  return found == field_sets_.end() ? -1 : static_cast<int>(found - field_sets_.begin());
}

Result<> Plan::Covers(const Plan& other) const {
  const auto lacks = [](const std::string& what) {
    return InvalidError("the summary was measured without " + what +
                        "; measure again with this contract");
  };
  for (const PlanSlice& slice : other.slices_) {
    const int at = FindSlice(slice.name);
    if (at < 0) return lacks("slice '" + slice.name + "'");
    if (slices_[static_cast<size_t>(at)] != slice) {
      return lacks("slice '" + slice.name + "' as " +
                   (slice.where.empty() ? "everything" : "\"" + slice.where + "\""));
    }
  }
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (other.slots_[slot] && !slots_[slot]) return lacks("the quantity " + SlotName(slot));
  }
  for (const size_t series : other.requests_on_demand_) {
    if (!Keeps(series)) return lacks("the quantity " + SeriesName(series));
  }
  for (const OwnSeries& row : other.own_) {
    if (FindSeries(*row.quantity, row.side)) continue;
    return lacks("the metric " + row.name +
                 (FindSeries(row.name) ? " as the contract defines it" : ""));
  }
  for (size_t theirs = 0; theirs < other.series_count(); ++theirs) {
    if (other.thresholds_[theirs].empty()) continue;
    const size_t series = SeriesOf(other.quantity(theirs), other.side(theirs));
    for (const double threshold : other.thresholds_[theirs]) {
      if (FindThreshold(series, threshold) < 0) {
        return lacks("threshold " + ShortestNumber(threshold) + " of " + other.name(theirs));
      }
    }
  }
  for (const PlanWindow& wanted : other.windows_) {
    const std::string name = MetricName(wanted.metric) + " by window " + WindowText(wanted.window);
    const int at = FindWindow(wanted.metric, wanted.window, wanted.fields);
    if (at < 0) return lacks(name);
    const PlanWindow& row = windows_[static_cast<size_t>(at)];
    if (PlacementOf(row) != PlacementOf(wanted)) return lacks(name + " placed by the same side");
    if (!Includes(row.thresholds, wanted.thresholds)) return lacks("the thresholds of " + name);
    if (!Includes(row.slices, wanted.slices)) return lacks(name + " on every slice named");
  }
  for (const PlanTest& wanted : other.tests_) {
    const int at = FindTest(wanted);
    if (at < 0 || !Includes(tests_[static_cast<size_t>(at)].slices, wanted.slices)) {
      return lacks("the test over requests of " + MetricName(wanted.metric));
    }
  }
  if (other.repeats_ != Repeats::kNone && repeats_ != other.repeats_) {
    return lacks("repeats of requests, told apart as the contract says");
  }
  if (other.events_ && !events_) return lacks("which records keep to the published schema");
  if (!Includes(field_sets_, other.field_sets_)) return lacks("a field set of its coverage clause");
  return {};
}

std::string Plan::Digest() const { return Sha256Of(CanonicalJson()); }

}  // namespace kcc
