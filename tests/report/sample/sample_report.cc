#include "tests/report/sample/sample_report.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/metric/metric.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

// splitmix64: the same numbers on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  double Uniform() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

struct SliceShape {
  std::string name;
  int64_t requests;
  int64_t tokens;
  double drift;  // factor on every divergence
};

struct QuantityShape {
  std::string name;
  double center;
  double spread;  // of the logarithm; for a signed quantity the standard deviation is `center`
  bool is_signed = false;
};

constexpr size_t kDrawn = 6000;
constexpr size_t kBucketsShown = 56;

double At(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// Buckets by the seven leading bits of the fraction, as summaries keep them.
ReportHistogram HistogramOf(const std::vector<double>& sorted, const std::string& quantity,
                            const std::string& slice, int64_t scale) {
  const auto edge_below = [](double v) {
    const uint64_t kept = ~((uint64_t{1} << 45) - 1);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(v) & kept);
  };
  const auto next_edge = [](double v) {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(v) + (uint64_t{1} << 45));
  };
  ReportHistogram fine{quantity, slice, {}, {}, 0};
  std::map<double, int64_t> counts;  // by lower edge
  for (const double v : sorted) {
    counts[v >= 0 ? edge_below(v) : -next_edge(edge_below(-v))] += scale;
  }
  for (const auto& [lo, count] : counts) {
    const double hi = lo >= 0 ? next_edge(lo) : -edge_below(std::nextafter(-lo, 0.0));
    if (!fine.edges.empty() && fine.edges.back() < lo) {  // a gap is an empty bucket
      fine.counts.push_back(0);
      fine.edges.push_back(lo);
    } else if (fine.edges.empty()) {
      fine.edges.push_back(lo);
    }
    fine.counts.push_back(count);
    fine.edges.push_back(hi);
  }
  return Coarsen(std::move(fine), kBucketsShown);
}

void AddQuantity(const QuantityShape& shape, const SliceShape& slice, uint64_t seed,
                 ReportData* report) {
  Random random(seed);
  std::vector<double> values(kDrawn);
  for (double& v : values) {
    const double normal = random.Normal();
    // A few tokens in a thousand are far worse than the rest, as in real builds.
    const double tail = random.Uniform() < 0.004 ? 5 : 1;
    v = shape.is_signed ? shape.center * slice.drift * normal * tail
                        : shape.center * slice.drift * std::exp(shape.spread * normal) * tail;
    if (shape.name.ends_with("overlap")) v = std::clamp(1 - v, 0.0, 1.0);
  }
  std::sort(values.begin(), values.end());
  QuantityStatistics s;
  const int64_t scale = std::max<int64_t>(1, slice.tokens / static_cast<int64_t>(kDrawn));
  s.count = scale * static_cast<int64_t>(kDrawn);
  double sum = 0;
  for (const double v : values) sum += v;
  s.mean = sum / static_cast<double>(kDrawn);
  s.min = values.front();
  s.max = values.back();
  s.p50 = At(values, 0.5);
  s.p90 = At(values, 0.9);
  s.p95 = At(values, 0.95);
  s.p99 = At(values, 0.99);
  s.p999 = At(values, 0.999);
  report->quantities.push_back({shape.name, slice.name, s});
  report->histograms.push_back(HistogramOf(values, shape.name, slice.name, scale));
}

void AddCurve(const SliceShape& slice, uint64_t seed, ReportData* report) {
  Random random(seed);
  struct Token {
    double margin;
    bool top1, top5;
  };
  std::vector<Token> tokens(kDrawn);
  for (Token& token : tokens) {
    token.margin = std::exp(0.6 + 1.3 * random.Normal());
    token.top1 = random.Uniform() < 0.5 * std::exp(-token.margin / (0.06 * slice.drift));
    token.top5 = random.Uniform() < 0.9 * std::exp(-token.margin / (0.25 * slice.drift));
  }
  const int64_t scale = std::max<int64_t>(1, slice.tokens / static_cast<int64_t>(kDrawn));
  DisagreementCurve curve{slice.name, scale * static_cast<int64_t>(kDrawn), {}};
  for (int step = -12; step <= 10; ++step) {
    DisagreementPoint point;
    point.margin = std::ldexp(1.0, step / 2) * (step % 2 == 0 ? 1 : step > 0 ? 1.5 : 0.75);
    for (const Token& token : tokens) {
      if (token.margin > point.margin) continue;
      point.tokens += scale;
      point.top1 += token.top1 ? scale : 0;
      point.top5 += token.top5 ? scale : 0;
    }
    curve.points.push_back(point);
  }
  report->curves.push_back(std::move(curve));
}

void AddWorst(const SliceShape& slice, const std::string& quantity, int rows, uint64_t seed,
              ReportData* report) {
  constexpr std::array<std::string_view, 5> kContexts = {
      "…therefore the integral converges only if ⟦p⟧ > 1, since the tail…",
      "…    return cache.get(key, ⟦default⟧)\n\n  def evict(self):…",
      "…le traité fut signé à ⟦Utrecht⟧ en 1713, mettant fin à…",
      "…I can't help with that, but here is ⟦a⟧ safer alternative you might…",
      "…在这种情况下，模型应当⟦拒绝⟧回答并说明原因…"};
  double value = 0;
  for (const QuantitySlice& row : report->quantities) {
    if (row.quantity == quantity && row.slice == slice.name) value = row.statistics.max;
  }
  Random random(seed);
  for (int i = 0; i < rows; ++i) {
    WorstToken token{quantity, slice.name, value, "req-" + std::to_string(1000 + i * 37),
                     0,        0,          {},    {}};
    token.position = static_cast<int64_t>(random.Uniform() * 8000);
    token.token = static_cast<int64_t>(random.Uniform() * 150000);
    if (i % 3 != 2) token.context = kContexts[static_cast<size_t>(i) % kContexts.size()];
    if (i % 2 == 0) token.tags = {"code", "long"};
    report->worst.push_back(std::move(token));
    value *= 0.8 + 0.19 * random.Uniform();
  }
}

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
