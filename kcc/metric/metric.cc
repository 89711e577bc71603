#include "kcc/metric/metric.h"

#include <algorithm>
#include <vector>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

struct AggregateRow {
  Aggregate aggregate;
  std::string_view name;
  int ppm;
};

constexpr std::array kAggregateRows = {
    AggregateRow{Aggregate::kMean, "mean", -1},    AggregateRow{Aggregate::kP001, "p001", 1000},
    AggregateRow{Aggregate::kP01, "p01", 10000},   AggregateRow{Aggregate::kP05, "p05", 50000},
    AggregateRow{Aggregate::kP10, "p10", 100000},  AggregateRow{Aggregate::kP50, "p50", 500000},
    AggregateRow{Aggregate::kP90, "p90", 900000},  AggregateRow{Aggregate::kP95, "p95", 950000},
    AggregateRow{Aggregate::kP99, "p99", 990000},  AggregateRow{Aggregate::kP999, "p999", 999000},
    AggregateRow{Aggregate::kMax, "max", 1000000}, AggregateRow{Aggregate::kMin, "min", 0},
    AggregateRow{Aggregate::kRate, "rate", -1},
};

constexpr std::string_view kTrainPrefix = "train_";

const AggregateRow* FindRow(Aggregate aggregate) {
  const auto* found =
      std::find_if(kAggregateRows.begin(), kAggregateRows.end(),
                   [&](const AggregateRow& row) { return row.aggregate == aggregate; });
  return found == kAggregateRows.end() ? nullptr : found;
}

Error UnknownMetric(std::string_view name, OwnRows own) {
  const std::vector<std::string> names = MetricNames(own);
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::string message = "unknown metric '" + std::string(name) + "'";
  if (const auto nearest = NearestWord(name, views)) {
    return InvalidError(message + "; did you mean '" + std::string(*nearest) + "'?");
  }
  return InvalidError(message + "; `kcc metrics` lists every quantity");
}

}  // namespace

std::string MetricName(const Metric& metric) {
  std::string name;
  if (metric.aggregate != Aggregate::kNone) {
    name.append(AggregateName(metric.aggregate)).append("_");
  }
  if (metric.side == Side::kTrain) name += kTrainPrefix;
  return name.append(metric.quantity->id);
}

namespace {

void AddNames(const Quantity& quantity, std::vector<std::string>* names) {
  const bool population = quantity.level == QuantityLevel::kPopulation;
  for (const Side side : {Side::kInfer, Side::kTrain}) {
    if (side == Side::kTrain && !quantity.sided) continue;
    if (population || quantity.bare_mean) {
      names->push_back(MetricName({&quantity, Aggregate::kNone, side}));
    }
    if (population) continue;
    for (const AggregateRow& row : kAggregateRows) {
      names->push_back(MetricName({&quantity, row.aggregate, side}));
    }
  }
  if (!quantity.rate_name.empty()) names->emplace_back(quantity.rate_name);
}

}  // namespace

std::vector<std::string> MetricNames(OwnRows own) {
  std::vector<std::string> names;
  for (const Quantity& quantity : Catalog()) AddNames(quantity, &names);
  for (const Quantity* quantity : own) AddNames(*quantity, &names);
  return names;
}

Result<Metric> ParseMetric(std::string_view name, OwnRows own) {
  for (const Quantity& quantity : Catalog()) {
    if (!name.empty() && quantity.rate_name == name) return Metric{&quantity, Aggregate::kRate};
  }
  Metric metric;
  std::string_view rest = name;
  const auto find = [&](std::string_view id) {
    const Quantity* found = FindQuantity(id);
    return found != nullptr ? found : FindOwn(own, id);
  };
  // A quantity of its own name wins over a reading as aggregate + quantity.
  const auto read_quantity = [&](std::string_view text) {
    metric.side = Side::kInfer;
    metric.quantity = find(text);
    if (metric.quantity == nullptr && text.starts_with(kTrainPrefix)) {
      metric.side = Side::kTrain;
      metric.quantity = find(text.substr(kTrainPrefix.size()));
    }
    return metric.quantity != nullptr;
  };
  if (!read_quantity(rest)) {
    const size_t underscore = rest.find('_');
    if (underscore == std::string_view::npos) return UnknownMetric(name, own);
    const auto* row = std::find_if(kAggregateRows.begin(), kAggregateRows.end(),
                                   [&](const AggregateRow& candidate) {
                                     return candidate.name == rest.substr(0, underscore);
                                   });
    if (row == kAggregateRows.end() || !read_quantity(rest.substr(underscore + 1))) {
      return UnknownMetric(name, own);
    }
    metric.aggregate = row->aggregate;
  }

  const std::string id(metric.quantity->id);
  if (metric.side == Side::kTrain && !metric.quantity->sided) {
    return InvalidError("'" + id + "' compares both sides, so it has no train_ form; write '" +
                        MetricName({metric.quantity, metric.aggregate, Side::kInfer}) + "'");
  }
  const bool population = metric.quantity->level == QuantityLevel::kPopulation;
  if (population && metric.aggregate != Aggregate::kNone) {
    return InvalidError("'" + id + "' is one number per slice and takes no aggregate; write '" +
                        MetricName({metric.quantity, Aggregate::kNone, metric.side}) + "'");
  }
  if (!population && metric.aggregate == Aggregate::kNone) {
    if (metric.quantity->bare_mean) {
      metric.aggregate = Aggregate::kMean;
      return metric;
    }
    return InvalidError("'" + id + "' is a quantity per " +
                        std::string(Name(metric.quantity->level)) +
                        "; put an aggregate before it, such as 'mean_" + std::string(name) + "'");
  }
  return metric;
}

std::string_view AggregateName(Aggregate aggregate) {
  const AggregateRow* row = FindRow(aggregate);
  return row == nullptr ? std::string_view() : row->name;
}

std::span<const Aggregate> Aggregates() {
  static constexpr auto kAll = [] {
    std::array<Aggregate, kAggregateRows.size()> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = kAggregateRows[i].aggregate;
    return all;
  }();
  return kAll;
}

int PercentilePpm(Aggregate aggregate) {
  const AggregateRow* row = FindRow(aggregate);
  return row == nullptr ? -1 : row->ppm;
}

double MetricMin(const Metric& metric) {
  return metric.aggregate == Aggregate::kRate ? 0.0 : metric.quantity->min;
}

double MetricMax(const Metric& metric) {
  return metric.aggregate == Aggregate::kRate ? 1.0 : metric.quantity->max;
}

Direction MetricDirection(const Metric& metric) {
  if (metric.aggregate == Aggregate::kRate && metric.quantity->direction == Direction::kSigned) {
    return Direction::kLowerIsBetter;
  }
  return metric.quantity->direction;
}

}  // namespace kcc
