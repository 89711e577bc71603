// Quantities of what both sides recorded of a request: known only where both did, computed only
// where a contract asks, and judged like any other quantity of requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/summary/file.h"
#include "kcc/summary/request_group.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

using testing::Evidence;
using ::testing::HasSubstr;
using testing::JudgedRequest;
using testing::Measure;
using ::testing::Not;

constexpr auto kSatisfied = Verdict::kSatisfied;
constexpr auto kViolated = Verdict::kViolated;
constexpr auto kInconclusive = Verdict::kInconclusive;

constexpr const char* kTraffic = "  decision: {about: traffic}\n";

Contract OneClause(const std::string& clause, const std::string& spec = "") {
  const std::string yaml =
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: test, version: 1.0.0}\nspec:\n" +
      spec + "  runtime:\n    - {id: C, level: L2, metric: " + clause + "}\n";
  const ReadOutcome outcome = ReadContract(yaml);
  EXPECT_TRUE(outcome.contract.has_value()) << yaml;
  return outcome.contract.value_or(Contract());
}

// What the two sides recorded; none: nothing.
struct Recorded {
  std::optional<double> infer;
  std::optional<double> train;
};

Evidence Sides(const std::vector<Recorded>& rows, const std::string& field = "latency_ms") {
  Evidence evidence;
  for (const Recorded& row : rows) {
    JudgedRequest& request = evidence.Add();
    if (row.infer) request.infer.fields[field] = *row.infer;
    if (row.train) request.train.fields[field] = *row.train;
  }
  return evidence;
}

std::vector<Recorded> Times(size_t n, Recorded row, std::vector<Recorded> more = {}) {
  more.insert(more.end(), n, row);
  return more;
}

SliceVerdict JudgeOne(const Contract& contract, const Evidence& evidence) {
  const Judgement judgement = Judge(contract, Measure(contract, evidence));
  EXPECT_EQ(judgement.clauses.size(), 1u);
  return judgement.clauses.at(0).slices.at(0);
}

struct Row {
  const char* name;
  Contract contract;
  Evidence evidence;
  Verdict verdict;
  const char* reason;
};

void Check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const SliceVerdict slice = JudgeOne(row.contract, row.evidence);
    EXPECT_EQ(Name(slice.verdict()), Name(row.verdict)) << row.name << ": " << slice.about.reason;
    EXPECT_THAT(slice.about.reason, HasSubstr(row.reason)) << row.name;
  }
}

TEST(BothSides, AboutTheEvaluationSet) {
  const Contract mean = OneClause("mean_latency_ms_gap, atMost: 10ms");
  const Contract most = OneClause("max_latency_ms_gap, atMost: 10");
  const Contract ratio = OneClause("mean_latency_ms_ratio, atMost: 1.25");
  Check({
      {"as slow as allowed", mean, Sides({{130, 100}, {90, 100}}), kSatisfied, "is 10, at most 10"},
      {"slower", mean, Sides({{130, 100}, {92, 100}}), kViolated, "is 11"},
      {"faster is not worse", mean, Sides({{50, 100}}), kSatisfied, "is -50"},
      {"train recorded nothing", mean, Sides({{100, {}}, {100, {}}}), kInconclusive,
       "holds no value of latency_ms_gap"},
      {"infer recorded nothing", mean, Sides({{{}, 100}}), kInconclusive, "holds no value"},
      {"nobody recorded anything", mean, Sides({{}}), kInconclusive, "holds no value"},
      {"one of two lacks train's", mean, Sides({{100, 100}, {100, {}}}), kInconclusive,
       "1 values are missing"},
      {"one of two lacks infer's", mean, Sides({{100, 100}, {{}, 100}}), kInconclusive,
       "1 values are missing"},
      {"one too slow is enough for a maximum", most, Sides({{120, 100}, {100, {}}}), kViolated, ""},
      {"a time below 0 is no evidence", mean, Sides({{-1e9, 100}}), kInconclusive, "no value"},
      {"nor is one of train", mean, Sides({{100, 100}, {100, -5}}), kInconclusive, "missing"},
      {"a ratio", ratio, Sides({{150, 100}, {100, 100}}), kSatisfied, "is 1.25"},
      {"a ratio beyond", ratio, Sides({{151, 100}, {100, 100}}), kViolated, ""},
      {"a ratio to nothing", ratio, Sides({{100, 100}, {100, 0}}), kInconclusive, "missing"},
      {"a ratio that train lacks", ratio, Sides({{100, {}}}), kInconclusive, "no value"},
  });
}

