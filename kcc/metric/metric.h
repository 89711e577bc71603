// The metric grammar: metric = aggregate "_" ["train_"] quantity; a population quantity takes no
// aggregate, and for a few quantities (bare_mean of the catalog) none means the mean; a rate may
// have another name (rate_name). So every quantity brings all its metrics with it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/metric/catalog.h"
#include "kcc/metric/own_metric.h"

namespace kcc {

enum class Aggregate : uint8_t {
  kNone,
  kMean,
  kP001,
  kP01,
  kP05,
  kP10,
  kP50,
  kP90,
  kP95,
  kP99,
  kP999,
  kMax,
  kMin,
  kRate,
};

enum class Side : uint8_t { kInfer, kTrain };

struct Metric {
  const Quantity* quantity = nullptr;
  Aggregate aggregate = Aggregate::kNone;
  Side side = Side::kInfer;  // kTrain only for sided quantities

  bool operator==(const Metric&) const = default;
};

// "p99_train_latency_ms". One metric has one name, whatever spelling was parsed: the mean of an
// overlap is "mean_top5_overlap".
std::string MetricName(const Metric& metric);

// Every name that ParseMetric takes, in the order of the catalog, then of `own`.
std::vector<std::string> MetricNames(OwnRows own = {});

// A metric of a quantity of the catalog or of `own`. The error says what is wrong with the name and
// suggests the nearest one that exists.
Result<Metric> ParseMetric(std::string_view name, OwnRows own = {});

std::string_view AggregateName(Aggregate aggregate);  // "p99"; "" for kNone
std::span<const Aggregate> Aggregates();              // all but kNone, in display order

// Percentile in parts per million (p99 = 990,000); kMax is 1,000,000 and kMin 0. -1 for the rest.
int PercentilePpm(Aggregate aggregate);

// The smallest and largest value the metric can take (a rate lies in [0, 1] whatever it counts).
double MetricMin(const Metric& metric);
double MetricMax(const Metric& metric);

// Which bounds make sense for the metric: as its quantity, but a rate of non-zero values of a
// signed quantity is bad only when high.
Direction MetricDirection(const Metric& metric);

}  // namespace kcc
