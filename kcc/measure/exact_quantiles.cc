#include "kcc/measure/exact_quantiles.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/measure/trace_source.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/plan_slices.h"
#include "kcc/summary/request_group.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

constexpr size_t kValuesMax = size_t{1} << 22;  // of a column: 32 MiB

}  // namespace

std::vector<WantedQuantile> QuantilesOf(const Contract& contract, const Plan& plan) {
  std::vector<WantedQuantile> wanted;
  for (const Clause& clause : contract.clauses) {
    const Quantity& quantity = *clause.metric.quantity;
    const int ppm = PercentilePpm(clause.metric.aggregate);
    const bool extreme =
        clause.metric.aggregate == Aggregate::kMin || clause.metric.aggregate == Aggregate::kMax;
    if (!clause.hard() || ppm < 0 || extreme || quantity.level == QuantityLevel::kPopulation ||
        (quantity.level == QuantityLevel::kRequest && !OfWholeRequests(quantity))) {
      continue;
    }
    // The plan may be of a summary that was measured with another contract.
    const std::optional<size_t> series = plan.FindSeries(quantity, clause.metric.side);
    if (!series) continue;
    for (const std::string& name : clause.slices) {
      for (const std::string& slice : {name, OutcomeTwin(name)}) {
        const int at = plan.FindSlice(slice);
        if (at < 0) continue;
        wanted.push_back({*series, static_cast<size_t>(at), ppm});
      }
    }
  }
  return wanted;
}

QuantileCollector::QuantileCollector(std::span<const WantedQuantile> wanted, const Plan& plan)
    : wanted_(wanted), plan_(&plan) {
  for (const WantedQuantile& one : wanted) {
    const bool known = std::any_of(columns_.begin(), columns_.end(), [&](const Column& column) {
      return column.series == one.series && column.slice == one.slice;
    });
    if (!known) columns_.push_back({one.series, one.slice, true, {}});
  }
}

void QuantileCollector::Add(double value, Column* column) const {
  if (column->values.size() == kValuesMax) {
    column->whole = false;
    column->values = {};
  }
  if (column->whole) column->values.push_back(value);
}

void QuantileCollector::AddRequest(const RequestPair& request, const SliceBits& bits) {
  for (Column& column : columns_) {
    if (plan_->IsToken(column.series) || !bits.Test(column.slice)) continue;
    const FieldQuantity recorded =
        RecordedQuantity(plan_->quantity(column.series), request, plan_->side(column.series));
    if (recorded.value) Add(*recorded.value, &column);
  }
}

void QuantileCollector::AddToken(const MeasuredToken& token) {
  const TokenDrift& drift = token.reading.drift;
  for (Column& column : columns_) {
    const size_t slot = column.series;
    if (!column.whole || !plan_->IsToken(slot) || !token.bits.Test(column.slice)) continue;
    if (slot >= SeriesCount()) {
      const double own = token.own[slot - SeriesCount()];
      if (!std::isnan(own)) Add(own, &column);
      continue;
    }
    if (!drift.known[slot]) continue;
    if (drift.lo[slot] == drift.hi[slot]) {
      Add(drift.lo[slot], &column);
    } else {
      column.whole = false;
    }
  }
}

void QuantileCollector::Merge(QuantileCollector&& other) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    Column& into = columns_[i];
    const Column& from = other.columns_[i];
    into.whole = into.whole && from.whole && into.values.size() + from.values.size() <= kValuesMax;
    if (into.whole) {
      into.values.insert(into.values.end(), from.values.begin(), from.values.end());
    } else {
      into.values = {};
    }
  }
}

void QuantileCollector::Finish(Summary* summary) {
  for (const WantedQuantile& one : wanted_) {
    Column& column = *std::find_if(columns_.begin(), columns_.end(), [&](const Column& candidate) {
      return candidate.series == one.series && candidate.slice == one.slice;
    });
    // What was counted and what was kept must be the same values.
    const SeriesView view(*summary, one.slice, one.series);
    if (!column.whole || column.values.empty() || column.values.size() != view.count()) continue;
    const auto rank =
        column.values.begin() +
        static_cast<std::ptrdiff_t>(QuantileRank(column.values.size(), one.percentile_ppm) - 1);
    std::nth_element(column.values.begin(), rank, column.values.end());
    summary->exact_quantiles[{one.slice, one.series, one.percentile_ppm}] = *rank;
  }
}

namespace {

class QuantileVisitor final : public PairVisitor {
 public:
  QuantileVisitor(std::span<const WantedQuantile> wanted, const Plan& plan)
      : collector_(wanted, plan) {}
  Result<> BeginRequest(size_t, const RequestPair& request, const SliceBits& bits) override {
    collector_.AddRequest(request, bits);
    return {};
  }
  Result<> Add(const MeasuredToken& token) override {
    collector_.AddToken(token);
    return {};
  }
  QuantileCollector& collector() { return collector_; }

 private:
  QuantileCollector collector_;
};

}  // namespace

Result<> AddExactQuantiles(const PairedTraces& pair, const Contract& contract, int threads,
                           Summary* summary) {
  const std::vector<WantedQuantile> wanted = QuantilesOf(contract, summary->plan);
  if (wanted.empty()) return {};
  // Values that a device measured are not those that are read here.
  for (const Source& source : summary->sources) {
    if (!source.backend.empty()) return {};
  }
  WalkOptions walk;
  for (const WantedQuantile& one : wanted) {
    if (one.series < TokenSlotCount()) walk.wanted.set(one.series);
  }
  walk.own = summary->plan.own_token_series();
  KCC_TRY(const SliceEvaluator slices, MakeSliceEvaluator(summary->plan));
  const auto count = static_cast<size_t>(std::max(1, threads));
  std::vector<QuantileVisitor> parts(count, QuantileVisitor(wanted, summary->plan));
  std::vector<PairVisitor*> visitors;
  visitors.reserve(count);
  for (QuantileVisitor& part : parts) visitors.push_back(&part);
  const std::vector<int32_t> order = pair.Order();
  KCC_TRY_VOID(WalkPairs(TraceSource(pair), order, slices, walk, visitors));
  for (size_t t = 1; t < count; ++t) {
    parts[0].collector().Merge(std::move(parts[t].collector()));
  }
  parts[0].collector().Finish(summary);
  return {};
}

}  // namespace kcc
