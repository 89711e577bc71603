#include "kcc/report/from_summary.h"

#include <cmath>
#include <set>
#include <utility>

#include "kcc/bounds/implied.h"
#include "kcc/contract/canonical.h"
#include "kcc/report/shown.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

using End = SeriesView::End;
constexpr size_t kHistogramBucketsMax = 60;

// (series, slice) pairs that a clause is about.
std::set<std::pair<size_t, size_t>> NamedByClauses(const Contract& contract,
                                                   const Summary& summary) {
  std::set<std::pair<size_t, size_t>> named;
  for (const Clause& clause : contract.clauses) {
    if (clause.metric.quantity->level == QuantityLevel::kPopulation) continue;
    const std::optional<size_t> series =
        summary.plan.FindSeries(*clause.metric.quantity, clause.metric.side);
    if (!series) continue;  // a metric of the user's own that the summary lacks
    for (const std::string& slice : clause.slices) {
      const int index = summary.plan.FindSlice(slice);
      if (index >= 0) named.emplace(*series, static_cast<size_t>(index));
    }
  }
  return named;
}

// The user's own metrics that the report names: the contract's, and of those that the summary alone
// has the ones without a namesake there.
std::vector<OwnLabel> OwnLabelsOf(const Contract& contract, const Plan& shown) {
  std::vector<const Quantity*> rows = contract.own_rows();
  for (const Quantity* row : shown.own_rows()) {
    if (FindOwn(rows, row->id) == nullptr) rows.push_back(row);
  }
  std::vector<OwnLabel> labels;
  labels.reserve(rows.size());
  for (const Quantity* row : rows) labels.push_back(LabelOf(*row));
  return labels;
}

// The slices that a judged clause names, in the contract's order.
std::vector<ReportSlice> NamedSlices(const Contract& contract, const Judgement& judgement) {
  std::set<std::string_view> named;
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) named.insert(slice.slice);
  }
  std::vector<ReportSlice> slices;
  for (const Slice& slice : contract.slices) {
    if (!named.contains(slice.name)) continue;
    slices.push_back({slice.name, slice.where ? slice.where->Canonical() : ""});
  }
  return slices;
}

std::vector<ClauseReason> ReasonsOf(const Contract& contract, const Judgement& judgement) {
  std::vector<ClauseReason> reasons;
  for (const ClauseVerdict& verdict : judgement.clauses) {
    const Clause* clause = contract.FindClause(verdict.id);
    if (clause != nullptr && !clause->why.empty()) reasons.push_back({clause->id, clause->why});
  }
  return reasons;
}

// Percentiles are shown at the safe end of their bucket: the upper edge where lower is better.
QuantityStatistics StatisticsOf(const SeriesView& view, const Quantity& quantity) {
  const bool higher = quantity.direction == Direction::kHigherIsBetter;
  const End end = higher ? End::kLow : End::kHigh;
  const auto percentile = [&](int ppm) {
    const Interval bucket = view.Quantile(end, ppm);
    return higher ? bucket.lo : bucket.hi;
  };
  QuantityStatistics statistics;
  statistics.count = static_cast<int64_t>(view.count());
  statistics.mean = view.Mean(end);
  statistics.min = view.Min(end);
  statistics.max = view.Max(end);
  statistics.p50 = percentile(500000);
  statistics.p90 = percentile(900000);
  statistics.p95 = percentile(950000);
  statistics.p99 = percentile(990000);
  statistics.p999 = percentile(999000);
  return statistics;
}

ReportHistogram HistogramOf(const SeriesView& view, std::string quantity, std::string slice) {
  ReportHistogram shown;
  shown.quantity = std::move(quantity);
  shown.slice = std::move(slice);
  const auto add = [&](double low, double high, int64_t count) {
    if (shown.edges.empty()) {
      shown.edges.push_back(low);
    } else if (shown.edges.back() < low) {
      shown.counts.push_back(0);  // the gap between two filled buckets
      shown.edges.push_back(low);
    }
    shown.counts.push_back(count);
    shown.edges.push_back(high);
  };
  for (const auto& [bucket, count] : view.stream(End::kHigh).histogram.Entries()) {
    const double low = Histogram::LowerEdge(bucket);
    const double high = Histogram::UpperEdge(bucket);
    if (!std::isfinite(low) || !std::isfinite(high)) {
      shown.infinite += static_cast<int64_t>(count);
      continue;
    }
    // The bucket's largest double is in it, so its open end is the next one.
    add(low, std::nextafter(high, std::numeric_limits<double>::infinity()),
        static_cast<int64_t>(count));
  }
  return Coarsen(std::move(shown), kHistogramBucketsMax);
}

