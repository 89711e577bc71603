// Every verdict rule of docs/design.md section 8, as a table: a clause as people write it,
// evidence, and the verdict with a word of its reason.
#include "kcc/judge/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

using testing::Evidence;
using ::testing::HasSubstr;
using testing::JudgedRequest;
using testing::JudgedToken;
using testing::Measure;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kSatisfied = Verdict::kSatisfied;
constexpr auto kViolated = Verdict::kViolated;
constexpr auto kInconclusive = Verdict::kInconclusive;
constexpr auto kError = Verdict::kError;

constexpr const char* kDigest =
    "sha256:0000000000000000000000000000000000000000000000000000000000000000";

Contract Read(const std::string& spec) {
  const std::string yaml =
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: test, version: 1.0.0}\nspec:\n" +
      spec;
  const ReadOutcome outcome = ReadContract(yaml);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    EXPECT_NE(diagnostic.kind, DiagnosticKind::kError)
        << FormatDiagnostic(diagnostic, "test.yaml", yaml);
  }
  return outcome.contract.value_or(Contract());
}

// A contract of one clause: "p99_kl, atMost: 0.5" and what else the case needs.
Contract OneClause(const std::string& clause, const std::string& spec = "") {
  return Read(spec + "  numerical:\n    - {id: C, level: L2, metric: " + clause + "}\n");
}

// One request per value, one token each.
Evidence Tokens(std::string_view quantity, const std::vector<double>& values) {
  Evidence evidence;
  for (const double value : values) {
    evidence.Add().tokens.push_back(JudgedToken().Set(quantity, value));
  }
  return evidence;
}

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
        Rule{"coverage of all", OneClause("trace_field_coverage, atLeast: 1, fields: [seed]"),
             Fields("seed", {1, 2}), kSatisfied, ""},
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

Evidence At(double temperature) {
  Evidence evidence = Tokens("kl", {0});
  evidence.change_source = [temperature](Source* s) { s->temperature = temperature; };
  return evidence;
}

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

// What a summary of format 1 says of a contract, and its warnings.
Judgement OfFormat1(const Contract& contract, const Evidence& evidence) {
  const Summary summary = Measure(contract, evidence);
  const Result<Summary> old = DecodeSummary(EncodeSummary(summary, 1));
  EXPECT_TRUE(old.has_value());
  EXPECT_EQ(Judge(contract, summary).verdict, kSatisfied);
  return Judge(contract, *old);
}

TEST(Judge, ASummaryOfFormat1IsNotSatisfiedByWhatItDoesNotSay) {
  const Evidence evidence = Tokens("kl", {0, 0.25});
  Evidence in_memory = evidence;
  in_memory.change_source = [](Source* s) { s->evidence = EvidenceLevel::kSampledToken; };
  const Judgement plain = OfFormat1(OneClause("mean_kl, atMost: 0.5"), in_memory);
  EXPECT_EQ(plain.verdict, kInconclusive) << "evidence from memory: at which temperature?";

  Evidence traced = evidence;
  traced.change_source = [](Source* s) {
    s->train.identity = "sha256:1";
    s->infer.identity = "sha256:2";
  };
  const Judgement known = OfFormat1(OneClause("mean_kl, atMost: 0.5"), traced);
  EXPECT_EQ(known.verdict, kSatisfied);
  ASSERT_EQ(known.warnings.size(), 1u);
  EXPECT_THAT(known.warnings[0], HasSubstr("format 1"));

  const std::string slices = "  slices: [{name: s, where: kept == true}]\n";
  Evidence kept = traced;
  for (JudgedRequest& request : kept.requests) request.Both("kept", true);
  const Judgement sliced = OfFormat1(OneClause("mean_kl, atMost: 0.5, slices: [s]", slices), kept);
  EXPECT_EQ(sliced.verdict, kInconclusive);
  EXPECT_THAT(sliced.clauses[0].slices[0].about.reason, HasSubstr("whose word 'kept' is"));

  const Judgement bound =
      OfFormat1(OneClause("mean_kl, atMost: 0.5", "  binds: {infer: {engine: vllm}}\n"), traced);
  EXPECT_EQ(bound.verdict, kInconclusive);
}