TEST(BothSides, AGapToTheReferenceHasNoSign) {
  const Contract contract = OneClause("max_kl_to_reference_gap, atMost: 0.5");
  const auto sides = [](const std::vector<Recorded>& rows) {
    return Sides(rows, "kl_to_reference");
  };
  Check({
      {"within, above and below", contract, sides({{1, 0.5}, {0.5, 1}}), kSatisfied, "is 0.5"},
      {"beyond above", contract, sides({{1.25, 0.5}, {1, 1}}), kViolated, "is 0.75"},
      {"beyond below", contract, sides({{0.5, 1.25}, {1, 1}}), kViolated, "is 0.75"},
      {"recorded on one side", contract, sides({{1, {}}}), kInconclusive, "holds no value"},
      {"missing once", contract, sides({{1, 1}, {{}, 1}}), kInconclusive, "missing"},
  });
}

// Recorded values are held against what the quantity can be, as those of own metrics are.
TEST(BothSides, WhatCannotBeIsAnError) {
  const Evidence evidence = Sides({{-1, -1}, {-1, -1}, {100, 100}});
  for (const char* clause :
       {"p50_latency_ms, atMost: 400ms", "mean_latency_ms, atMost: 400ms",
        "max_train_latency_ms, atMost: 400ms", "mean_latency_ms, atMost: 400ms, exceedance: 50%"}) {
    const SliceVerdict verdict = JudgeOne(OneClause(clause), evidence);
    EXPECT_EQ(verdict.verdict(), Verdict::kError) << clause << ": " << verdict.about.reason;
    EXPECT_THAT(verdict.about.reason, ::testing::HasSubstr("latency_ms is -1"));
    EXPECT_NE(verdict.other.verdict, kSatisfied) << clause;
  }
}

// A request that timed out took for ever.
TEST(BothSides, TimeOuts) {
  const auto judged = [](const char* clause, bool infer, bool train) {
    std::vector<Verdict> verdicts;
    for (const bool waited : {false, true}) {  // a latency beside the flag changes nothing
      Evidence evidence = Sides({{100, 100}, {100, 100}, {100, 100}});
      JudgedRequest& late = evidence.Add();
      for (const auto& [request, gave_up] : {std::pair(&late.infer, infer), {&late.train, train}}) {
        if (gave_up) request->fields["timed_out"] = true;
        if (!gave_up || waited) request->fields["latency_ms"] = 100.0;
      }
      verdicts.push_back(JudgeOne(OneClause(clause), evidence).verdict());
    }
    EXPECT_EQ(verdicts[0], verdicts[1]) << clause;
    return verdicts[1];
  };
  EXPECT_EQ(judged("max_latency_ms, atMost: 1h", true, false), kViolated);
  EXPECT_EQ(judged("max_train_latency_ms, atMost: 1h", false, true), kViolated);
  EXPECT_EQ(judged("mean_latency_ms, atMost: 1h, exceedance: 10%", true, false), kViolated);
  EXPECT_EQ(judged("max_latency_ms_gap, atMost: 1h", true, false), kViolated);
  EXPECT_EQ(judged("mean_latency_ms_gap, atMost: 1h", true, false), kViolated);
  EXPECT_EQ(judged("p50_latency_ms_gap, atMost: 0", true, false), kSatisfied);
  EXPECT_EQ(judged("max_latency_ms_ratio, atMost: 1e9", true, false), kViolated);
  // Both: how they compare is not known, so it is missing.
  EXPECT_EQ(judged("max_latency_ms_gap, atMost: 1h", true, true), kInconclusive);
  EXPECT_EQ(judged("max_latency_ms_ratio, atMost: 1e9", true, true), kInconclusive);
  // Train alone: it took longer than a limit that is not known, which excuses nothing.
  EXPECT_EQ(judged("max_latency_ms_gap, atMost: 0", false, true), kInconclusive);
  EXPECT_EQ(judged("mean_latency_ms_gap, atMost: 1h", false, true), kInconclusive);
}

