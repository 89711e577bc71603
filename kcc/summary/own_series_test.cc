// Metrics of the user's own in plans and summaries: numbering, bytes, merging, what covers what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kcc/summary/file.h"
#include "kcc/summary/own_values.h"
#include "kcc/summary/series.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeEvidence;
using testing::FakeRequest;
using ::testing::HasSubstr;
using testing::MakeSlice;

const Quantity* Row(const std::string& name, const std::string& from,
                    QuantityLevel of = QuantityLevel::kRequest, double min = 0) {
  OwnMetric metric{name, of, *Expression::Parse(from), Unit::kPure, Direction::kLowerIsBetter};
  metric.min = min;
  return *OwnRow(metric);
}

Clause OnOwn(const Quantity* row, Aggregate aggregate, double threshold, Side side = Side::kInfer,
             std::vector<std::string> slices = {"all"}) {
  Clause clause;
  clause.id = MetricName({row, aggregate, side});
  clause.metric = {row, aggregate, side};
  clause.threshold = threshold;
  clause.slices = std::move(slices);
  return clause;
}

// Two of requests, both sides of one; one of tokens, on a slice of tokens too.
Contract OwnContract(const std::string& from = "latency_ms - 90") {
  Contract contract;
  contract.name = "own";
  contract.slices = {MakeSlice("all", ""), MakeSlice("even", "even == true"),
                     MakeSlice("late", "token.position >= 3")};
  const Quantity* wait = Row("wait", from);
  const Quantity* spot = Row("spot", "token.position", QuantityLevel::kToken);
  contract.metrics = {{wait, "", {}}, {spot, "", {}}};
  contract.assumptions.tokens_max = 64;
  contract.clauses = {
      OnOwn(wait, Aggregate::kP95, 20, Side::kInfer, {"all", "even"}),
      OnOwn(wait, Aggregate::kMean, 20, Side::kTrain),
      OnOwn(spot, Aggregate::kP99, 4, Side::kInfer, {"all", "late"}),
  };
  Clause soft = OnOwn(wait, Aggregate::kMax, 30);
  soft.id = "soft";
  soft.exceedance = 0.1;
  soft.window = {Window::Kind::kRequests, 3};
  contract.clauses.push_back(soft);
  return contract;
}

TEST(OwnSeries, FollowTheBuiltInOnes) {
  const Plan plan = Plan::FromContract(OwnContract());
  ASSERT_EQ(plan.own_series().size(), 3u);
  EXPECT_EQ(plan.series_count(), SeriesCount() + 3);
  EXPECT_EQ(plan.name(SeriesCount()), "spot");  // of tokens first
  EXPECT_EQ(plan.name(SeriesCount() + 1), "train_wait");
  EXPECT_EQ(plan.name(SeriesCount() + 2), "wait");
  EXPECT_EQ(plan.own_token_series().size(), 1u);
  EXPECT_TRUE(plan.IsToken(SeriesCount()));
  EXPECT_FALSE(plan.IsToken(SeriesCount() + 1));
  EXPECT_EQ(plan.token_series_end(), SeriesCount() + 1);
  EXPECT_EQ(plan.side(SeriesCount() + 1), Side::kTrain);
  EXPECT_EQ(plan.FindSeries("wait"), SeriesCount() + 2);
  EXPECT_EQ(plan.FindSeries("kl"), FindSeries("kl"));
}

TEST(OwnSeries, ChangeNothingWhereThereAreNone) {
  const Plan plan = Plan::FromContract(testing::TestContract());
  EXPECT_EQ(plan.series_count(), SeriesCount());
  EXPECT_EQ(plan.token_series_end(), TokenSeriesCount());
  EXPECT_THAT(plan.CanonicalJson(), ::testing::Not(HasSubstr("\"own\"")));
}