TEST(Judge, NamesTheFieldThatWouldPlaceRequestsInWindows) {
  const Contract contract = OneClause("mean_kl, atMost: 0.5, exceedance: 10%, window: 2 requests");
  Evidence evidence = Tokens("kl", {0, 0.25});
  for (size_t i = 0; i < 2; ++i) {
    evidence.requests[i].infer.fields["ordinal"] = static_cast<double>(i);
  }
  const SliceVerdict slice = Judge(contract, Measure(contract, evidence)).clauses[0].slices[0];
  EXPECT_EQ(slice.verdict(), kInconclusive);
  EXPECT_THAT(slice.about.reason,
              HasSubstr("2 requests are missing from the windows: no ordinal on the train side"));
}

// --- Actions, stages and what they add up to.

TEST(Judge, TheDefaultPopulationFollowsTheStage) {
  const Contract contract = OneClause("mean_kl, atMost: 0.5");
  const Summary summary = Measure(contract, Tokens("kl", {0}));
  const auto about = [&](const JudgeOptions& options) {
    return Judge(contract, summary, options).about;
  };
  EXPECT_EQ(about({.stage = Stage::kOffline, .about = {}}), Population::kEvaluationSet);
  for (const Stage stage : {Stage::kShadow, Stage::kCanary, Stage::kFull}) {
    EXPECT_EQ(about({.stage = stage, .about = {}}), Population::kTraffic);
    EXPECT_EQ(about({.stage = stage, .about = Population::kEvaluationSet}),
              Population::kEvaluationSet);
  }
  Contract said = contract;
  said.decision.about = Population::kTraffic;
  EXPECT_EQ(Judge(said, summary).about, Population::kTraffic);
}

TEST(Judge, TheOtherPopulationIsTheSecondColumn) {
  Contract contract = OneClause("max_kl, atMost: 0.5");
  const Summary summary = Measure(contract, Tokens("kl", {0}));
  const SliceVerdict slice = Judge(contract, summary).clauses[0].slices[0];
  EXPECT_EQ(slice.about.verdict, kSatisfied);
  EXPECT_EQ(slice.other.verdict, kInconclusive);
  EXPECT_THAT(slice.other.reason, HasSubstr("p999_kl"));
  contract.decision.about = Population::kTraffic;
  const SliceVerdict turned = Judge(contract, summary).clauses[0].slices[0];
  EXPECT_EQ(turned.about.reason, slice.other.reason);
  EXPECT_EQ(turned.other.reason, slice.about.reason);
}

TEST(Judge, ClausesOfOtherStagesAreLeftOut) {
  const Contract contract = Read(
      "  numerical:\n    - {id: A, metric: mean_kl, atMost: 0.5, level: L2, stages: [canary]}\n"
      "    - {id: B, metric: mean_kl, atMost: 0.6, level: L2}\n");
  const Summary summary = Measure(contract, Tokens("kl", {0}));
  EXPECT_EQ(Judge(contract, summary).clauses.size(), 1u);
  EXPECT_EQ(Judge(contract, summary, {.stage = Stage::kCanary, .about = {}}).clauses.size(), 2u);
  Contract none = contract;
  none.clauses.resize(1);
  const Judgement empty = Judge(none, summary);
  EXPECT_EQ(empty.verdict, kInconclusive) << "nothing judged shows nothing";
  EXPECT_FALSE(empty.convergent);
  EXPECT_EQ(empty.action, Action::kGuard);
}

struct ActionCase {
  std::string name;
  std::string spec;
  std::vector<double> kl;
  Verdict verdict;
  std::optional<Action> action;
};

TEST(Judge, OrdersTheActionOfTheMostSevere) {
  const std::string three =
      "  numerical:\n    - {id: A, metric: max_kl, atMost: 1, level: L1}\n"
      "    - {id: B, metric: max_kl, atMost: 2, level: L2}\n"
      "    - {id: C, metric: max_kl, atMost: 3, level: L3}\n";
  const std::string override_l2 =
      "  escalation: {overrides: [{family: numerical, level: L2, action: freeze}]}\n";
  const std::string own =
      "  numerical: [{id: A, metric: max_kl, atMost: 1, level: L2, action: rollback}]\n";
  const ActionCase cases[] = {
      {"nothing violated orders nothing", three, {0.5}, kSatisfied, std::nullopt},
      {"L1 logs", three, {1.5}, kViolated, Action::kLog},
      {"L2 guards", three, {2.5}, kViolated, Action::kGuard},
      {"L3 falls back", three, {3.5}, kViolated, Action::kFallback},
      {"an override beats the level", override_l2 + three, {2.5}, kViolated, Action::kFreeze},
      {"a clause's own action beats an override",
       override_l2 + own,
       {2.5},
       kViolated,
       Action::kRollback},
      {"inconclusive guards", three, {}, kInconclusive, Action::kGuard},
      {"or what onInconclusive says",
       "  escalation: {onInconclusive: rollback}\n" + three,
       {},
       kInconclusive,
       Action::kRollback},
  };
  for (const ActionCase& row : cases) {
    const Contract contract = Read(row.spec);
    const Judgement judgement = Judge(contract, Measure(contract, Tokens("kl", row.kl)));
    EXPECT_EQ(Name(judgement.verdict), Name(row.verdict)) << row.name;
    EXPECT_EQ(judgement.action, row.action) << row.name;
  }
}

