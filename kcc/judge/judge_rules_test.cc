// Every verdict rule of docs/design.md section 8, as a table: a clause as people write it,
// evidence, and the verdict with a word of its reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kcc/judge/clause_test_data.h"
#include "kcc/judge/judge.h"

namespace kcc {
namespace {

using testing::At;
using testing::Evidence;
using ::testing::HasSubstr;
using testing::JudgedRequest;
using testing::JudgedToken;
using testing::Measure;
using testing::OneClause;
using testing::Tokens;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kSatisfied = Verdict::kSatisfied;
constexpr auto kViolated = Verdict::kViolated;
constexpr auto kInconclusive = Verdict::kInconclusive;
constexpr auto kError = Verdict::kError;

constexpr const char* kDigest =
    "sha256:0000000000000000000000000000000000000000000000000000000000000000";
std::vector<double> Times(size_t n, double value, std::vector<double> more = {}) {
  more.insert(more.end(), n, value);
  return more;
}

Evidence Fields(const std::string& field, const std::vector<double>& values) {
  Evidence evidence;
  for (const double value : values) evidence.Add().Both(field, value);
  return evidence;
}

Evidence Flags(const std::string& field, size_t infer_only, size_t neither, size_t train_only = 0) {
  Evidence evidence;
  for (size_t i = 0; i < infer_only + neither + train_only; ++i) {
    JudgedRequest& request = evidence.Add();
    request.infer.fields[field] = i < infer_only;
    request.train.fields[field] = i >= infer_only + neither;
  }
  return evidence;
}

struct Rule {
  std::string name;
  Contract contract;
  Evidence evidence;
  Verdict verdict;
  std::string reason;  // a part of it
};

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

class Rules : public ::testing::TestWithParam<Rule> {};

TEST_P(Rules, GiveTheVerdict) {
  const Rule& rule = GetParam();
  const Judgement judgement = Judge(rule.contract, Measure(rule.contract, rule.evidence));
  ASSERT_EQ(judgement.clauses.size(), 1u);
  const SliceVerdict& slice = judgement.clauses[0].slices[0];
  EXPECT_EQ(Name(slice.verdict()), Name(rule.verdict)) << slice.about.reason;
  EXPECT_THAT(slice.about.reason, HasSubstr(rule.reason));
  EXPECT_FALSE(slice.about.reason.empty());
  EXPECT_EQ(judgement.verdict, slice.verdict());
  EXPECT_EQ(judgement.convergent, rule.verdict == kSatisfied);
}

std::string Named(const ::testing::TestParamInfo<Rule>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

Evidence With(Evidence evidence, const std::function<void(Evidence*)>& change) {
  change(&evidence);
  return evidence;
}

Evidence Unmeasured(Evidence evidence, size_t count) {
  evidence.unmeasured = count;
  return evidence;
}

TEST(EventConformance, ASummaryThatDoesNotKeepItDecidesNothing) {
  const Plan other = Plan::FromContract(OneClause("max_kl, atMost: 1"));
  const Judgement judgement = Judge(OneClause("event_conformance, atLeast: 0.5"),
                                    Measure(other, Fields("latency_ms", {1, 2})));
  EXPECT_EQ(judgement.verdict, kInconclusive);
  EXPECT_THAT(judgement.clauses[0].slices[0].about.reason,
              HasSubstr("measured without which records keep to the published schema"));
}

// n requests of which one lacks the value.
Evidence OneMissing(std::string_view quantity, const std::vector<double>& values) {
  return With(Tokens(quantity, values), [](Evidence* e) { e->Add().tokens.emplace_back(); });
}

// --- About the evaluation set: the evidence is the population.

INSTANTIATE_TEST_SUITE_P(
    Hard, Rules,
    ::testing::Values(
        Rule{"no token, and a field that nobody recorded", OneClause("max_latency_ms, atMost: 5"),
             Fields("ttft_ms", {1}), kInconclusive, "the evidence holds no value of latency_ms"},
        Rule{"no token at all", OneClause("max_kl, atMost: 5"), Fields("ttft_ms", {1}),
             kInconclusive, "no token of the evidence counts"},
        Rule{"mean at the threshold holds", OneClause("mean_kl, atMost: 0.5"),
             Tokens("kl", {0.25, 0.75}), kSatisfied, "mean_kl is 0.5, at most 0.5 is asked"},
        Rule{"mean a bit beyond fails", OneClause("mean_kl, atMost: 0.5"),
             Tokens("kl", {0.25, std::nextafter(0.75, 1) + 1e-15}), kViolated, ""},
        Rule{"nine of ten are at least 90 percent", OneClause("mean_top1_overlap, atLeast: 0.9"),
             Tokens("top1_overlap", Times(9, 1, {0})), kSatisfied, "is 0.9, at least 0.9"},
        Rule{"seven of a hundred are at most 7 percent",
             OneClause("rate_bit_mismatch, atMost: 0.07"),
             Tokens("bit_mismatch", Times(93, 0, Times(7, 1))), kSatisfied, ""},
        Rule{"29 of a hundred are at most 29 percent", OneClause("rate_bit_mismatch, atMost: 0.29"),
             Tokens("bit_mismatch", Times(71, 0, Times(29, 1))), kSatisfied, ""},
        Rule{"30 of a hundred are not", OneClause("rate_bit_mismatch, atMost: 0.29"),
             Tokens("bit_mismatch", Times(70, 0, Times(30, 1))), kViolated, ""},
        Rule{"rate at least counts zeros", OneClause("rate_top1_overlap, atLeast: 0.9"),
             Tokens("top1_overlap", Times(8, 1, {0, 0})), kViolated, ""},
        Rule{"p99 allows one of a hundred", OneClause("p99_kl, atMost: 0.5"),
             Tokens("kl", Times(99, 0.5, {0.6})), kSatisfied, ""},
        Rule{"p99 does not allow two", OneClause("p99_kl, atMost: 0.5"),
             Tokens("kl", Times(98, 0.5, {0.6, 0.6})), kViolated, ""},
        Rule{"p99 of 99 values is their maximum", OneClause("p99_kl, atMost: 0.5"),
             Tokens("kl", Times(98, 0.5, {0.6})), kViolated, ""},
        Rule{"p999 allows one of a thousand", OneClause("p999_kl, atMost: 0.5"),
             Tokens("kl", Times(999, 0.5, {0.6})), kSatisfied, ""},
        Rule{"p50 at least", OneClause("p50_top5_overlap, atLeast: 0.8"),
             Tokens("top5_overlap", {0.6, 0.8, 1}), kSatisfied, ""},
        Rule{"p01 at least", OneClause("p01_top5_overlap, atLeast: 0.8"),
             Tokens("top5_overlap", Times(99, 0.8, {0.6})), kViolated, ""},
        Rule{"p001 at least allows none of a thousand",
             OneClause("p001_top5_overlap, atLeast: 0.8"),
             Tokens("top5_overlap", Times(999, 0.8, {0.6})), kViolated, ""},
        Rule{"p001 at least allows one of two thousand",
             OneClause("p001_top5_overlap, atLeast: 0.8"),
             Tokens("top5_overlap", Times(1999, 0.8, {0.6})), kSatisfied, ""},
        Rule{"max is broken by one value", OneClause("max_kl, atMost: 0.5"),
             Tokens("kl", Times(999, 0, {0.5000001})), kViolated, ""},
        Rule{"min at least is broken by one value", OneClause("min_top5_overlap, atLeast: 0.4"),
             Tokens("top5_overlap", Times(999, 1, {0.2})), kViolated, ""},
        Rule{"min at most needs one value within", OneClause("min_log_ratio, atMost: 0"),
             Tokens("log_ratio", {0.5, -0.5}), kSatisfied, ""},
        Rule{"a signed quantity may be bound from below",
             OneClause("mean_log_ratio, atLeast: -0.1"), Tokens("log_ratio", {-0.5, 0.1}),
             kViolated, ""},
        Rule{"a request quantity", OneClause("p95_latency_ms, atMost: 400"),
             Fields("latency_ms", Times(19, 400, {500})), kSatisfied, ""},
        Rule{"a timed out request exceeds", OneClause("p95_latency_ms, atMost: 400"),
             With(Fields("latency_ms", Times(19, 400, {500})),
                  [](Evidence* e) { e->Add().infer.fields["timed_out"] = true; }),
             kViolated, ""},
        Rule{"the train side has its own metrics", OneClause("max_train_latency_ms, atMost: 400"),
             With(Fields("latency_ms", {100}),
                  [](Evidence* e) { e->requests[0].train.fields["latency_ms"] = 500.0; }),
             kViolated, ""},
        Rule{"a sequence is the sum of its tokens", OneClause("max_seq_log_ratio, atMost: 0.3"),
             With(Evidence(),
                  [](Evidence* e) {
                    e->Add().tokens = {JudgedToken().Set("log_ratio", 0.25),
                                       JudgedToken().Set("log_ratio", 0.25)};
                  }),
             kViolated, "is 0.5"},
        Rule{"overflow counts as beyond", OneClause("mean_kl, atMost: 1000"),
             Tokens("kl", {0, kInf}), kViolated, "inf"},
        Rule{"overflow never helps", OneClause("mean_w, atLeast: 0.9"), Tokens("w", {0, kInf}),
             kError, "overflowed"},
        Rule{"infinities of both signs have no mean", OneClause("mean_log_ratio, atLeast: -0.1"),
             Tokens("log_ratio", {-kInf, kInf}), kError, "overflowed"}),
    Named);

INSTANTIATE_TEST_SUITE_P(
    Populations, Rules,
    ::testing::Values(
        Rule{"a share of requests", OneClause("failure_rate, atMost: 0.1"), Flags("failed", 1, 9),
             kSatisfied, ""},
        Rule{"a gap of shares", OneClause("refusal_rate_gap, atMost: 0.1"),
             Flags("refused", 3, 16, 1), kSatisfied, "is 0.1"},
        Rule{"a gap of shares beyond", OneClause("refusal_rate_gap, atMost: 0.1"),
             Flags("refused", 4, 16), kViolated, ""},
        Rule{"flips are tokens whose best token differs", OneClause("flip_rate, atMost: 0.2"),
             Tokens("top1_overlap", {0, 1, 1}), kViolated, ""},
        Rule{"coverage of listed fields",
             OneClause("trace_field_coverage, atLeast: 1, fields: [seed]"),
             With(Fields("seed", {1, 2}), [](Evidence* e) { e->Add(); }), kViolated, ""},
        Rule{"coverage says which field is missing",
             OneClause("trace_field_coverage, atLeast: 1, fields: [seed]"),
             With(Fields("seed", {1, 2}), [](Evidence* e) { e->Add(); }), kViolated,
             "is 0.6667, at least 1 is asked; missing: seed from 1 of 3 requests"},
        Rule{"coverage says which fields are missing",
             OneClause("trace_field_coverage, atLeast: 1, fields: [seed, tags, lost]"),
             With(Fields("tags", {1, 2}), [](Evidence* e) { e->Add().Both("seed", 1.0); }),
             kViolated,
             "missing: lost from 3 of 3 requests, seed from 2 of 3 requests, tags from 1 of 3"},
        Rule{"coverage of all", OneClause("trace_field_coverage, atLeast: 1, fields: [seed]"),
             Fields("seed", {1, 2}), kSatisfied, ""},
        Rule{"events that keep to the schema", OneClause("event_conformance, atLeast: 1"),
             Fields("latency_ms", {1, 2}), kSatisfied, ""},
        Rule{"an event that does not", OneClause("event_conformance, atLeast: 0.9"),
             With(Fields("latency_ms", {1, 2}),
                  [](Evidence* e) { e->Add().infer.fields["failed"] = std::string("no"); }),
             kViolated, "is 0.6667, at least 0.9 is asked; 1 of 3 records do not keep to it"},
        Rule{"an impossible value does not keep to it either",
             OneClause("event_conformance, atLeast: 1"), Fields("latency_ms", {1, -1}), kViolated,
             ""},
        Rule{"nothing was logged", OneClause("event_conformance, atLeast: 0.5"),
             With(Fields("latency_ms", {1}), [](Evidence* e) { e->Add(); }), kInconclusive, ""},
        Rule{"the largest memory", OneClause("peak_memory_mb, atMost: 100"),
             Fields("peak_memory_mb", {90, 101}), kViolated, ""},
        Rule{"reward drift is a gap of means", OneClause("reward_drift, atMost: 0.1"),
             With(Fields("reward", {1, 0}),
                  [](Evidence* e) { e->requests[0].infer.fields["reward"] = 0.5; }),
             kViolated, "is 0.25"}),
    Named);

Evidence InOrder(const std::string& place, double step, const std::vector<double>& kl) {
  Evidence evidence = Tokens("kl", kl);
  for (size_t i = 0; i < evidence.requests.size(); ++i) {
    evidence.requests[i].Both(place, step * static_cast<double>(i));
  }
  return evidence;
}

INSTANTIATE_TEST_SUITE_P(
    Soft, Rules,
    ::testing::Values(
        Rule{"the budget may be used up", OneClause("mean_kl, atMost: 0.5, exceedance: 10%"),
             Tokens("kl", Times(9, 0.5, {9})), kSatisfied, "1 of 10 windows (request)"},
        Rule{"and not more", OneClause("mean_kl, atMost: 0.5, exceedance: 10%"),
             Tokens("kl", Times(8, 0.5, {9, 9})), kViolated, "2 of 10 windows"},
        Rule{"29 percent of a hundred windows are 29",
             OneClause("mean_kl, atMost: 0.5, exceedance: 29%"),
             Tokens("kl", Times(71, 0.5, Times(29, 1))), kSatisfied, "29 may"},
        Rule{"windows of two requests",
             OneClause("mean_kl, atMost: 0.5, exceedance: 40%, window: 2 requests"),
             InOrder("ordinal", 1, {0, 1, 1, 1}), kViolated, "1 of 2 windows (2 requests)"},
        Rule{"a partial window counts as what it is",
             OneClause("mean_kl, atMost: 0.5, exceedance: 60%, window: 2 requests"),
             InOrder("ordinal", 1, {0, 0, 1}), kSatisfied, "1 of 2 windows"},
        Rule{"windows of time", OneClause("mean_kl, atMost: 0.5, exceedance: 40%, window: 1s"),
             InOrder("started_at_ms", 500, {0, 1, 1, 1}), kViolated, "1 of 2 windows (1s)"},
        Rule{"a window of a population quantity",
             OneClause("failure_rate, atMost: 0.5, exceedance: 40%, window: 2 requests"),
             With(Flags("failed", 2, 2),
                  [](Evidence* e) {
                    for (size_t i = 0; i < 4; ++i) {
                      e->requests[i].Both("ordinal", static_cast<double>(i));
                    }
                  }),
             kViolated, "1 of 2 windows"},
        Rule{"a request without a place is missing",
             OneClause("mean_kl, atMost: 0.5, exceedance: 60%, window: 2 requests"),
             With(InOrder("ordinal", 1, {0, 0, 0}),
                  [](Evidence* e) {
                    e->requests[1] = Tokens("kl", {0.0}).requests[0];
                    e->requests[1].infer.id = "elsewhere";
                  }),
             kInconclusive, "missing"},
        Rule{"a window with a gap is missing", OneClause("mean_kl, atMost: 0.5, exceedance: 60%"),
             With(Tokens("kl", {0, 0}), [](Evidence* e) { e->requests[0].tokens.emplace_back(); }),
             kInconclusive, "missing"},
        Rule{"sampled tokens do not give a mean per window",
             OneClause("mean_kl, atMost: 0.5, exceedance: 60%"),
             With(Tokens("kl", {0, 0}), [](Evidence* e) { e->sampled_only = true; }), kInconclusive,
             "not in each window"}),
    Named);

INSTANTIATE_TEST_SUITE_P(
    Missing, Rules,
    ::testing::Values(
        Rule{"an empty slice is inconclusive",
             OneClause("mean_kl, atMost: 0.5, slices: [some]",
                       "  slices: [{name: some, where: \"kept == true\"}]\n"),
             Tokens("kl", {0}), kInconclusive, "no request of the evidence is in this slice"},
        Rule{"so is a quantity nobody measured", OneClause("mean_kl, atMost: 0.5"),
             Tokens("tv", {0}), kInconclusive, "holds no value of kl"},
        Rule{"so are requests of which no token counts", OneClause("mean_kl, atMost: 0.5"),
             With(Tokens("kl", {}), [](Evidence* e) { e->Add(); }), kInconclusive,
             "lie before their request's prompt_tokens"},
        Rule{"so is a field nobody recorded", OneClause("failure_rate, atMost: 0.5"),
             Tokens("tv", {0}), kInconclusive, "request fields: failed"},
        Rule{"one missing value forbids satisfied", OneClause("mean_kl, atMost: 0.5"),
             OneMissing("kl", {0, 0}), kInconclusive, "1 values are missing"},
        Rule{"one missing value cannot save a maximum", OneClause("max_kl, atMost: 0.5"),
             OneMissing("kl", {1}), kViolated, ""},
        Rule{"one missing value may save a median", OneClause("p50_kl, atMost: 0.5"),
             OneMissing("kl", {1, 1, 0}), kInconclusive, "missing"},
        Rule{"but not always", OneClause("p50_kl, atMost: 0.5"), OneMissing("kl", {1, 1, 1}),
             kViolated, ""},
        Rule{"one missing value may save a mean", OneClause("mean_kl, atMost: 0.5"),
             OneMissing("kl", {0.75}), kInconclusive, "missing"},
        Rule{"but not a mean far off", OneClause("mean_kl, atMost: 0.5"), OneMissing("kl", {9}),
             kViolated, ""},
        Rule{"a mean without a lower end could be anything",
             OneClause("mean_log_ratio, atMost: 0.5"), OneMissing("log_ratio", {9}), kInconclusive,
             "missing"},
        Rule{"a flag on one side alone is missing", OneClause("refusal_rate_gap, atMost: 0.5"),
             With(Flags("refused", 0, 3), [](Evidence* e) { e->requests[0].train.fields.clear(); }),
             kInconclusive, "missing"},
        Rule{"too few requests", OneClause("mean_kl, atMost: 0.5, minSamples: {requests: 3}"),
             Tokens("kl", {0, 0}), kInconclusive, "2 requests, the clause asks for 3"},
        Rule{"too few tokens", OneClause("mean_kl, atMost: 0.5, minSamples: {tokens: 3}"),
             Tokens("kl", {9, 9}), kInconclusive, "what there is lies beyond"},
        Rule{"enough of both",
             OneClause("mean_kl, atMost: 0.5, minSamples: {requests: 2, tokens: 2}"),
             Tokens("kl", {0, 0}), kSatisfied, ""},
        Rule{"a shard that was not merged", OneClause("mean_kl, atMost: 0.5"),
             Unmeasured(Tokens("kl", {0, 0, 0}), 1), kInconclusive,
             "1 requests of the traces were not measured"},
        Rule{"a shard may save a percentile", OneClause("p50_kl, atMost: 0.5"),
             Unmeasured(Tokens("kl", {1, 1, 1, 0}), 3), kInconclusive, "not measured"},
        Rule{"but not one that is lost", OneClause("p50_kl, atMost: 0.5"),
             Unmeasured(Tokens("kl", {1, 1, 1, 0}), 1), kViolated, ""},
        Rule{"nor a maximum", OneClause("max_kl, atMost: 0.5"),
             Unmeasured(Tokens("kl", {1, 0, 0, 0}), 3), kViolated, ""}),
    Named);

Evidence Intervals(const std::vector<std::pair<double, double>>& kl) {
  Evidence evidence;
  for (const auto& [lo, hi] : kl) evidence.Add().tokens.push_back(JudgedToken().Set("kl", lo, hi));
  return evidence;
}

INSTANTIATE_TEST_SUITE_P(
    PartialEvidence, Rules,
    ::testing::Values(
        Rule{"an interval within holds", OneClause("mean_kl, atMost: 0.5"),
             Intervals({{0, 0.25}, {0.25, 0.75}}), kSatisfied, "between 0.125 and 0.5"},
        Rule{"an interval beyond fails", OneClause("mean_kl, atMost: 0.5"),
             Intervals({{0.5, 1}, {0.75, kInf}}), kViolated, ""},
        Rule{"an interval that straddles decides nothing", OneClause("mean_kl, atMost: 0.5"),
             Intervals({{0, 1}, {0.25, 1}}), kInconclusive, "threshold lies inside"},
        Rule{"a maximum that straddles", OneClause("max_kl, atMost: 0.5"),
             Intervals({{0, 1}, {0, 0.25}}), kInconclusive, "threshold lies inside"},
        Rule{"a percentile of the worse ends", OneClause("p50_kl, atMost: 0.5"),
             Intervals({{0, 1}, {0, 0.25}, {0, 0.5}}), kSatisfied, ""},
        Rule{"windows that straddle", OneClause("mean_kl, atMost: 0.5, exceedance: 40%"),
             Intervals({{0, 1}, {0, 0.25}}), kInconclusive, "0 to 1 of 2 windows"}),
    Named);
Evidence OfModel(const std::string& train, const std::string& infer) {
  Evidence evidence = Tokens("kl", {0});
  evidence.change_source = [=](Source* s) {
    s->train.model_digest = train;
    s->infer.model_digest = infer;
  };
  return evidence;
}

std::string Binding() { return "  binds: {model: {digest: \"" + std::string(kDigest) + "\"}}\n"; }

INSTANTIATE_TEST_SUITE_P(
    Relevance, Rules,
    ::testing::Values(Rule{"another temperature is an error", OneClause("mean_kl, atMost: 0.5"),
                           At(0.7), kError,
                           "measured at temperature 0.7, but the contract assumes 1"},
                      Rule{"the temperature the contract assumes",
                           OneClause("mean_kl, atMost: 0.5", "  assumptions: {temperature: 0.7}\n"),
                           At(0.7), kSatisfied, ""},
                      Rule{"another model is an error",
                           OneClause("mean_kl, atMost: 0.5", Binding()),
                           OfModel(kDigest, "sha256:1"), kError, "about model sha256:1"},
                      Rule{"the model that is bound", OneClause("mean_kl, atMost: 0.5", Binding()),
                           OfModel(kDigest, kDigest), kSatisfied, ""},
                      Rule{"a model that is not stated is not satisfied",
                           OneClause("mean_kl, atMost: 0.5", Binding()), OfModel("", kDigest),
                           kInconclusive, "does not say which model"}),
    Named);

// --- Whose word the evidence is.

Evidence Declaring(const std::map<std::string, std::string>& infer) {
  Evidence evidence = Tokens("kl", {0});
  evidence.change_source = [=](Source* s) { s->infer.declares = infer; };
  return evidence;
}

const std::string kBindsEngine = "  binds: {infer: {engine: vllm}}\n";

INSTANTIATE_TEST_SUITE_P(
    Declared, Rules,
    ::testing::Values(
        Rule{"what is bound is declared", OneClause("mean_kl, atMost: 0.5", kBindsEngine),
             Declaring({{"engine", "vllm"}}), kSatisfied, ""},
        Rule{"another value is an error", OneClause("mean_kl, atMost: 0.5", kBindsEngine),
             Declaring({{"engine", "sglang"}}), kError, "declares engine 'sglang'"},
        Rule{"what is not declared is not satisfied",
             OneClause("mean_kl, atMost: 0.5", kBindsEngine), Declaring({{"dtype", "bf16"}}),
             kInconclusive, "which the infer kernel does not declare"},
        Rule{"other requests than those bound",
             OneClause("mean_kl, atMost: 0.5",
                       "  binds: {requests: \"" + std::string(kDigest) + "\"}\n"),
             With(Tokens("kl", {0}),
                  [](Evidence* e) {
                    e->change_source = [](Source* s) { s->request_set = "sha256:1"; };
                  }),
             kError, "about the requests sha256:1"},
        Rule{
            "a temperature that is not known", OneClause("mean_kl, atMost: 0.5"),
            With(Tokens("kl", {0}),
                 [](Evidence* e) { e->change_source = [](Source* s) { s->temperature.reset(); }; }),
            kInconclusive, "does not say at which temperature"}),
    Named);

}  // namespace
}  // namespace kcc