TEST(OwnSeries, StandInThePlanAndItsDigest) {
  const Plan plan = Plan::FromContract(OwnContract());
  const std::string json = plan.CanonicalJson();
  EXPECT_THAT(json, HasSubstr("\"onDemand\":[\"spot\",\"train_wait\",\"wait\"],\"own\":["
                              "{\"direction\":\"lower\",\"from\":\"token.position\",\"min\":0,"
                              "\"name\":\"spot\",\"of\":\"token\",\"unit\":\"\"},"));
  const Result<Plan> again = Plan::Parse(json);
  ASSERT_TRUE(again.has_value()) << again.error().Format();
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(again->Digest(), plan.Digest());
  // The same row, so that metrics compare.
  EXPECT_EQ(&again->quantity(SeriesCount()), &plan.quantity(SeriesCount()));
  EXPECT_NE(Plan::FromContract(OwnContract("latency_ms - 91")).Digest(), plan.Digest());
}

TEST(OwnSeries, ARewrittenPlanIsRefused) {
  const std::string json = Plan::FromContract(OwnContract()).CanonicalJson();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = json;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_FALSE(Plan::Parse(changed("\"token.position\"", "\"token.positio\"")).has_value());
  EXPECT_FALSE(Plan::Parse(changed("\"token.position\"", "\"(token.position)\"")).has_value());
  EXPECT_FALSE(Plan::Parse(changed("\"name\":\"spot\"", "\"name\":\"kl\"")).has_value());
  EXPECT_FALSE(Plan::Parse(changed("\"name\":\"spot\"", "\"name\":\"wait\"")).has_value());
  EXPECT_FALSE(Plan::Parse(changed("\"unit\":\"\"", "\"unit\":\"sec\"")).has_value());
  EXPECT_FALSE(Plan::Parse(changed("[\"spot\",\"train_wait\"", "[\"train_wait\"")).has_value());
  EXPECT_FALSE(Plan::Parse(changed("\"train_wait\",\"wait\"]", "\"train_wait\"]")).has_value());
}

TEST(OwnSeries, OnePlanCoversAnotherOnlyWithTheSameDefinition) {
  const Plan plan = Plan::FromContract(OwnContract());
  const Plan other = Plan::FromContract(OwnContract("latency_ms - 91"));
  EXPECT_TRUE(plan.Covers(plan).has_value());
  const Result<> covers = plan.Covers(other);
  ASSERT_FALSE(covers.has_value());
  EXPECT_THAT(covers.error().message(), HasSubstr("wait as the contract defines it"));
  const Plan without = Plan::FromContract(testing::TestContract());
  EXPECT_THAT(without.Covers(plan).error().message(), HasSubstr("without the metric spot;"));
  // Fewer own series are numbered otherwise; thresholds are compared by what they are of.
  Contract fewer = OwnContract();
  fewer.clauses.erase(fewer.clauses.begin() + 1, fewer.clauses.begin() + 3);
  EXPECT_TRUE(plan.Covers(Plan::FromContract(fewer)).has_value());
  EXPECT_FALSE(Plan::FromContract(fewer).Covers(plan).has_value());
}

TEST(OwnSeries, SummariesOfOneNameWithTwoDefinitionsDoNotMerge) {
  FakeEvidence fake(3);
  const std::vector<FakeRequest> all = fake.Requests(8);
  const std::vector<FakeRequest> first(all.begin(), all.begin() + 4);
  const std::vector<FakeRequest> second(all.begin() + 4, all.end());
  const Plan plan = Plan::FromContract(OwnContract());
  const Plan other = Plan::FromContract(OwnContract("latency_ms - 91"));
  EXPECT_TRUE(Merge(Accumulate(plan, first), Accumulate(plan, second)).has_value());
  const Result<Summary> merged = Merge(Accumulate(plan, first), Accumulate(other, second));
  ASSERT_FALSE(merged.has_value());
  EXPECT_THAT(merged.error().message(), HasSubstr("different plans"));
}

TEST(OwnSeries, MergedPartsAreTheWholeByteForByte) {
  FakeEvidence fake(5);
  const std::vector<FakeRequest> all = fake.Requests(40);
  const Plan plan = Plan::FromContract(OwnContract());
  const Summary whole = Accumulate(plan, all);
  const Summary a = Accumulate(plan, {all.begin(), all.begin() + 11});
  const Summary b = Accumulate(plan, {all.begin() + 11, all.end()}, /*cells_max=*/1);
  const Result<Summary> merged = Merge(b, a);
  ASSERT_TRUE(merged.has_value()) << merged.error().Format();
  EXPECT_EQ(EncodeSummary(*merged), EncodeSummary(whole));
  const Result<Summary> read = DecodeSummary(EncodeSummary(whole));
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(EncodeSummary(*read), EncodeSummary(whole));
}

