#include "kcc/summary/plan.h"

#include <gtest/gtest.h>

#include "kcc/summary/series.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::MakeClause;
using testing::MakeSlice;
using testing::SoftClause;
using testing::TestContract;

constexpr auto kAtMost = BoundKind::kAtMost;

TEST(Plan, CanonicalJsonReadsBackAsTheSamePlan) {
  for (const Plan& plan : {Plan::Default(), Plan::FromContract(TestContract())}) {
    const Result<Plan> read = Plan::Parse(plan.CanonicalJson());
    ASSERT_TRUE(read.has_value()) << read.error().Format();
    EXPECT_EQ(read->CanonicalJson(), plan.CanonicalJson());
    EXPECT_EQ(read->Digest(), plan.Digest());
    EXPECT_EQ(read->slots(), plan.slots());
  }
}

// A metric has one name in a plan: files of before hold no other.
TEST(Plan, TheOtherSpellingOfAMeanIsNotCanonical) {
  Contract contract;
  contract.slices = {MakeSlice("all", "")};
  contract.clauses = {SoftClause("top5_overlap", BoundKind::kAtLeast, 0.9, {})};
  std::string json = Plan::FromContract(contract).CanonicalJson();
  const std::string name = "mean_top5_overlap";
  ASSERT_NE(json.find(name), std::string::npos);
  EXPECT_TRUE(Plan::Parse(json).has_value());
  json.replace(json.find(name), name.size(), "top5_overlap");
  EXPECT_FALSE(Plan::Parse(json).has_value());
}

TEST(Plan, OrderOfClausesAndSlicesDoesNotMatter) {
  Contract contract = TestContract();
  const std::string digest = Plan::FromContract(contract).Digest();
  std::reverse(contract.clauses.begin(), contract.clauses.end());
  std::reverse(contract.slices.begin(), contract.slices.end());
  contract.clauses.push_back(contract.clauses.front());
  EXPECT_EQ(Plan::FromContract(contract).Digest(), digest);
}

TEST(Plan, CountsThresholdsWhereACountDecides) {
  Contract contract;
  contract.slices = {MakeSlice("all", "")};
  contract.clauses = {MakeClause("p99_kl", kAtMost, 0.2), MakeClause("max_kl", kAtMost, 0.1),
                      MakeClause("p50_kl", kAtMost, 0.2), MakeClause("mean_tv", kAtMost, 0.3),
                      MakeClause("p95_train_latency_ms", kAtMost, 4)};
  const Plan plan = Plan::FromContract(contract);
  const Thresholds kl = plan.thresholds(*FindSeries("kl"));
  EXPECT_EQ(std::vector<double>(kl.begin(), kl.end()), (std::vector<double>{0.1, 0.2}));
  EXPECT_TRUE(plan.thresholds(*FindSeries("tv")).empty()) << "a mean is compared by its sum";
  EXPECT_EQ(plan.thresholds(*FindSeries("train_latency_ms")).size(), 1u);
}

TEST(Plan, ComputesOnDemandQuantitiesOnlyWhenAsked) {
  const size_t js = TokenSlot("js");
  EXPECT_FALSE(Plan::Default().slots()[js]);
  Contract contract;
  contract.slices = {MakeSlice("all", "")};
  contract.clauses = {MakeClause("mean_js", kAtMost, 0.1)};
  EXPECT_TRUE(Plan::FromContract(contract).slots()[js]);
}

TEST(Plan, KeepsASeriesOnDemandOnlyWhereItWasAskedFor) {
  const Plan plan = Plan::Default();
  for (size_t series = 0; series < SeriesCount(); ++series) {
    const Quantity& quantity = SeriesQuantity(series);
    EXPECT_EQ(plan.Keeps(series), !quantity.on_demand || quantity.always_named)
        << SeriesName(series);
  }
}

TEST(Plan, TestsNeedTheAssumptionsThatMakeThemValid) {
  Contract contract;
  contract.slices = {MakeSlice("all", "")};
  contract.clauses = {
      MakeClause("p99_kl", kAtMost, 0.2),    MakeClause("mean_tv", kAtMost, 0.1),
      MakeClause("mean_kl", kAtMost, 0.1),   MakeClause("max_tv", kAtMost, 0.5),
      MakeClause("flip_rate", kAtMost, 0.1), MakeClause("reward_drift", kAtMost, 0.1)};
  EXPECT_TRUE(Plan::FromContract(contract).tests().empty());
  contract.assumptions.tokens_max = 4096;
  // A maximum cannot be tested at all, a mean without an upper end under three caps.
  EXPECT_EQ(Plan::FromContract(contract).tests().size(), 6u);
  contract.assumptions.reward_max = 1;
  EXPECT_EQ(Plan::FromContract(contract).tests().size(), 8u) << "a gap has two signs";
}

