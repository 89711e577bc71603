#include "kcc/rl/own_kernel.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/numeric/double_math.h"
#include "kcc/rl/training_evidence.h"

namespace kcc {
namespace {

constexpr double kQuantiles[] = {0.05, 0.5, 0.95, 0.99};

bool IsRatio(RlStatistic statistic) {
  return statistic == RlStatistic::kRatio || statistic == RlStatistic::kK1;
}

double OfToken(RlStatistic statistic, double d) {
  if (IsRatio(statistic)) return d;
  return statistic == RlStatistic::kK2 ? d * d / 2 : ExpResidual(d);
}

// One number a unit of the row; of ratios still in logs and with their sign.
void AddUnits(const RlRow& row, RlStatistic statistic, RlAggregate aggregate,
              std::vector<double>* units) {
  const auto value = [&](int64_t i) {
    const double d = row.log_ratio[static_cast<size_t>(i)];
    return OfToken(statistic, std::clamp(d, -kRlLogRatioMax, kRlLogRatioMax));
  };
  const auto sum = [&](int64_t begin, int64_t count) {
    double total = 0;
    for (int64_t i = begin; i < begin + count; ++i) total += value(i);
    return total;
  };
  switch (aggregate) {
    case RlAggregate::kTokenwise:
      for (int64_t i = 0; i < row.tokens; ++i) units->push_back(value(i));
      return;
    case RlAggregate::kSequenceSum:
      units->push_back(sum(0, row.tokens));
      return;
    case RlAggregate::kSequenceMean:
      units->push_back(sum(0, row.tokens) / static_cast<double>(row.tokens));
      return;
    case RlAggregate::kSequenceMax: {
      double largest = 0;
      for (int64_t i = 0; i < row.tokens; ++i) largest = std::max(largest, std::fabs(value(i)));
      units->push_back(largest);
      return;
    }
    case RlAggregate::kSegmentSum:
      for (const RlRow::Run& run : row.runs) units->push_back(sum(run.token, run.length));
      return;
  }
}

}  // namespace

RlBatch OwnGapOf(const RlBatch& batch) {
  RlBatch own = batch;
  if (batch.old) own.train = batch.old;
  own.old = {};
  return own;
}

Result<std::vector<double>> UnitStatistics(const RlBatch& batch, RlStatistic statistic,
                                           RlAggregate aggregate) {
  KCC_TRY_VOID(CheckRlBatch(batch));
  std::vector<double> units;
  RlRow row;
  for (int64_t r = 0; r < batch.rows; ++r) {
    KCC_TRY_VOID(row.Load(batch, r));
    if (row.tokens > 0) AddUnits(row, statistic, aggregate, &units);
  }
  if (IsRatio(statistic)) {
    for (double& unit : units) unit = Exp(std::fabs(unit));
  }
  std::sort(units.begin(), units.end());
  return units;
}

double RlOwnKernel::kept() const {
  return tokens == 0 ? 0 : static_cast<double>(tokens_kept) / static_cast<double>(tokens);
}

bool RlOwnKernel::below_own() const { return kept() < kRlKeptShareMin; }

Result<std::vector<RlOwnKernel>> OwnKernelOf(const RlBatch& batch, const RlCorrection& correction,
                                             int threads) {
  std::vector<RlOwnKernel> all;
  const RlBatch gap = OwnGapOf(batch);
  for (size_t i = 0; i < correction.reject.size(); ++i) {
    RlOwnKernel own;
    own.setting = "reject[" + std::to_string(i) + "]";
    own.rule = correction.reject[i];
    KCC_TRY(const std::vector<double> units,
            UnitStatistics(gap, own.rule.statistic, own.rule.aggregate));
    own.units = static_cast<int64_t>(units.size());
    for (const double unit : units) own.mean += unit / static_cast<double>(units.size());
    for (const double p : kQuantiles) {
      if (units.empty()) break;
      const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(units.size())));
      own.quantiles.push_back({p, units[std::max<size_t>(rank, 1) - 1]});
    }
    RlCorrection alone;
    alone.reject = {own.rule};
    KCC_TRY(const auto metrics, CorrectRl(gap, alone, {}, threads));
    own.tokens = metrics[0].tokens;
    own.tokens_kept = metrics[0].tokens_kept;
    all.push_back(std::move(own));
  }
  return all;
}

std::string OwnKernelText(const RlOwnKernel& own) {
  std::string text(RlAggregateName(own.rule.aggregate));
  for (char& c : text) c = c == '_' ? ' ' : c;
  text += IsRatio(own.rule.statistic)
              ? " max(w, 1/w):"
              : " " + std::string(RlStatisticName(own.rule.statistic)) + ":";
  for (const RlOwnQuantile& quantile : own.quantiles) {
    if (quantile.p < 0.5) continue;
    text += " p" + ReadableNumber(100 * quantile.p) + " " + ReadableNumber(quantile.value) + ",";
  }
  return text + " mean " + ReadableNumber(own.mean);
}

}  // namespace kcc