TEST(OwnSeries, HoldEveryValueOnceAndCountWhatIsMissing) {
  FakeEvidence fake(7);
  const std::vector<FakeRequest> all = fake.Requests(60);
  const Summary summary = Accumulate(Plan::FromContract(OwnContract()), all);
  uint64_t known = 0;
  double sum = 0;
  for (const FakeRequest& request : all) {
    const auto latency = request.infer.Number("latency_ms");
    if (!latency) continue;
    ++known;
    sum += *latency - 90;
  }
  const SliceStats& stats = *summary.FindSlice("all");
  const SeriesStats& wait = stats.series[*summary.plan.FindSeries("wait")];
  EXPECT_EQ(wait.count(), known);
  EXPECT_EQ(wait.missing, all.size() - known);  // timed out or not: it is no time by its unit
  EXPECT_EQ(wait.point.tally.sum.Round(), sum);
  const SeriesStats& train = stats.series[*summary.plan.FindSeries("train_wait")];
  EXPECT_EQ(train.count(), all.size());
  EXPECT_EQ(train.point.max, 0);
  // Nobody gave the values of tokens: all are missing, none is 0.
  const SeriesStats& spot = stats.series[*summary.plan.FindSeries("spot")];
  EXPECT_EQ(spot.count(), 0u);
  EXPECT_EQ(spot.missing, stats.tokens);
}

// --- Whose word a field is.

struct Sides {
  Request asked, train, infer;
  RequestPair pair;

  Sides() { pair = {"r", &train, &infer, "train", "infer"}; }
};

std::optional<double> Value(const std::string& from, const Sides& sides, Side side = Side::kInfer,
                            Unit unit = Unit::kPure,
                            Direction direction = Direction::kLowerIsBetter) {
  OwnMetric metric{"value", QuantityLevel::kRequest, *Expression::Parse(from), unit, direction};
  return OwnRequestValue(**OwnRow(metric), sides.pair, side);
}

TEST(OwnValues, AreOfTheSideThatTheMetricNames) {
  Sides sides;
  sides.infer.fields["tool_errors"] = 3.0;
  sides.train.fields["tool_errors"] = 1.0;
  EXPECT_EQ(Value("tool_errors", sides), 3);
  EXPECT_EQ(Value("tool_errors", sides, Side::kTrain), 1);
  sides.infer.fields.erase("tool_errors");
  EXPECT_EQ(Value("tool_errors", sides), std::nullopt);  // never lent by train
}

// Infer must not shrink its cost per token by its own word about the prompt.
TEST(OwnValues, TakeTheRequestsFieldsFromWhoAsked) {
  Sides sides;
  sides.infer.fields["latency_ms"] = 100.0;
  sides.infer.fields["prompt_tokens"] = 100.0;
  EXPECT_EQ(Value("latency_ms / prompt_tokens", sides), std::nullopt);
  sides.train.fields["prompt_tokens"] = 10.0;
  EXPECT_EQ(Value("latency_ms / prompt_tokens", sides), 10);
  sides.asked.fields["prompt_tokens"] = 20.0;
  sides.pair.asked = &sides.asked;
  EXPECT_EQ(Value("latency_ms / prompt_tokens", sides), 5);
}

TEST(OwnValues, CountOutputTokensFromTheRows) {
  Sides sides;
  sides.infer.fields["cost"] = 60.0;
  sides.infer.fields["output_tokens"] = 1000.0;
  EXPECT_EQ(Value("cost / output_tokens", sides), 0.06);
  sides.pair.output_rows = 6;
  EXPECT_EQ(Value("cost / output_tokens", sides), 10);
  sides.pair.rows_missing = 4;
  EXPECT_EQ(Value("cost / output_tokens", sides), std::nullopt) << "cut off";
  sides.pair.output_rows = 0;
  EXPECT_EQ(Value("cost / output_tokens", sides), std::nullopt);
  sides.pair.output_rows = -1;
  sides.pair.rows_missing = 0;
  sides.pair.own_rows = {3, -1};
  EXPECT_EQ(Value("cost / output_tokens", sides), std::nullopt) << "generated 3, claims 1000";
  sides.pair.own_rows = {1000, -1};
  EXPECT_EQ(Value("cost / output_tokens", sides), 0.06);
}