TEST(Judge, OnErrorSaysWhatBrokenEvidenceOrders) {
  Contract contract = OneClause("mean_kl, atMost: 0.5", "  escalation: {onError: freeze}\n");
  const Judgement judgement = Judge(contract, Measure(contract, At(0.5)));
  EXPECT_EQ(judgement.action, Action::kFreeze);
  EXPECT_EQ(judgement.health, 0) << "an error is no deviation";
}

TEST(Judge, ViolatedOutweighsErrorOutweighsInconclusiveOutweighsSatisfied) {
  // mean_w overflows in the good direction: an error of that clause alone.
  const std::string satisfied = "    - {id: A, metric: max_tv, atMost: 0.5, level: L1}\n";
  const std::string inconclusive = "    - {id: B, metric: max_k3, atMost: 0.5, level: L1}\n";
  const std::string error = "    - {id: C, metric: mean_w, atLeast: 0.5, level: L1}\n";
  const std::string violated = "    - {id: D, metric: max_kl, atMost: 0.5, level: L1}\n";
  Evidence evidence;
  evidence.Add().tokens = {JudgedToken().Set("tv", 0).Set("w", kInf).Set("kl", 1)};
  const auto verdict = [&](const std::string& clauses) {
    const Contract contract = Read("  numerical:\n" + clauses);
    return Judge(contract, Measure(contract, evidence)).verdict;
  };
  EXPECT_EQ(verdict(satisfied), kSatisfied);
  EXPECT_EQ(verdict(satisfied + inconclusive), kInconclusive);
  EXPECT_EQ(verdict(satisfied + inconclusive + error), kError);
  EXPECT_EQ(verdict(satisfied + inconclusive + error + violated), kViolated);
}

TEST(Judge, ASliceIsKnownByItsPredicateNotItsName) {
  const auto contract = [](const std::string& name, const std::string& where) {
    return OneClause("max_kl, atMost: 0.5, slices: [" + name + "]",
                     "  slices: [{name: " + name + ", where: \"" + where + "\"}]\n");
  };
  Evidence evidence = Tokens("kl", {0, 9});
  evidence.requests[0].Both("kept", true);
  const Summary summary = Measure(contract("some", "kept == true"), evidence);
  EXPECT_EQ(Judge(contract("some", "kept == true"), summary).verdict, kSatisfied);
  EXPECT_EQ(Judge(contract("other", "kept == true"), summary).verdict, kSatisfied) << "renamed";
  const Judgement stale = Judge(contract("some", "prompt_tokens > 5"), summary);
  EXPECT_EQ(stale.verdict, kInconclusive);
  EXPECT_THAT(stale.clauses[0].slices[0].about.reason, HasSubstr("as the contract defines it"));
}

TEST(Judge, TokenSlicesCountTheirTokens) {
  const Contract contract = OneClause("max_kl, atMost: 0.5, slices: [late]",
                                      "  slices: [{name: late, where: \"token.position >= 3\"}]\n");
  Evidence evidence;
  JudgedRequest& request = evidence.Add();
  for (const double kl : {9.0, 9.0, 9.0, 0.25})
    request.tokens.push_back(JudgedToken().Set("kl", kl));
  const Judgement judgement = Judge(contract, Measure(contract, evidence));
  EXPECT_EQ(judgement.verdict, kSatisfied);
  EXPECT_EQ(judgement.clauses[0].slices[0].count.tokens, 1);
}

