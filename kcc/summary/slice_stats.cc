#include "kcc/summary/slice_stats.h"

#include <algorithm>

#include "kcc/summary/series.h"

namespace kcc {
namespace {
constexpr std::string_view kLent = "@train";
constexpr std::string_view kAbsent = "@absent";
}  // namespace

std::string LentOutcome(const std::string& field) { return field + std::string(kLent); }

std::optional<std::string> OutcomeLent(std::string_view key) {
  if (!key.ends_with(kLent)) return std::nullopt;
  return std::string(key.substr(0, key.size() - kLent.size()));
}

std::string AbsentField(const std::string& field) { return field + std::string(kAbsent); }

bool IsAbsentField(std::string_view key) { return key.ends_with(kAbsent); }

SliceStats::SliceStats(const Plan& plan, Kind kind)
    : series(kind == Kind::kWhole ? plan.series_count() : plan.token_series_end()),
      clusters(kind == Kind::kWhole ? plan.token_series_end() : 0),
      windows(plan.windows().size()),
      tests(plan.tests().size()) {}

void SliceStats::Merge(const Plan& plan, const SliceStats& other) {
  tokens += other.tokens;
  for (const auto& [field, count] : other.unvouched) unvouched[field] += count;
  for (size_t i = 0; i < series.size(); ++i) series[i].Merge(other.series[i], plan.quantity(i));
  for (size_t i = 0; i < clusters.size(); ++i) clusters[i].Merge(other.clusters[i]);
  calibration.Merge(other.calibration);
  top1_disagreeing.Merge(other.top1_disagreeing);
  top5_disagreeing.Merge(other.top5_disagreeing);
  population.Merge(other.population);
  for (size_t i = 0; i < windows.size(); ++i) windows[i].Merge(other.windows[i], plan.windows()[i]);
  for (size_t i = 0; i < tests.size(); ++i) tests[i].Merge(other.tests[i]);
}

void SliceStats::UnshareIndices() {
  for (SeriesStats& stats : series) {
    stats.point.histogram.Unshare();
    for (Moments& end : stats.ends) end.histogram.Unshare();
  }
}

void SliceStats::Visit(Archive& archive, const Plan& plan,
                       const std::vector<size_t>& series_on_file) {
  archive.U64(tokens);
  for (const size_t i : series_on_file) {
    bool present = !series[i].empty();
    archive.Bool(present);
    if (!present || !archive.ok()) continue;
    series[i].Visit(archive, plan.thresholds(i).size(), plan.quantity(i));
    if (plan.IsToken(i)) clusters[i].Visit(archive, plan.thresholds(i).size());
    if (archive.reading() && archive.ok() && series[i].empty()) archive.Fail("an empty series");
  }
  calibration.Visit(archive);
  top1_disagreeing.Visit(archive);
  top5_disagreeing.Visit(archive);
  population.Visit(archive, plan.field_sets().size(), plan.repeats() != Repeats::kNone,
                   plan.events());
  for (size_t i = 0; i < windows.size() && archive.ok(); ++i) {
    windows[i].Visit(archive, plan, plan.windows()[i]);
  }
  for (size_t i = 0; i < tests.size(); ++i) tests[i].Visit(archive, plan.tests()[i].grid);
  if (!archive.Since(2)) return;
  std::vector<std::pair<std::string, uint64_t>> fields(unvouched.begin(), unvouched.end());
  archive.Each(fields, [](Archive& a, std::pair<std::string, uint64_t>& row) {
    a.Text(row.first);
    a.U64(row.second);
  });
  if (!archive.reading()) return;
  unvouched = {fields.begin(), fields.end()};
  if (!std::is_sorted(fields.begin(), fields.end()) || unvouched.size() != fields.size()) {
    archive.Fail("fields that are not in order");
  }
}

}  // namespace kcc