TEST(OwnValues, OfATimedOutRequestAreTheWorstOrMissing) {
  Sides sides;
  sides.infer.fields["timed_out"] = true;
  EXPECT_EQ(Value("latency_ms - 5", sides, Side::kInfer, Unit::kMs),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(Value("latency_ms - 5", sides, Side::kTrain, Unit::kMs), std::nullopt);
  // Where infinity could help, or is no time, it is missing.
  EXPECT_EQ(Value("latency_ms - 5", sides), std::nullopt);
  EXPECT_EQ(Value("latency_ms", sides, Side::kInfer, Unit::kMs, Direction::kSigned), std::nullopt);
  EXPECT_EQ(Value("latency_ms", sides, Side::kInfer, Unit::kMs, Direction::kHigherIsBetter),
            std::nullopt);
}

// What stands beside the flag is how long somebody waited, not how long it took.
TEST(OwnValues, OfATimedOutRequestDoNotReadItsLatency) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Sides sides;
  for (Request* request : {&sides.infer, &sides.train}) {
    request->fields = {{"timed_out", true}, {"latency_ms", 400.0}, {"queue_ms", 4.0}};
  }
  for (const Side side : {Side::kInfer, Side::kTrain}) {
    EXPECT_EQ(Value("latency_ms - 5", sides, side, Unit::kMs), kInf);
    EXPECT_EQ(Value("queue_ms", sides, side, Unit::kMs), kInf);
    EXPECT_EQ(Value("latency_ms", sides, side, Unit::kMs, Direction::kSigned), std::nullopt);
    EXPECT_EQ(Value("latency_ms / 4", sides, side), std::nullopt) << "a cost, not a time";
    EXPECT_EQ(Value("queue_ms / 4", sides, side), 1) << "nothing that the time-out cut off";
  }
}

TEST(OwnValues, DoNotReadWhatCannotBe) {
  Sides sides;
  sides.infer.fields = {{"latency_ms", -1.0}, {"queue", -1.0}, {"reward", -1.0}};
  EXPECT_EQ(Value("latency_ms", sides), std::nullopt);
  EXPECT_EQ(Value("abs(latency_ms)", sides), std::nullopt);
  EXPECT_EQ(Value("queue", sides), -1) << "what it can be is for the contract to say";
  EXPECT_EQ(Value("reward", sides), -1);
}

TEST(OwnValues, OfTokensReadEachSidesOwn) {
  Sides sides;
  TokenEvidence train;
  TokenEvidence infer;
  train.position = infer.position = 7;
  train.logprob = -1;
  infer.logprob = -2;
  infer.advantage = 5;
  const auto value = [&](const std::string& from, Side side) {
    OwnMetric metric{"value", QuantityLevel::kToken, *Expression::Parse(from)};
    return OwnTokenValue(**OwnRow(metric), sides.pair, side, train, infer);
  };
  EXPECT_EQ(value("-token.logprob", Side::kInfer), 2);
  EXPECT_EQ(value("-token.logprob", Side::kTrain), 1);
  EXPECT_EQ(value("token.position + token.logprob", Side::kInfer), 5);
  EXPECT_EQ(value("token.gold", Side::kInfer), std::nullopt);
  EXPECT_EQ(value("token.advantage", Side::kTrain), 5);
  train.advantage = 1;
  EXPECT_EQ(value("token.advantage", Side::kInfer), 1);
  infer.logprob = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(value("-token.logprob", Side::kInfer), std::nullopt);
  infer.logprob = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(value("-token.logprob", Side::kInfer), std::nullopt);  // not lent by train
}

}  // namespace
}  // namespace kcc
