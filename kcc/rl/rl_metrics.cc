#include "kcc/rl/rl_metrics.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

struct LevelMetric {
  std::string_view name, version1;
  double RlLevelMetrics::*value;
};

constexpr LevelMetric kLevelMetrics[] = {
    {"mean_k1", "k1", &RlLevelMetrics::k1},
    {"mean_k2", "k2", &RlLevelMetrics::k2},
    {"mean_k3", "k3", &RlLevelMetrics::k3},
    {"mean_k3_reverse", "k3_reverse", &RlLevelMetrics::k3_reverse},
    {"mean_tv", "tv", &RlLevelMetrics::tv},
    {"mean_tv_abs", "tv_abs", &RlLevelMetrics::tv_abs},
    {"mean_abs_log_ratio", "mean_abs_log_ratio", &RlLevelMetrics::mean_abs_log_ratio},
    {"mean_w", "mean_w", &RlLevelMetrics::mean_w},
    {"sd_w", "sd_w", &RlLevelMetrics::sd_w},
    {"mean_chi2", "chi2", &RlLevelMetrics::chi2},
    {"ess", "ess", &RlLevelMetrics::ess},
    {"min_log_ratio", "log_ratio_min", &RlLevelMetrics::log_ratio_min},
    {"max_log_ratio", "log_ratio_max", &RlLevelMetrics::log_ratio_max},
};

// What is of no level; counts are numbers too.
struct SliceMetric {
  std::string_view name, version1;
  double (*value)(const RlMetrics& metrics);
};

constexpr double Number(int64_t count) { return static_cast<double>(count); }

constexpr SliceMetric kSliceMetrics[] = {
    {"rows", "rows", [](const RlMetrics& f) { return Number(f.rows); }},
    {"empty_rows", "empty_rows", [](const RlMetrics& f) { return Number(f.empty_rows); }},
    {"tokens", "tokens", [](const RlMetrics& f) { return Number(f.tokens); }},
    {"zero_ratio", "zero_ratio", [](const RlMetrics& f) { return Number(f.zero_ratio); }},
    {"infinite_ratio", "infinite_ratio",
     [](const RlMetrics& f) { return Number(f.infinite_ratio); }},
    {"bit_equal_share", "bit_equal_share", [](const RlMetrics& f) { return f.bit_equal_share; }},
    {kRlCertifiedMetric, "tv_rows", [](const RlMetrics& f) { return f.tv_rows; }},
    {"train_log_ppl", "train_log_ppl", [](const RlMetrics& f) { return f.train_log_ppl; }},
    {"rollout_log_ppl", "rollout_log_ppl", [](const RlMetrics& f) { return f.rollout_log_ppl; }},
    {"train_ppl", "train_ppl", [](const RlMetrics& f) { return f.train_ppl; }},
    {"rollout_ppl", "rollout_ppl", [](const RlMetrics& f) { return f.rollout_ppl; }},
    {"tail_index", "tail_index", [](const RlMetrics& f) { return f.tail_index; }},
};

void AddLevel(std::string_view level, const RlLevelMetrics& metrics,
              std::vector<RlNamedMetric>* to) {
  const std::string prefix = std::string(level) + ".";
  for (const LevelMetric& metric : kLevelMetrics) {
    to->push_back({prefix + std::string(metric.name), prefix + std::string(metric.version1),
                   metrics.*metric.value});
  }
  to->push_back({prefix + "units", prefix + "units", Number(metrics.units)});
}

RlClauseVerdict JudgeOne(const RlMetrics& metrics, const RlClause& clause,
                         const RlNamedMetric& metric) {
  RlClauseVerdict out;
  out.clause = clause;
  out.metric = metric.name;
  out.value = metric.value;
  const auto holds = [&](double x) {
    return clause.at_least ? x >= clause.threshold : x <= clause.threshold;
  };
  const auto decided = [](bool satisfied) {
    return satisfied ? RlVerdict::kSatisfied : RlVerdict::kViolated;
  };
  if (metrics.tokens == 0) return out;  // never satisfied on no evidence
  if (std::isnan(metric.value)) {
    out.reason = RlReason::kNotANumber;
    return out;
  }
  if (metric.name == kRlCertifiedMetric && metrics.tv_bound.known()) {
    out.interval = metrics.tv_bound;
    out.certified = true;
    const bool low = holds(metrics.tv_bound.lo);
    const bool high = holds(metrics.tv_bound.hi);
    out.reason = low == high ? RlReason::kWholeInside : RlReason::kStraddles;
    if (low == high) out.verdict = decided(low);
    return out;
  }
  out.verdict = decided(holds(metric.value));
  out.reason = RlReason::kOfThisSample;
  return out;
}