// Arrays in memory have one record for both sides: that it equals itself shows nothing.
TEST(BothSides, OneRecordForBothSidesIsNotEvidence) {
  Request request;
  request.id = "r";
  request.fields["latency_ms"] = 100.0;
  const Request same = request;
  for (const char* name : {"latency_ms_gap", "latency_ms_ratio"}) {
    const Quantity& quantity = *FindQuantity(name);
    const RequestPair once{"r", &request, &request, "train", "infer"};
    EXPECT_FALSE(RecordedQuantity(quantity, once, Side::kInfer).value.has_value()) << name;
    EXPECT_TRUE(RecordedQuantity(quantity, once, Side::kInfer).defined) << name;
    const RequestPair twice{"r", &request, &same, "train", "infer"};
    EXPECT_TRUE(RecordedQuantity(quantity, twice, Side::kInfer).value.has_value()) << name;
  }
}

TEST(BothSides, AboutTraffic) {
  const Contract p95 = OneClause("p95_latency_ms_gap, atMost: 10", kTraffic);
  const Contract p95_ratio = OneClause("p95_latency_ms_ratio, atMost: 1.1", kTraffic);
  Check({
      {"59 show 5 %", p95, Sides(Times(59, {105, 100})), kSatisfied, "0 of 59 requests"},
      {"58 do not", p95, Sides(Times(58, {105, 100})), kInconclusive, ""},
      {"one that train lacks", p95, Sides(Times(59, {105, 100}, {{105, {}}})), kInconclusive, ""},
      {"none that train has", p95, Sides(Times(59, {105, {}})), kInconclusive, "holds no value"},
      {"beyond", p95, Sides(Times(16, {105, 100}, Times(4, {150, 100}))), kViolated, ""},
      {"a ratio", p95_ratio, Sides(Times(59, {105, 100})), kSatisfied, "0 of 59 requests"},
      {"a mean without an end", OneClause("mean_latency_ms_gap, atMost: 10", kTraffic),
       Sides(Times(500, {100, 100})), kInconclusive, "p99_latency_ms_gap"},
      {"a ratio's mean without an end", OneClause("mean_latency_ms_ratio, atMost: 2", kTraffic),
       Sides(Times(500, {100, 100})), kInconclusive, ""},
  });
}

TEST(BothSides, AreWindowedByTrainsWord) {
  PlanWindow window;
  window.metric = *ParseMetric("mean_latency_ms_gap");
  EXPECT_EQ(PlacementOf(window), Placement::kTrain);
  window.metric = *ParseMetric("mean_latency_ms");
  EXPECT_EQ(PlacementOf(window), Placement::kInfer);
}

// --- What both sides generated.

// The same n times, differing after so many tokens each, and not known for the rest.
Evidence Outputs(size_t same, const std::vector<int64_t>& common, size_t unknown = 0) {
  Evidence evidence;
  for (size_t i = 0; i < same; ++i) evidence.Add().outputs = {.known = true, .same = true};
  for (const int64_t n : common) evidence.Add().outputs = {.known = true, .common = n};
  for (size_t i = 0; i < unknown; ++i) evidence.Add().outputs = OutputComparison();
  return evidence;
}

TEST(GeneratedOutputs, AboutTheEvaluationSet) {
  const Contract rate = OneClause("same_output_rate, atLeast: 90%");
  const Contract first = OneClause("p10_first_divergence, atLeast: 20");
  Check({
      {"nine of ten", rate, Outputs(9, {3}), kSatisfied, "rate_same_output is 0.9"},
      {"eight of ten", rate, Outputs(8, {3, 4}), kViolated, "is 0.8"},
      {"one not known", rate, Outputs(10, {}, 1), kInconclusive, "1 values are missing"},
      {"none known", rate, Outputs(0, {}, 5), kInconclusive, "holds no value of same_output"},
      {"not compared at all", rate, Sides({{1, 1}}), kInconclusive, "holds no value"},
      {"already too many differ", rate, Outputs(5, {1, 2, 3, 4, 5}, 1), kViolated, ""},
      {"late enough", first, Outputs(8, {25, 20}), kSatisfied, ""},
      {"too early", first, Outputs(8, {25, 19}), kViolated, ""},
      {"all the same", first, Outputs(10, {}), kSatisfied, ""},
      {"early, or not known", first, Outputs(9, {25}, 1), kInconclusive, "missing"},
      {"not compared", first, Sides({{1, 1}}), kInconclusive, "holds no value"},
  });
  // The mean of what has no end is not a number to compare.
  EXPECT_NE(JudgeOne(OneClause("mean_first_divergence, atLeast: 2"), Outputs(9, {1})).verdict(),
            kSatisfied);
}

