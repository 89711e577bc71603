#include "kcc/register/redaction.h"

#include "kcc/base/sha256.h"

namespace kcc {
namespace {

WorstList RedactedList(const WorstList& worst, const Quantity& quantity, StoreRequests store) {
  WorstList kept;
  if (store == StoreRequests::kNone) return kept;
  // Offered again: the order of equal values is that of what stands for the ids.
  for (const WorstValue& row : worst.values()) {
    kept.Offer(quantity, row.value, Sha256Of(row.request), row.position, -1);
  }
  return kept;
}

void RedactPopulation(PopulationStats* population) {
  for (SidePopulation& side : population->sides) {
    for (auto& [hash, group] : side.replay) {
      if (!group.first_request.empty()) group.first_request = Sha256Of(group.first_request);
    }
  }
}

void RedactSlice(const Plan& plan, StoreRequests store, SliceStats* slice) {
  for (size_t i = 0; i < slice->series.size(); ++i) {
    WorstList& worst = slice->series[i].worst;
    if (!worst.values().empty()) worst = RedactedList(worst, plan.quantity(i), store);
  }
  RedactPopulation(&slice->population);
  for (size_t i = 0; i < slice->windows.size(); ++i) {
    const Quantity& quantity = *plan.windows()[i].metric.quantity;
    for (auto& [index, state] : slice->windows[i].open) {
      state.series.worst = RedactedList(state.series.worst, quantity, store);
      for (PopulationWindow& window : state.population) RedactPopulation(&window.population);
    }
  }
}

}  // namespace

Summary Redacted(Summary summary, const RequestStorage& storage) {
  if (storage.store == StoreRequests::kFull) return summary;
  for (SliceStats& slice : summary.slices) RedactSlice(summary.plan, storage.store, &slice);
  return summary;
}

ReportData Redacted(ReportData report, const RequestStorage& storage) {
  if (storage.store == StoreRequests::kFull && storage.text) return report;
  report.worst_kept = Name(storage.store);
  if (storage.store == StoreRequests::kNone) report.worst.clear();
  for (WorstToken& row : report.worst) {
    row.context.reset();  // it may be of the request's own text
    if (storage.store == StoreRequests::kFull) continue;
    row.request = Sha256Of(row.request);
    row.token = -1;
    row.tags.clear();
  }
  return report;
}

}  // namespace kcc
