#include "kcc/rl/dialect_settings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/rl/dialect.h"

namespace kcc {
namespace {

using Mode = RlWeightMode;
using Options = std::vector<std::pair<std::string, std::string>>;  // key, value as JSON

constexpr double kUnbounded = 1e299;  // as good as no upper bound

// Words and bands of numbers hold nothing to escape.
std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string Band(double low, double high) {
  return Quoted(ShortestNumber(low) + "_" + ShortestNumber(high));
}

bool Near(double a, double b) {
  return a == b || std::fabs(a - b) <= 1e-12 * std::max(std::fabs(a), std::fabs(b));
}

// ---- one function per framework: what might say the correction ---------------------------------

// verl's k1 bounds 1/w.
Options Verl(const RlCorrection& c) {
  Options out;
  if (c.weight.mode == Mode::kTruncate || c.weight.mode == Mode::kMask) {
    const bool sequence = c.weight.level == RlLevel::kSequence;
    out.emplace_back("rollout_is", Quoted(sequence ? "sequence" : "token"));
    out.emplace_back("rollout_is_threshold", c.weight.mode == Mode::kMask
                                                 ? Band(c.weight.low, c.weight.high)
                                                 : ShortestNumber(c.weight.high));
    if (c.weight.batch_normalize) out.emplace_back("rollout_is_batch_normalize", "true");
  }
  std::string rules, thresholds;
  for (const RlRejectRule& rule : c.reject) {
    const bool banded = rule.statistic == RlStatistic::kRatio || rule.statistic == RlStatistic::kK1;
    const bool inverse = rule.statistic == RlStatistic::kRatio;
    std::string name = rule.aggregate == RlAggregate::kTokenwise      ? "token_"
                       : rule.aggregate == RlAggregate::kSequenceSum  ? "seq_sum_"
                       : rule.aggregate == RlAggregate::kSequenceMean ? "seq_mean_"
                                                                      : "seq_max_";
    name += banded ? "k1" : rule.statistic == RlStatistic::kK2 ? "k2" : "k3";
    rules += (rules.empty() ? "" : ",") + name;
    const double low = inverse ? 1 / rule.high : rule.low;
    const double high = inverse ? 1 / rule.low : rule.high;
    thresholds +=
        (thresholds.empty() ? "" : ",") +
        (banded ? ShortestNumber(low) + "_" + ShortestNumber(high) : ShortestNumber(rule.high));
  }
  if (!rules.empty()) {
    out.emplace_back("rollout_rs", Quoted(rules));
    out.emplace_back("rollout_rs_threshold", Quoted(thresholds));
  }
  return out;
}

Options Trl(const RlCorrection& c) {
  const bool masks = c.weight.mode == Mode::kMask;
  const bool sequence = c.weight.level == RlLevel::kSequence;
  Options out = {
      {"vllm_importance_sampling_mode",
       Quoted(std::string(sequence ? "sequence" : "token") + (masks ? "_mask" : "_truncate"))}};
  const bool lower = masks ? c.weight.low > 0 : c.weight.mode == Mode::kClip;
  if (lower) out.emplace_back("vllm_importance_sampling_clip_min", ShortestNumber(c.weight.low));
  out.emplace_back("vllm_importance_sampling_clip_max",
                   c.weight.mode == Mode::kFull ? "null" : ShortestNumber(c.weight.high));
  return out;
}

Options OpenRlhf(const RlCorrection& c) {
  const bool rejects = c.weight.mode == Mode::kFull && c.reject.size() == 1;
  const double low = rejects ? c.reject[0].low : c.weight.low;
  const double high = rejects ? c.reject[0].high : c.weight.high;
  return {{"enable_vllm_is_correction", "true"},
          {"vllm_is_correction_type", Quoted(rejects                        ? "seq-mask-tis"
                                             : c.weight.mode == Mode::kMask ? "icepop"
                                                                            : "tis")},
          {"vllm_is_truncated_threshold",
           "[" + ShortestNumber(low) + ", " + ShortestNumber(high) + "]"}};
}

Options Nemo(const RlCorrection& c) {
  Options out = {{"use_importance_sampling_correction", "true"}};
  if (c.weight.level == RlLevel::kSequence) {
    out.emplace_back("sequence_level_importance_ratios", "true");
    out.emplace_back("token_level_loss", "false");
  }
  const bool rejects = c.weight.mode == Mode::kFull && c.reject.size() == 1;
  if (c.weight.mode == Mode::kFull && !rejects) return out;
  out.emplace_back("truncated_importance_sampling_type",
                   Quoted(rejects                        ? "seq-mask-tis"
                          : c.weight.mode == Mode::kMask ? "icepop"
                                                         : "tis"));
  out.emplace_back("truncated_importance_sampling_ratio",
                   ShortestNumber(rejects ? c.reject[0].high : c.weight.high));
  if (rejects || c.weight.mode != Mode::kTruncate) {
    out.emplace_back("truncated_importance_sampling_ratio_min",
                     ShortestNumber(rejects ? c.reject[0].low : c.weight.low));
  }
  return out;
}

Options SkyRl(const RlCorrection& c) {
  Options out;
  if (c.weight.mode == Mode::kTruncate) {
    const bool sequence = c.weight.level == RlLevel::kSequence;
    out.emplace_back("tis_ratio_type", Quoted(sequence ? "sequence" : "token"));
    out.emplace_back(sequence ? "sequence_tis_ratio_clip_high" : "token_tis_ratio_clip_high",
                     ShortestNumber(c.weight.high));
  }
  if (c.veto) out.emplace_back("outlier_token_is_threshold_low", ShortestNumber(c.veto->low));
  if (c.veto && c.veto->high > 0) {
    out.emplace_back("outlier_token_is_threshold_high", ShortestNumber(c.veto->high));
  }
  for (const RlRejectRule& rule : c.reject) {
    const bool token = rule.aggregate == RlAggregate::kTokenwise;
    const bool mean = rule.aggregate == RlAggregate::kSequenceMean;
    const std::string name = token ? "token_mask_is_threshold" : mean ? "geo_mask" : "product_mask";
    if (!token) out.emplace_back("sequence_mask_metric", Quoted(mean ? "geometric" : "product"));
    out.emplace_back(name + "_low", ShortestNumber(rule.low));
    out.emplace_back(name + "_high", ShortestNumber(rule.high));
  }
  return out;
}

Options MsSwift(const RlCorrection& c) {
  const bool rejects = c.weight.mode == Mode::kFull && c.reject.size() == 1;
  const std::string_view mode = rejects                                 ? "sequence_mask"
                                : c.weight.level == RlLevel::kGeometric ? "sequence_truncate"
                                : c.weight.mode == Mode::kMask          ? "token_mask"
                                                                        : "token_truncate";
  return {{"rollout_importance_sampling_mode", Quoted(mode)},
          {"rollout_importance_sampling_threshold",
           ShortestNumber(rejects ? c.reject[0].high : c.weight.high)}};
}

Options Slime(const RlCorrection& c) {
  return {{"use_tis", "true"},
          {"tis_clip", ShortestNumber(c.weight.high)},
          {"tis_clip_low", ShortestNumber(c.weight.mode == Mode::kTruncate ? 0 : c.weight.low)}};
}

struct Proposer {
  std::string_view dialect;
  Options (*propose)(const RlCorrection& correction);
  std::string_view function;  // empty: the dialect's first
  std::string_view before;    // of each line
  std::string_view on;        // a line that turns corrections on, where there is one
  std::string_view off;       // and the one that turns them off
  bool python = false;        // the lines are arguments of a Python call
};

// slime has a row for each of its functions; the first that says the correction is given.
constexpr Proposer kProposers[] = {
    {"verl", Verl, "", "algorithm.rollout_correction.",
     "actor_rollout_ref.rollout.calculate_log_probs=true",
     "algorithm.rollout_correction.rollout_is=null"},
    {"trl", Trl, "importance_sampling", "", "vllm_importance_sampling_correction=True",
     "vllm_importance_sampling_correction=False", true},
    {"openrlhf", OpenRlhf, "", "", "", "enable_vllm_is_correction=false"},
    {"nemo", Nemo, "", "loss_fn.", "", "loss_fn.use_importance_sampling_correction=false"},
    {"skyrl", SkyRl, "", "trainer.algorithm.off_policy_correction.", "",
     "trainer.algorithm.off_policy_correction.tis_ratio_type=null"},
    {"ms_swift", MsSwift, "", "", "", "rollout_importance_sampling_mode=null"},
    {"slime", Slime, "vanilla_tis_function", "", "", "use_tis=false"},
    {"slime", Slime, "icepop_function", "", "", "use_tis=false"},
};

std::string PythonOf(const std::string& json) {
  return json == "true" ? "True" : json == "false" ? "False" : json == "null" ? "None" : json;
}

std::string JsonOf(const Options& options) {
  std::string json = "{";
  for (const auto& [key, value] : options) {
    json += (json.size() > 1 ? ", " : "") + Quoted(key) + ": " + value;
  }
  return json + "}";
}

bool IsOff(const RlCorrection& c) {
  return c.weight.mode == Mode::kOff && c.reject.empty() && !c.veto;
}

// A band of 1/w as one of w, so that the two can be compared.
RlRejectRule InRatios(RlRejectRule rule) {
  if (rule.statistic != RlStatistic::kK1) return rule;
  rule.statistic = RlStatistic::kRatio;
  const double low = rule.low;
  rule.low = 1 / rule.high;
  rule.high = low > 0 ? 1 / low : kUnbounded;
  return rule;
}

bool SameWeight(const RlWeightRule& a, const RlWeightRule& b) {
  if (a.mode != b.mode) return false;
  if (a.mode == Mode::kOff) return true;
  if (a.level != b.level || a.batch_normalize != b.batch_normalize) return false;
  if (a.mode == Mode::kFull) return true;
  const bool lower = a.mode == Mode::kClip || a.mode == Mode::kMask;
  return Near(a.high, b.high) && (!lower || Near(a.low, b.low));
}

bool SameReject(const RlRejectRule& left, const RlRejectRule& right) {
  const RlRejectRule a = InRatios(left);
  const RlRejectRule b = InRatios(right);
  const bool banded = a.statistic == RlStatistic::kRatio;
  return a.statistic == b.statistic && a.aggregate == b.aggregate && Near(a.high, b.high) &&
         (!banded || Near(a.low, b.low));
}

}  // namespace

bool SameCorrection(const RlCorrection& a, const RlCorrection& b) {
  if (!SameWeight(a.weight, b.weight) || a.veto != b.veto || a.reject.size() != b.reject.size()) {
    return false;
  }
  for (size_t i = 0; i < a.reject.size(); ++i) {
    if (!SameReject(a.reject[i], b.reject[i])) return false;
  }
  return true;
}

std::vector<std::string_view> SettingsDialects() {
  std::vector<std::string_view> ids;
  for (const Proposer& proposer : kProposers) {
    if (ids.empty() || ids.back() != proposer.dialect) ids.push_back(proposer.dialect);
  }
  return ids;
}

std::optional<DialectSettings> SettingsFor(std::string_view dialect,
                                           const RlCorrection& correction) {
  for (const Proposer& proposer : kProposers) {
    if (proposer.dialect != dialect) continue;
    DialectSettings settings;
    if (IsOff(correction)) {
      settings.lines.emplace_back(proposer.off);
      return settings;
    }
    const Options options = proposer.propose(correction);
    settings.function = proposer.function;
    settings.options = JsonOf(options);
    const auto back = TranslateDialect(dialect, settings.function, settings.options);
    if (!back.has_value() || !back->complete || !SameCorrection(back->correction, correction)) {
      continue;
    }
    if (!proposer.on.empty()) settings.lines.emplace_back(proposer.on);
    for (const auto& [key, value] : options) {
      settings.lines.push_back(std::string(proposer.before) + key + "=" +
                               (proposer.python ? PythonOf(value) : value));
    }
    settings.notes = back->warnings;
    return settings;
  }
  return std::nullopt;
}

}  // namespace kcc