TEST(Plan, AMeanWithoutAnUpperEndIsTestedUnderCapsFixedByTheThreshold) {
  const auto caps = [](const std::string& metric, BoundKind bound, double threshold) {
    Assumptions assumptions;
    assumptions.tokens_max = 100;
    std::vector<double> found;
    for (const PlanTest& test : TestsOf(MakeClause(metric, bound, threshold), assumptions)) {
      EXPECT_TRUE(test.truncated);
      found.push_back(test.range_max);
    }
    return found;
  };
  const auto at_least = BoundKind::kAtLeast;
  EXPECT_EQ(caps("mean_kl", kAtMost, 0.5), (std::vector<double>{2, 32, 512}));
  EXPECT_EQ(caps("mean_latency_ms", kAtMost, 100), (std::vector<double>{400, 6400, 102400}));
  EXPECT_EQ(caps("mean_margin", at_least, 1), (std::vector<double>{4, 64, 1024}));
  EXPECT_TRUE(caps("mean_kl", kAtMost, 0).empty()) << "one value is a proof";
  EXPECT_TRUE(caps("mean_log_ratio", kAtMost, 0.5).empty()) << "no lower end either";
  EXPECT_TRUE(caps("max_kl", kAtMost, 0.5).empty());
}

TEST(Plan, TestMeanIsTheShareOrTheScaledThreshold) {
  PlanTest test;
  test.metric = *ParseMetric("p99_kl");
  EXPECT_DOUBLE_EQ(TestMean(test), 0.01);
  test.metric = *ParseMetric("p05_top1_overlap");
  test.bound = BoundKind::kAtLeast;
  EXPECT_DOUBLE_EQ(TestMean(test), 0.05);
  test.metric = *ParseMetric("mean_top1_overlap");
  test.threshold = 0.98;
  EXPECT_NEAR(TestMean(test), 0.02, 1e-15);
  test = PlanTest();
  test.metric = *ParseMetric("reward_drift");
  test.threshold = 0.5;
  test.range_min = -2;
  test.range_max = 2;
  EXPECT_DOUBLE_EQ(TestMean(test), 0.625);
}

TEST(Plan, ClausesAloneKeepTheQuantitiesThatClausesName) {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", "")};
  contract.clauses = {testing::MakeClause("mean_abs_log_ratio", BoundKind::kAtMost, 0.02)};
  const Plan narrow = Plan::FromContract(contract, Plan::Breadth::kClauses);
  EXPECT_EQ(narrow.slots().count(), 1u);
  EXPECT_TRUE(narrow.slots()[TokenSlot("abs_log_ratio")]);
  const Result<Plan> read = Plan::Parse(narrow.CanonicalJson());
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->slots(), narrow.slots());
  EXPECT_EQ(read->CanonicalJson(), narrow.CanonicalJson());
  const Plan whole = Plan::FromContract(contract);
  EXPECT_FALSE(whole == narrow);
  EXPECT_TRUE(whole.Covers(narrow).has_value());
  EXPECT_FALSE(narrow.Covers(whole).has_value());
}

TEST(Plan, ClausesAloneKeepWhatTheirQuantitiesAreMadeOf) {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", "")};
  for (const auto& [metric, source] :
       {std::pair("flip_rate", "top1_overlap"), {"mean_seq_kl", "kl"}, {"mean_kl", "kl"}}) {
    contract.clauses = {testing::MakeClause(metric, BoundKind::kAtMost, 0.02)};
    const Plan narrow = Plan::FromContract(contract, Plan::Breadth::kClauses);
    EXPECT_TRUE(narrow.slots()[TokenSlot(source)]) << metric;
    EXPECT_EQ(narrow.slots().count(), 1u) << metric;
    EXPECT_EQ(Plan::Parse(narrow.CanonicalJson())->slots(), narrow.slots()) << metric;
  }
}

TEST(Plan, CoversAContractThatAsksForLess) {
  const Contract whole = TestContract();
  const Plan plan = Plan::FromContract(whole);
  EXPECT_TRUE(plan.Covers(plan).has_value());
  EXPECT_TRUE(plan.Covers(Plan::Default()).has_value());
  for (size_t i = 0; i < whole.clauses.size(); ++i) {
    Contract less = whole;
    less.clauses = {whole.clauses[i]};
    EXPECT_TRUE(plan.Covers(Plan::FromContract(less)).has_value()) << whole.clauses[i].id;
  }
}