TEST(GeneratedOutputs, AboutTraffic) {
  const Contract rate = OneClause("same_output_rate, atLeast: 95%", kTraffic);
  const Contract first = OneClause("p05_first_divergence, atLeast: 20", kTraffic);
  Check({
      {"59 show 95 %", rate, Outputs(59, {}), kSatisfied, "0 of 59 requests"},
      {"58 do not", rate, Outputs(58, {}), kInconclusive, ""},
      {"and one not known", rate, Outputs(59, {}, 1), kInconclusive, ""},
      {"beyond", rate, Outputs(16, {1, 1, 1, 1}), kViolated, ""},
      {"59 late enough", first, Outputs(50, {20, 20, 20, 20, 20, 20, 20, 20, 20}), kSatisfied, ""},
      {"every one the same", OneClause("same_output_rate, atLeast: 1", kTraffic), Outputs(999, {}),
       kInconclusive, ""},
  });
}

TEST(GeneratedOutputs, BelongToWholeRequests) {
  const ReadOutcome outcome = ReadContract(
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: test, version: 1.0.0}\nspec:\n"
      "  slices: [{name: late, where: \"token.position >= 3\"}]\n  statistical:\n"
      "    - {id: C, level: L2, metric: same_output_rate, atLeast: 0.9, slices: [late]}\n");
  EXPECT_FALSE(outcome.contract.has_value());
}

// --- Computed only where asked.

TEST(BothSides, ASummaryOfAnotherContractDoesNotShowThem) {
  const Evidence evidence = Sides(Times(59, {100, 100}));
  const Contract other = OneClause("p95_latency_ms, atMost: 400");
  const Summary summary = Measure(other, evidence);
  EXPECT_THAT(EncodeSummary(summary), Not(HasSubstr("latency_ms_gap")));
  const Contract contract = OneClause("p95_latency_ms_gap, atMost: 10");
  const Judgement judgement = Judge(contract, summary);
  EXPECT_EQ(judgement.verdict, kInconclusive);
  const Result<> covers = summary.plan.Covers(Plan::FromContract(contract));
  ASSERT_FALSE(covers.has_value());
  EXPECT_THAT(covers.error().message(), HasSubstr("without the quantity latency_ms_gap"));
}

TEST(BothSides, TravelInTheSummaryThatAskedForThem) {
  const Contract contract = OneClause("mean_latency_ms_gap, atMost: 10");
  const Summary summary = Measure(contract, Sides({{105, 100}, {115, 100}}));
  const Result<Plan> plan = Plan::Parse(summary.plan.CanonicalJson());
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->Keeps(*FindSeries("latency_ms_gap")));
  EXPECT_FALSE(plan->Keeps(*FindSeries("latency_ms_ratio")));
  const std::string bytes = EncodeSummary(summary);
  const Result<Summary> read = DecodeSummary(bytes);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(EncodeSummary(*read), bytes);
  EXPECT_EQ(Judge(contract, *read).verdict, kSatisfied);
}

// Length and text, as the file has it.
std::string OnFile(const std::string& text) {
  Archive archive = Archive::Writer();
  std::string copy = text;
  archive.Text(copy);
  return archive.Take();
}

TEST(BothSides, AFileThatHoldsThemUnaskedIsRefused) {
  const Contract contract = OneClause("mean_latency_ms_gap, atMost: 10");
  const Summary summary = Measure(contract, Sides({{105, 100}}));
  const std::string plan = summary.plan.CanonicalJson();
  std::string without = plan;
  const std::string asked = "[\"latency_ms_gap\"]";
  ASSERT_NE(without.find(asked), std::string::npos);
  without.replace(without.find(asked), asked.size(), "[]");
  const std::string bytes = EncodeSummary(summary);
  const std::string body = bytes.substr(8, bytes.size() - 8 - 64);  // without magic and checksum
  ASSERT_TRUE(body.starts_with(OnFile(plan)));
  ASSERT_TRUE(DecodeSummaryBody(body).has_value());
  const auto read = DecodeSummaryBody(OnFile(without) + body.substr(OnFile(plan).size()));
  ASSERT_FALSE(read.has_value());
  EXPECT_THAT(read.error().message(), HasSubstr("does not ask for 'latency_ms_gap'"));
}

}  // namespace
}  // namespace kcc
