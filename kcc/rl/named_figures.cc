// Figures by name: what limits, metric loggers and the JSON form read.
#include <algorithm>
#include <string>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/rl/diagnostics.h"

namespace kcc {
namespace {

void AddLevel(std::string_view prefix, const RlLevelFigures& level,
              std::vector<RlNamedFigure>* to) {
  const std::pair<std::string_view, double> fields[] = {
      {"k1", level.k1},
      {"k2", level.k2},
      {"k3", level.k3},
      {"k3_reverse", level.k3_reverse},
      {"tv", level.tv},
      {"tv_abs", level.tv_abs},
      {"mean_abs_log_ratio", level.mean_abs_log_ratio},
      {"mean_w", level.mean_w},
      {"sd_w", level.sd_w},
      {"chi2", level.chi2},
      {"ess", level.ess},
      {"log_ratio_min", level.log_ratio_min},
      {"log_ratio_max", level.log_ratio_max},
      {"units", static_cast<double>(level.units)},
  };
  for (const auto& [name, value] : fields) {
    to->push_back({std::string(prefix) + "." + std::string(name), value});
  }
}

}  // namespace

std::vector<RlNamedFigure> NamedFigures(const RlFigures& figures) {
  std::vector<RlNamedFigure> out;
  const auto add = [&](std::string_view name, double value) {
    out.push_back({std::string(name), value});
  };
  add("rows", static_cast<double>(figures.rows));
  add("empty_rows", static_cast<double>(figures.empty_rows));
  add("tokens", static_cast<double>(figures.tokens));
  add("zero_ratio", static_cast<double>(figures.zero_ratio));
  add("infinite_ratio", static_cast<double>(figures.infinite_ratio));
  add("bit_equal_share", figures.bit_equal_share);
  add("tv_rows", figures.tv_rows);
  add("train_log_ppl", figures.train_log_ppl);
  add("rollout_log_ppl", figures.rollout_log_ppl);
  add("train_ppl", figures.train_ppl);
  add("rollout_ppl", figures.rollout_ppl);
  add("tail_index", figures.tail_index);
  for (const RlLevel level : kRlLevels) AddLevel(RlLevelName(level), figures.at(level), &out);
  if (figures.has_advantages) {
    add("skew.positive", figures.skew.positive);
    add("skew.negative", figures.skew.negative);
    add("skew.mean_abs_advantage", figures.skew.mean_abs_advantage);
    add("skew.bias_bound", figures.skew.bias_bound);
    add("skew.tokens_positive", static_cast<double>(figures.skew.tokens_positive));
    add("skew.tokens_negative", static_cast<double>(figures.skew.tokens_negative));
  }
  if (figures.has_old) {
    AddLevel("mismatch", figures.mismatch, &out);
    AddLevel("staleness", figures.staleness, &out);
  }
  return out;
}

std::string FiguresJson(const RlFigures& figures) {
  JsonWriter json;
  json.BeginObject();
  json.Field("slice", figures.slice);
  std::string open;  // the object that is being written: names come grouped
  for (const auto& [name, value] : NamedFigures(figures)) {
    const size_t dot = name.find('.');
    const std::string group = dot == std::string::npos ? "" : name.substr(0, dot);
    if (group != open) {
      if (!open.empty()) json.EndObject();
      if (!group.empty()) json.Key(group).BeginObject();
      open = group;
    }
    json.Field(dot == std::string::npos ? name : name.substr(dot + 1), value);
  }
  if (!open.empty()) json.EndObject();
  json.Key("tv_bound").BeginArray().Value(figures.tv_bound.lo).Value(figures.tv_bound.hi);
  json.EndArray();
  json.Key("log_ratio_quantiles").BeginArray();
  for (const RlQuantile& quantile : figures.quantiles) {
    json.BeginObject().Field("p", quantile.p).Field("lo", quantile.log_ratio.lo);
    json.Field("hi", quantile.log_ratio.hi).EndObject();
  }
  json.EndArray();
  json.EndObject();
  return json.Take();
}

std::string_view RlOutcomeName(RlOutcome outcome) {
  switch (outcome) {
    case RlOutcome::kPass:
      return "satisfied";
    case RlOutcome::kFail:
      return "violated";
    case RlOutcome::kInconclusive:
      return "inconclusive";
  }
  return "";
}

namespace {

RlJudgement JudgeOne(const RlFigures& figures, const RlLimit& limit, double value) {
  RlJudgement out;
  out.limit = limit;
  out.value = value;
  const auto within = [&](double x) {
    return limit.at_least ? x >= limit.bound : x <= limit.bound;
  };
  if (figures.tokens == 0) {
    out.why = "no token was compared: nothing passes on no evidence";
    return out;
  }
  if (!(value == value)) {
    out.why = "the figure is not a number: too little evidence for it";
    return out;
  }
  if (limit.figure == "tv_rows" && figures.tv_bound.known()) {
    out.interval = figures.tv_bound;
    out.certified = true;
    const bool low = within(figures.tv_bound.lo);
    const bool high = within(figures.tv_bound.hi);
    if (low == high) {
      out.outcome = low ? RlOutcome::kPass : RlOutcome::kFail;
      out.why = "the whole confidence interval is on one side of the limit";
      return out;
    }
    out.why = "the confidence interval holds the limit: more rows would decide";
    return out;
  }
  out.outcome = within(value) ? RlOutcome::kPass : RlOutcome::kFail;
  out.why = "the figure of this sample, compared as it is";
  return out;
}

}  // namespace

Result<std::vector<RlJudgement>> JudgeRl(const RlFigures& figures,
                                         std::span<const RlLimit> limits) {
  const std::vector<RlNamedFigure> named = NamedFigures(figures);
  std::vector<RlJudgement> out;
  for (const RlLimit& limit : limits) {
    const auto found = std::find_if(named.begin(), named.end(),
                                    [&](const auto& f) { return f.name == limit.figure; });
    if (found == named.end()) {
      std::vector<std::string_view> names;
      names.reserve(named.size());
      for (const RlNamedFigure& figure : named) names.push_back(figure.name);
      const auto nearest = NearestWord(limit.figure, names);
      return InvalidError("no figure is called \"" + limit.figure + "\"" +
                          (nearest ? "; did you mean \"" + std::string(*nearest) + "\"?" : ""));
    }
    out.push_back(JudgeOne(figures, limit, found->value));
  }
  return out;
}

}  // namespace kcc
