#include "tests/report/sample/sample_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/metric/metric.h"
#include "kcc/report/text.h"
#include "tests/report/sample/sample_quantities.h"

namespace kcc {
namespace {

double Statistic(const QuantityStatistics& s, Aggregate aggregate) {
  switch (aggregate) {
    case Aggregate::kMean:
      return s.mean;
    case Aggregate::kP50:
      return s.p50;
    case Aggregate::kP90:
      return s.p90;
    case Aggregate::kP95:
      return s.p95;
    case Aggregate::kP99:
      return s.p99;
    case Aggregate::kP999:
      return s.p999;
    case Aggregate::kMax:
      return s.max;
    default:
      return kNotMeasured;
  }
}

struct ClauseShape {
  std::string id;
  Family family;
  std::string metric;
  double threshold;
  ViolationLevel level;
  std::vector<std::string> slices;
  double budget = 0;
  // For a metric whose quantity is not drawn above.
  double fixed_value = kNotMeasured;
};

Interval ValueOf(const ClauseShape& shape, const std::string& slice, const ReportData& report) {
  if (shape.fixed_value == shape.fixed_value) return {shape.fixed_value, shape.fixed_value};
  const Metric metric = *ParseMetric(shape.metric);
  for (const QuantitySlice& row : report.quantities) {
    if (row.quantity != metric.quantity->id || row.slice != slice) continue;
    const double value = Statistic(row.statistics, metric.aggregate);
    return {value, value};
  }
  return {};
}

SliceVerdict JudgeSlice(const ClauseShape& shape, BoundKind bound, const SliceShape& slice,
                        const ReportData& report) {
  SliceVerdict v;
  v.slice = slice.name;
  v.threshold = shape.threshold;
  v.count = {slice.requests, slice.tokens};
  v.value = ValueOf(shape, slice.name, report);
  const double sign = bound == BoundKind::kAtMost ? 1 : -1;
  const bool beyond = sign * v.value.lo > sign * v.threshold;
  const std::string against =
      IntervalText(v.value) + (beyond ? " is beyond " : " is within ") + ShortNumber(v.threshold);
  v.about.verdict = beyond ? Verdict::kViolated : Verdict::kSatisfied;
  v.about.reason = shape.metric + " of " + against + ".";
  if (!v.value.known()) {
    v.about.verdict = Verdict::kInconclusive;
    v.about.reason = "The traces hold no value of it on this slice.";
  }
  if (shape.budget > 0) {
    const double rate = beyond ? shape.budget * 2.4 : shape.budget * 0.3;
    v.exceedance = ExceedanceCount{slice.requests,
                                   static_cast<int64_t>(rate * static_cast<double>(slice.requests)),
                                   shape.budget};
    v.about.reason = Grouped(v.exceedance->exceeding) + " of " + Grouped(slice.requests) +
                     " requests are beyond " + ShortNumber(v.threshold) + "; the budget is " +
                     Percent(shape.budget) + ".";
    if (beyond) v.smallest_budget = v.exceedance->rate();
  }
  if (beyond) v.smallest_passing = v.value.lo * (1 + sign * 0x1p-7);
  const double excess = shape.threshold == 0 ? 1 : std::abs(v.value.lo / v.threshold - 1);
  v.deviation = beyond ? std::min(2.0, 1 + excess) : 0;
  // Traffic is never surer than the evaluation set: one in four pairs needs more requests.
  v.other = v.about;
  const double half = std::abs(v.value.lo) * 2.2 / std::sqrt(static_cast<double>(slice.requests));
  v.other.confidence_interval = {v.value.lo - half, v.value.lo + half};
  if (v.value.known() && v.other.confidence_interval.lo < v.threshold &&
      v.threshold < v.other.confidence_interval.hi) {
    v.other.verdict = Verdict::kInconclusive;
    v.other.more_requests = slice.requests / 2 + 40;
    v.other.reason = "The interval holds the threshold; about " + Grouped(*v.other.more_requests) +
                     " more requests in slice " + slice.name + " would settle it.";
  } else if (v.value.known()) {
    v.other.reason = beyond ? "The lower confidence bound is beyond the threshold."
                            : "The upper confidence bound is within the threshold.";
  }
  return v;
}

void AddClause(const ClauseShape& shape, const std::vector<SliceShape>& slices, int line,
               ReportData* report) {
  ClauseVerdict clause;
  clause.id = shape.id;
  clause.family = shape.family;
  clause.metric = shape.metric;
  clause.level = shape.level;
  clause.hard = shape.budget == 0;
  clause.action = shape.level == ViolationLevel::kL3   ? Action::kFallback
                  : shape.level == ViolationLevel::kL2 ? Action::kGuard
                                                       : Action::kLog;
  clause.mark = {line, 5};
  const auto metric = ParseMetric(shape.metric);
  clause.bound = metric && MetricDirection(*metric) == Direction::kHigherIsBetter
                     ? BoundKind::kAtLeast
                     : BoundKind::kAtMost;
  for (const std::string& name : shape.slices) {
    for (const SliceShape& slice : slices) {
      if (slice.name == name) {
        clause.slices.push_back(JudgeSlice(shape, clause.bound, slice, *report));
      }
    }
  }
  report->judgement.clauses.push_back(std::move(clause));
}

// What docs/design.md section 8 says follows from the pairs.
void Conclude(ReportData* report) {
  Judgement& j = report->judgement;
  int64_t l2_pairs = 0;
  for (const ClauseVerdict& clause : j.clauses) {
    if (clause.level == ViolationLevel::kL2) l2_pairs += static_cast<int64_t>(clause.slices.size());
  }
  j.eta2 = 1 + 2 * static_cast<double>(l2_pairs);
  j.verdict = Verdict::kSatisfied;
  j.health = 0;
  j.action.reset();
  for (ClauseVerdict& clause : j.clauses) {
    clause.verdict = Verdict::kSatisfied;
    for (SliceVerdict& slice : clause.slices) {
      slice.weight = clause.level == ViolationLevel::kL3   ? j.eta2
                     : clause.level == ViolationLevel::kL2 ? 1
                                                           : 0;
      j.health += slice.weight * slice.deviation;
      clause.verdict = std::max(clause.verdict, slice.verdict());
      if (slice.verdict() == Verdict::kViolated) {
        j.action = std::max(j.action.value_or(Action::kLog), clause.action);
      } else if (slice.verdict() != Verdict::kSatisfied) {
        j.action = std::max(j.action.value_or(Action::kLog), Action::kGuard);
      }
    }
    j.verdict = std::max(j.verdict, clause.verdict);
  }
  j.convergent = j.verdict == Verdict::kSatisfied;
}

const std::vector<QuantityShape>& Shapes() {
  static const std::vector<QuantityShape> shapes = {
      {"logit_linf", 0.011, 0.55},  {"kl", 2.1e-4, 1.1},           {"tv", 4.2e-3, 0.7},
      {"top5_overlap", 0.004, 1.0}, {"abs_log_ratio", 0.006, 0.9}, {"log_ratio", 0.008, 0, true},
  };
  return shapes;
}

ReportData Frame(const std::vector<SliceShape>& slices) {
  ReportData report;
  report.contract = {"qwen3-8b-fp8-serving", "1.3.0", Sha256Of("contract"),
                     "contracts/qwen3-8b-fp8.yaml"};
  report.provenance.kcc = "0.1.0";
  report.provenance.train = {"torch-2.13/bf16/sdpa-math/" + Sha256Of("train").substr(7, 12),
                             Sha256Of("train trace"), Sha256Of("model")};
  report.provenance.infer = {"vllm-0.18/fp8-e4m3/fa3/" + Sha256Of("infer").substr(7, 12),
                             Sha256Of("infer trace"), Sha256Of("model")};
  report.provenance.evidence = "logits";
  report.provenance.plan = Sha256Of("plan");
  report.provenance.requests = slices.empty() ? 0 : slices[0].requests;
  uint64_t seed = 1;
  for (const QuantityShape& shape : Shapes()) {
    for (const SliceShape& slice : slices) AddQuantity(shape, slice, seed++, &report);
  }
  for (const SliceShape& slice : slices) AddCurve(slice, seed++, &report);
  return report;
}

constexpr auto kN = Family::kNumerical;
constexpr auto kS = Family::kStatistical;
constexpr auto kR = Family::kRuntime;
constexpr auto kO = Family::kObservability;
constexpr auto kL1 = ViolationLevel::kL1;
constexpr auto kL2 = ViolationLevel::kL2;
constexpr auto kL3 = ViolationLevel::kL3;

ReportData Build(double drift) {
  const std::vector<SliceShape> slices = {{"all", 4096, 1'203'311, drift},
                                          {"long-context", 512, 402'118, 1.45 * drift},
                                          {"safety", 640, 118'402, 0.9 * drift},
                                          {"code", 900, 301'777, 0.7 * drift},
                                          {"late-tokens", 388, 96'020, 1.25 * drift}};
  const std::vector<std::string> every = {"all", "long-context", "safety", "code", "late-tokens"};
  ReportData report = Frame(slices);
  // clang-format off
  const std::vector<ClauseShape> clauses = {
      {"N-1", kN, "p99_logit_linf", 0.05, kL3, {"all", "long-context", "late-tokens"}, 0, kNotMeasured},
      {"N-2", kN, "mean_kl", 2e-3, kL2, every, 0.01, kNotMeasured},
      {"N-3", kN, "p999_tv", 0.06, kL2, {"all", "safety"}, 0, kNotMeasured},
      {"N-RLHF-1", kN, "mean_abs_log_ratio", 0.02, kL3, {"all"}, 0, kNotMeasured},
      {"S-1", kS, "mean_top5_overlap", 0.98, kL3, {"all", "safety"}, 0, kNotMeasured},
      {"S-2", kS, "ece_gap", 0.01, kL2, {"all", "safety"}, 0, 0.0041},
      {"S-3", kS, "refusal_rate_gap", 0.005, kL2, {"safety"}, 0, 0.0031},
      {"R-1", kR, "p95_latency_ms", 400, kL2, {"all", "long-context"}, 0.05, drift > 0.9 ? 431.5 : 350},
      {"R-2", kR, "throughput_tokens_per_s", 20000, kL1, {"all"}, 0, 24117},
      {"O-1", kO, "trace_field_coverage", 1, kL3, {"all"}, 0, 1},
  };
  // clang-format on
  int line = 21;
  for (const ClauseShape& shape : clauses) AddClause(shape, slices, line++, &report);
  report.slices = {{"all", ""},
                   {"long-context", "prompt_tokens >= 8192"},
                   {"safety", "'safety' in tags"},
                   {"code", "'code' in tags"},
                   {"late-tokens", "token.position >= 4096"}};
  report.reasons = {{"N-1", "half the smallest margin that the safety set has"},
                    {"R-1", "what the product promises"}};
  report.inputs = {"traces/torch bf16", "traces/vllm-fp8", ""};
  AddWorst(slices[0], "kl", 8, 71, &report);
  AddWorst(slices[1], "logit_linf", 8, 72, &report);
  AddWorst(slices[2], "kl", 5, 73, &report);
  report.bounds = {
      {"N-1", "mean total variation of a token", 0.03475, "tv", false},
      {"N-1", "reward drift of continuations of up to 4096 tokens, |reward| ≤ 1", 2,
       "sequence_reward_drift", true},
      {"N-RLHF-1",
       "bias of the uncorrected policy gradient at a token, |advantage| ≤ 4, score norm ≤ 8", 1.28,
       "gradient_bias", false},
      {"N-RLHF-1", "reward drift that one token can cause, |reward| ≤ 1", 0.04, "reward_drift",
       false}};
  return report;
}

}  // namespace

ReportData SampleReport() {
  ReportData report = Build(1.0);
  // One pair that evidence cannot decide, one whose evidence is broken, one known as an interval.
  for (ClauseVerdict& clause : report.judgement.clauses) {
    for (SliceVerdict& slice : clause.slices) {
      if (clause.id == "S-3") {
        slice.count = {88, 0};
        slice.about.verdict = Verdict::kInconclusive;
        slice.about.reason =
            "88 requests carry the field 'refused'; the clause asks for 200. About 112 more "
            "requests in slice safety would settle it.";
        slice.about.more_requests = 112;
      }
      if (clause.id == "S-2" && slice.slice == "safety") {
        slice.value = {0.0071, 0.0133};
        slice.other.confidence_interval = {};
        slice.about.verdict = Verdict::kInconclusive;
        slice.about.reason =
            "The gap lies between 0.0071 and 0.0133 (top-k evidence), which holds the threshold; "
            "full logits would settle it.";
      }
      if (clause.id == "R-1" && slice.slice == "long-context") {
        slice.value = {};
        slice.exceedance.reset();
        slice.smallest_passing.reset();
        slice.smallest_budget.reset();
        slice.deviation = 0;
        slice.about.verdict = Verdict::kError;
        slice.about.reason = "latency_ms of request req-2044 is not a number.";
        slice.other = slice.about;
      }
    }
  }
  Conclude(&report);
  return report;
}

ReportData ConvergentSample() {
  ReportData report = Build(0.62);
  report.provenance.infer.fingerprint = "vllm-0.18.1/fp8-e4m3/fa3-deterministic";
  report.provenance.infer.trace = Sha256Of("infer trace, fixed");
  Conclude(&report);
  return report;
}

ReportData LargeSample() {
  constexpr std::array<std::string_view, 10> kTopics = {
      "all",      "long-context", "safety", "code",       "math",
      "dialogue", "late-tokens",  "tools",  "structured", "multilingual-low-resource"};
  constexpr std::array<std::string_view, 5> kLengths = {"", "-1k", "-8k", "-32k", "-128k-and-more"};
  std::vector<SliceShape> slices;
  std::vector<std::string> names;
  Random random(99);
  for (const std::string_view length : kLengths) {
    for (const std::string_view topic : kTopics) {
      names.push_back(std::string(topic).append(length));
      slices.push_back({names.back(), 200 + static_cast<int64_t>(random.Uniform() * 4000),
                        60'000 + static_cast<int64_t>(random.Uniform() * 900'000),
                        0.55 + 0.75 * random.Uniform()});
    }
  }
  ReportData report = Frame(slices);
  report.contract.name =
      "a-contract-with-a-rather-long-name-for-a-mixture-of-experts-serving-fleet";
  constexpr std::array<std::string_view, 4> kAggregates = {"mean", "p95", "p99", "p999"};
  constexpr std::array<double, 4> kFactors = {2.6, 6.5, 9.5, 34};
  int made = 0;
  for (const QuantityShape& shape : Shapes()) {
    if (shape.is_signed || shape.name.ends_with("overlap")) continue;
    for (size_t a = 0; a < kAggregates.size(); ++a) {
      for (int copy = 0; copy < 2 + static_cast<int>(a % 2); ++copy) {
        ClauseShape clause{
            "N-" + std::to_string(++made),
            made % 3 == 0 ? kS : kN,
            std::string(kAggregates[a]) + "_" + shape.name,
            *ParseNumber(ShortNumber(shape.center * kFactors[a] * (1 + 0.25 * copy))),
            kL2,
            {},
            0,
            kNotMeasured};
        clause.level = made % 4 == 0 ? kL3 : made % 4 == 1 ? kL1 : kL2;
        if (made % 5 == 0) clause.budget = 0.02;
        for (size_t s = 0; s < names.size(); ++s) {
          if (made % 7 != 0 || s % 3 == 0) clause.slices.push_back(names[s]);
        }
        AddClause(clause, slices, 20 + made, &report);
      }
    }
  }
  AddWorst(slices[0], "kl", 16, 3, &report);
  AddWorst(slices[41], "logit_linf", 16, 4, &report);
  Conclude(&report);
  return report;
}

ReportData HostileSample() {
  ReportData report = SampleReport();
  const std::string break_out = "</script><img src=x onerror=alert(1)>";
  const std::string quotes = "\"'`|]]> {{script}} <!-- @everyone \x1b[31m\x07\r\n\xE2\x80\xAE evil";
  report.contract.name = break_out + quotes;
  report.contract.version = "1.0\n## fake heading";
  report.contract.file = "dir with blanks/ünï \"quote\".yaml";
  report.judgement.clauses[0].id = "N-1" + break_out;
  report.judgement.clauses[1].id = "__proto__";
  report.judgement.clauses[1].slices[0].about.reason = break_out + quotes + " broken \xFF\xC3 end";
  for (ClauseVerdict& clause : report.judgement.clauses) {
    for (SliceVerdict& slice : clause.slices) {
      if (slice.slice == "safety") slice.slice = "constructor" + break_out;
    }
  }
  for (QuantitySlice& row : report.quantities) {
    if (row.slice == "safety") row.slice = "constructor" + break_out;
    if (row.slice == "code") row.statistics.max = std::numeric_limits<double>::infinity();
    if (row.slice == "late-tokens") row.statistics.p999 = kNotMeasured;
  }
  for (ReportHistogram& row : report.histograms) {
    if (row.slice == "safety") row.slice = "constructor" + break_out;
    if (row.slice == "code") row.infinite = 3;
  }
  for (DisagreementCurve& curve : report.curves) {
    if (curve.slice == "safety") curve.slice = "constructor" + break_out;
  }
  report.slices[2].name = "constructor" + break_out;
  report.slices[1].where = break_out + quotes;
  report.reasons = {{"__proto__", break_out + quotes}, {"S-1", quotes}};
  report.inputs = {"it's `here`; $HOME", "-" + break_out, "requests\n.jsonl"};
  report.worst[0].request = break_out + quotes;
  report.worst[1].context = break_out + quotes;
  report.worst[1].value = std::numeric_limits<double>::infinity();
  report.bounds[0].text = break_out;
  report.provenance.infer.fingerprint = break_out + quotes;
  return report;
}

ReportData EmptySample() {
  ReportData report;
  report.contract = {"empty", "0.0.1", Sha256Of("empty"), ""};
  report.provenance.kcc = "0.1.0";
  report.provenance.evidence = "none";
  report.judgement.verdict = Verdict::kInconclusive;
  report.judgement.action = Action::kGuard;
  return report;
}

}  // namespace kcc