TEST(Plan, SaysWhatIsMissingForAContractThatAsksForMore) {
  const Plan plan = Plan::FromContract(TestContract());
  const struct {
    const char* words;
    void (*change)(Contract*);
  } cases[] = {
      {"threshold 0.125 of kl",
       [](Contract* c) { c->clauses.push_back(MakeClause("p99_kl", kAtMost, 0.125)); }},
      {"slice 'new'", [](Contract* c) { c->slices.push_back(MakeSlice("new", "seed == 1")); }},
      {"slice 'even' as", [](Contract* c) { c->slices[1] = MakeSlice("even", "even == false"); }},
      {"the quantity rank",
       [](Contract* c) { c->clauses.push_back(MakeClause("mean_rank", kAtMost, 3)); }},
      {"by window 9 requests",
       [](Contract* c) {
         c->clauses.push_back(SoftClause("mean_kl", kAtMost, 0.3, {Window::Kind::kRequests, 9}));
       }},
      {"on every slice named",
       [](Contract* c) {
         c->clauses.push_back(SoftClause("mean_kl", kAtMost, 0.3, {}, {"even"}));
       }},
      {"the thresholds of",
       [](Contract* c) { c->clauses.push_back(SoftClause("mean_kl", kAtMost, 0.31, {})); }},
      {"test over requests", [](Contract* c) { c->assumptions.tokens_max = 65; }},
      {"field set", [](Contract* c) { c->clauses.back().fields = {"other"}; }},
  };
  for (const auto& row : cases) {
    Contract contract = TestContract();
    row.change(&contract);
    const Result<> covers = plan.Covers(Plan::FromContract(contract));
    ASSERT_FALSE(covers.has_value()) << row.words;
    EXPECT_NE(covers.error().message().find(row.words), std::string::npos)
        << covers.error().message();
  }
}

TEST(Plan, OfSeveralContractsHasWhatEachNeeds) {
  const Contract first = TestContract();
  EXPECT_EQ(Plan::FromContracts(first, {}), Plan::FromContract(first));
  Contract other;
  other.slices = {MakeSlice("all", ""), MakeSlice("late", "prompt_tokens >= 77"),
                  MakeSlice("more", "prompt_tokens >= 99")};
  other.clauses = {MakeClause("p99_kl", kAtMost, 0.125, {"late", "more"})};
  const Plan plan = Plan::FromContracts(first, std::span(&other, 1));
  const Result<> covered = plan.Covers(Plan::FromContract(first));
  EXPECT_TRUE(covered.has_value()) << covered.error().Format();
  for (const Slice& slice : other.slices) {
    const auto at = plan.FindSlice(slice, Side::kInfer);
    ASSERT_TRUE(at.has_value()) << slice.name;
    EXPECT_EQ(plan.slices()[*at].where, slice.where ? slice.where->Canonical() : "");
  }
  EXPECT_GE(plan.FindThreshold(*FindSeries("kl"), 0.125), 0);
  const Result<Plan> read = Plan::Parse(plan.CanonicalJson());
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(*read, plan);
}

TEST(Plan, RefusesWhatItWouldNotWrite) {
  const std::string good = Plan::FromContract(TestContract()).CanonicalJson();
  const struct {
    std::string from, to;
  } changes[] = {{"\"kccPlan\":1", "\"kccPlan\":2"},
                 {"\"kl\":", "\"klm\":"},
                 {"\"name\":\"all\"", "\"name\":\"any\""},
                 {"p90_kl", "p90_kll"},
                 {"[0.25,0.5]", "[0.5,0.25]"},
                 {"token.position >= 3", "token.position >="},
                 {"\"kind\":\"time\"", "\"kind\":\"tim\""},
                 {"\"size\":3", "\"size\":0"},
                 {"\"tokensMax\":64", "\"tokensMax\":0"},
                 {"\"slices\":[\"all\"", "\"slices\":[\"nil\""},
                 {"{", "["}};
  for (const auto& change : changes) {
    std::string text = good;
    const size_t at = text.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.from;
    text.replace(at, change.from.size(), change.to);
    EXPECT_FALSE(Plan::Parse(text).has_value()) << change.to;
  }
}

TEST(Plan, OfBeforeTheFineGridOfBetsKeepsItsBytesAndItsGrid) {
  Contract contract;
  contract.slices = {MakeSlice("all", "")};
  contract.assumptions.tokens_max = 64;
  contract.clauses = {MakeClause("p99_kl", BoundKind::kAtMost, 0.5)};
  const Plan plan = Plan::FromContract(contract);
  ASSERT_EQ(plan.tests().size(), 1u);
  EXPECT_EQ(plan.tests()[0].grid, BetGrid::kFine);
  std::string before = plan.CanonicalJson();
  const std::string key = "\"bets\":16,";
  ASSERT_NE(before.find(key), std::string::npos);
  std::string unknown = before;
  unknown.replace(unknown.find(key), key.size(), "\"bets\":24,");
  EXPECT_FALSE(Plan::Parse(unknown).has_value()) << "never guess how many bets are on file";
  before.erase(before.find(key), key.size());
  const auto parsed = Plan::Parse(before);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->tests()[0].grid, BetGrid::kCoarse);
  EXPECT_EQ(parsed->CanonicalJson(), before);
  EXPECT_FALSE(*parsed == plan) << "sums of different bets do not merge";
  EXPECT_TRUE(parsed->Covers(plan).has_value()) << "and yet it can be judged";
}

}  // namespace
}  // namespace kcc