Error UnknownMetric(std::string_view name, const std::vector<RlNamedMetric>& known) {
  std::vector<std::string_view> names;
  for (const RlNamedMetric& metric : known) {
    names.push_back(metric.version1);
    if (metric.name != metric.version1) names.push_back(metric.name);
  }
  auto nearest = NearestWord(name, names);
  if (!nearest) {  // the name without its level and aggregate: k3 for token.mean_k3
    const auto ends = std::find_if(names.begin(), names.end(), [&](std::string_view known) {
      return known.ends_with("_" + std::string(name)) || known.ends_with("." + std::string(name));
    });
    if (ends != names.end()) nearest = *ends;
  }
  return InvalidError("no metric is called \"" + std::string(name) + "\"" +
                      (nearest ? "; did you mean \"" + std::string(*nearest) + "\"?" : ""));
}

}  // namespace

std::vector<RlNamedMetric> NamedMetrics(const RlMetrics& metrics) {
  std::vector<RlNamedMetric> out;
  const auto add = [&](std::string_view name, double value) {
    out.push_back({std::string(name), std::string(name), value});
  };
  for (const SliceMetric& metric : kSliceMetrics) {
    out.push_back({std::string(metric.name), std::string(metric.version1), metric.value(metrics)});
  }
  for (const RlLevel level : kRlLevels) AddLevel(RlLevelName(level), metrics.at(level), &out);
  if (metrics.has_advantages) {
    add("skew.positive", metrics.skew.positive);
    add("skew.negative", metrics.skew.negative);
    add("skew.mean_abs_advantage", metrics.skew.mean_abs_advantage);
    add("skew.bias_bound", metrics.skew.bias_bound);
    add("skew.tokens_positive", Number(metrics.skew.tokens_positive));
    add("skew.tokens_negative", Number(metrics.skew.tokens_negative));
  }
  if (metrics.has_old) {
    AddLevel("mismatch", metrics.mismatch, &out);
    AddLevel("staleness", metrics.staleness, &out);
  }
  return out;
}

std::string_view RlVerdictName(RlVerdict verdict) {
  switch (verdict) {
    case RlVerdict::kSatisfied:
      return "satisfied";
    case RlVerdict::kViolated:
      return "violated";
    case RlVerdict::kInconclusive:
      return "inconclusive";
  }
  return "";
}

std::string_view RlReasonText(RlReason reason) {
  switch (reason) {
    case RlReason::kNoToken:
      return "no token was compared: nothing is satisfied on no evidence";
    case RlReason::kNotANumber:
      return "the metric is not a number: too little evidence for it";
    case RlReason::kWholeInside:
      return "the whole confidence interval is on one side of the threshold";
    case RlReason::kStraddles:
      return "the confidence interval holds the threshold: more rows would decide";
    case RlReason::kOfThisSample:
      return "the value of this sample, compared as it is";
  }
  return "";
}

Result<std::vector<RlClauseVerdict>> JudgeRl(const RlMetrics& metrics,
                                             std::span<const RlClause> clauses) {
  const std::vector<RlNamedMetric> named = NamedMetrics(metrics);
  std::vector<RlClauseVerdict> out;
  for (const RlClause& clause : clauses) {
    const auto found = std::find_if(named.begin(), named.end(), [&](const RlNamedMetric& metric) {
      return metric.name == clause.metric || metric.version1 == clause.metric;
    });
    if (found == named.end()) return UnknownMetric(clause.metric, named);
    out.push_back(JudgeOne(metrics, clause, *found));
  }
  return out;
}

}  // namespace kcc