TEST(Judge, SaysWhatAViolatedClauseWouldHavePassedAt) {
  const Contract mean = OneClause("mean_kl, atMost: 0.5");
  const auto first = [](const Contract& contract, const Evidence& evidence) {
    return Judge(contract, Measure(contract, evidence)).clauses[0].slices[0];
  };
  const SliceVerdict of_mean = first(mean, Tokens("kl", {0.5, 1}));
  EXPECT_EQ(of_mean.smallest_passing, 0.75);
  EXPECT_EQ(of_mean.deviation, 1.5);
  EXPECT_FALSE(of_mean.smallest_budget.has_value());
  const SliceVerdict soft =
      first(OneClause("mean_kl, atMost: 0.5, exceedance: 25%"), Tokens("kl", {0.5, 1, 2, 4}));
  EXPECT_EQ(soft.smallest_budget, 0.75);
  EXPECT_GE(*soft.smallest_passing, 2);
  EXPECT_LE(*soft.smallest_passing, 2 * (1 + 1.0 / 128));
  EXPECT_EQ(soft.deviation, 2) << "capped";
  EXPECT_FALSE(first(mean, Tokens("kl", {kInf})).smallest_passing.has_value()) << "none would do";
}

// What train's outcomes select is held to the clause about both populations.
TEST(Judge, AClauseHoldsOnWhatEitherSidesOutcomesSelect) {
  Evidence evidence = Tokens("kl", {0.25, 1});
  evidence.requests[0].infer.fields["reward"] = 1.0;
  evidence.requests[0].train.fields["reward"] = 0.0;
  evidence.requests[1].infer.fields["reward"] = 0.0;
  evidence.requests[1].train.fields["reward"] = 1.0;
  const auto judge = [&](const std::string& about) {
    const Contract contract =
        OneClause("max_kl, atMost: 0.5, slices: [good]",
                  about + "  slices: [{name: good, where: \"reward >= 1\"}]\n");
    return Judge(contract, Measure(contract, evidence)).clauses[0].slices[0];
  };
  for (const char* about : {"evaluation-set", "traffic"}) {
    const SliceVerdict verdict = judge("  decision: {about: " + std::string(about) + "}\n");
    EXPECT_EQ(verdict.about.verdict, kViolated) << about;
    EXPECT_EQ(verdict.other.verdict, kViolated) << about;
    EXPECT_THAT(verdict.other.reason, HasSubstr("train's own outcomes"));
  }
  // About traffic two requests show nothing of a mean; about the set it is violated.
  const Contract mean = OneClause("mean_kl, atMost: 0.5, slices: [good]",
                                  "  decision: {about: traffic}\n"
                                  "  slices: [{name: good, where: \"reward >= 1\"}]\n");
  const SliceVerdict of_mean = Judge(mean, Measure(mean, evidence)).clauses[0].slices[0];
  EXPECT_EQ(of_mean.about.verdict, kInconclusive);
  EXPECT_EQ(of_mean.other.verdict, kViolated);
}

// Who may cut windows is said in the contract, and the verdict repeats it.
TEST(Judge, WarnsWhereTrustedWordsOfInferPlaceWindows) {
  const std::string trust = "  evidence: {trust: [ordinal]}\n";
  const auto warnings = [](const std::string& clause, const std::string& spec) {
    const Contract contract = OneClause(clause, spec);
    Evidence evidence = Tokens("kl", {0.25, 0.25});
    for (size_t i = 0; i < 2; ++i) {
      evidence.requests[i].infer.fields["ordinal"] = static_cast<double>(i);
      evidence.requests[i].Both("latency_ms", 5.0);
    }
    evidence.change_source = [](Source* source) { source->infer_alone = {"ordinal"}; };
    return Judge(contract, Measure(contract, evidence)).warnings;
  };
  const std::string soft = ", atMost: 0.5, exceedance: 50%, window: ";
  EXPECT_THAT(warnings("mean_kl" + soft + "2 requests", trust),
              ::testing::ElementsAre(HasSubstr("windows of 2 requests rest on 'ordinal'")));
  EXPECT_THAT(warnings("mean_kl" + soft + "2 requests", ""), ::testing::IsEmpty());
  EXPECT_THAT(warnings("mean_kl" + soft + "request", trust), ::testing::IsEmpty());
  EXPECT_THAT(warnings("mean_latency_ms" + soft + "2 requests", trust), ::testing::IsEmpty());
}

}  // namespace
}  // namespace kcc