DisagreementCurve CurveOf(const Summary& summary, size_t slice) {
  static const size_t kMargin = *FindSeries("train_margin");
  const SliceStats& stats = summary.slices[slice];
  DisagreementCurve curve;
  curve.slice = summary.plan.slices()[slice].name;
  std::map<Histogram::Bucket, DisagreementPoint> by_bucket;
  for (const auto& [bucket, count] : stats.series[kMargin].point.histogram.Entries()) {
    by_bucket[bucket].tokens = static_cast<int64_t>(count);
  }
  for (const auto& [bucket, count] : stats.top1_disagreeing.Entries()) {
    by_bucket[bucket].top1 = static_cast<int64_t>(count);
  }
  for (const auto& [bucket, count] : stats.top5_disagreeing.Entries()) {
    by_bucket[bucket].top5 = static_cast<int64_t>(count);
  }
  // Cumulative; the curve is drawn through at most as many points as a histogram has buckets.
  const size_t stride = by_bucket.size() / kHistogramBucketsMax + 1;
  DisagreementPoint sum;
  size_t at = 0;
  for (const auto& [bucket, point] : by_bucket) {
    sum.margin = Histogram::UpperEdge(bucket);
    sum.tokens += point.tokens;
    sum.top1 += point.top1;
    sum.top5 += point.top5;
    ++at;
    if (at % stride == 0 || at == by_bucket.size()) curve.points.push_back(sum);
  }
  curve.tokens = sum.tokens;
  return curve;
}

KernelProvenance KernelOf(const SourceSide& side) {
  return {side.kernel_fingerprint, side.identity, side.model_digest};
}

Provenance ProvenanceOf(const Summary& summary, const Plan& shown, std::string_view version) {
  Provenance provenance;
  provenance.kcc = version;
  provenance.plan = shown.Digest();
  provenance.requests = static_cast<int64_t>(summary.requests.size());
  if (!summary.sources.empty()) {
    const Source& source = summary.sources.front();
    provenance.train = KernelOf(source.train);
    provenance.infer = KernelOf(source.infer);
    provenance.evidence = Name(source.evidence);
    provenance.backend = BackendsOf(summary);
  }
  return provenance;
}

void AddSeries(const Summary& summary, size_t series, const std::vector<size_t>& slices,
               const std::set<std::pair<size_t, size_t>>& named, ReportData* report) {
  const std::string& name = summary.plan.name(series);
  const Quantity& quantity = summary.plan.quantity(series);
  for (const size_t slice : slices) {
    const SeriesView view(summary, slice, series);
    if (view.count() == 0) continue;
    const std::string& slice_name = summary.plan.slices()[slice].name;
    report->quantities.push_back({name, slice_name, StatisticsOf(view, quantity)});
    if (!named.contains({series, slice})) continue;
    report->histograms.push_back(HistogramOf(view, name, slice_name));
    for (const WorstValue& worst : view.worst()) {
      report->worst.push_back({name,
                               slice_name,
                               worst.value,
                               worst.request,
                               worst.position,
                               worst.token,
                               std::nullopt,
                               {}});
    }
  }
}

// The slices whose details the report keeps; the number of the others goes into the report.
std::vector<size_t> SlicesInDetail(const Summary& summary, const Plan& shown, ReportData* report) {
  std::vector<std::string> names;
  std::vector<size_t> slices;
  for (size_t slice = 0; slice < summary.slices.size(); ++slice) {
    const PlanSlice& row = summary.plan.slices()[slice];
    if (row.outcomes == Side::kTrain) continue;  // not the contract's own
    if (shown.FindSlice(row.name) < 0) continue;
    names.push_back(summary.plan.slices()[slice].name);
    slices.push_back(slice);
  }
  const std::set<std::string> detailed = DetailedSlices(report->judgement, names);
  std::erase_if(
      slices, [&](size_t slice) { return !detailed.contains(summary.plan.slices()[slice].name); });
  report->slices_without_detail = static_cast<int64_t>(names.size() - slices.size());
  return slices;
}

bool IsShown(const Plan& shown, const Plan& measured, size_t series) {
  const std::optional<size_t> there =
      shown.FindSeries(measured.quantity(series), measured.side(series));
  return there && shown.Keeps(*there);
}

// Of the clauses that were judged.
std::vector<ImpliedBound> BoundsOf(const Contract& contract, const Judgement& judgement) {
  std::vector<ImpliedBound> bounds;
  for (const ClauseVerdict& verdict : judgement.clauses) {
    const Clause* clause = contract.FindClause(verdict.id);
    if (clause == nullptr) continue;
    for (Implication& row : ImplicationsOf(contract, *clause)) {
      bounds.push_back({clause->id, std::move(row.text), row.value, std::string(row.quantity),
                        row.vacuous, row.exceedance});
    }
  }
  return bounds;
}

}  // namespace

ReportData MakeReport(const Contract& contract, const std::string& file, std::string_view version,
                      const Summary& summary, const Judgement& judgement, const Plan* shown) {
  const Plan& plan = shown == nullptr ? summary.plan : *shown;
  ReportData report;
  report.contract = {contract.name, contract.version, ContractDigest(contract), file};
  report.judgement = judgement;
  report.slices = NamedSlices(contract, judgement);
  report.reasons = ReasonsOf(contract, judgement);
  report.provenance = ProvenanceOf(summary, plan, version);
  report.bounds = BoundsOf(contract, judgement);
  const auto named = NamedByClauses(contract, summary);
  const std::vector<size_t> slices = SlicesInDetail(summary, plan, &report);
  report.own = OwnLabelsOf(contract, plan);
  for (size_t series = 0; series < summary.plan.series_count(); ++series) {
    if (shown != nullptr && !IsShown(plan, summary.plan, series)) continue;
    AddSeries(summary, series, slices, named, &report);
  }
  for (const size_t slice : slices) {
    DisagreementCurve curve = CurveOf(summary, slice);
    if (curve.tokens > 0) report.curves.push_back(std::move(curve));
  }
  return report;
}

}  // namespace kcc
