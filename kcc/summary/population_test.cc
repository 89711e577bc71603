#include "kcc/summary/population.h"

#include <gtest/gtest.h>

#include <limits>

#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeRequest;
using testing::FakeToken;

struct Expected {
  const char* metric;
  double value;
  uint64_t count;
  uint64_t missing;
};

std::vector<FakeRequest> ThreeRequests() {
  std::vector<FakeRequest> requests = {FakeRequest("a"), FakeRequest("b"), FakeRequest("c")};
  const char* signatures[] = {"x", "x", "y"};
  for (size_t i = 0; i < 3; ++i) {
    FakeRequest& request = requests[i];
    request.infer.fields["started_at_ms"] = 1000.0 * static_cast<double>(i);
    request.infer.fields["latency_ms"] = 500.0;
    request.infer.fields["output_tokens"] = 10.0;
    request.infer.fields["replay_group"] = std::string("g");
    request.infer.fields["replay_signature"] = std::string(signatures[i]);
    request.train.fields["replay_signature"] = std::string("x");
    request.infer.fields["refused"] = i != 0;
    request.train.fields["refused"] = i == 0;
    request.infer.fields["failed"] = i == 2;
    request.infer.fields["reward"] = static_cast<double>(i);
    request.train.fields["reward"] = 0.5;
    request.infer.fields["kernel_fingerprint"] = std::string(i == 0 ? "other" : "infer-fp");
  }
  requests[0].infer.fields["peak_memory_mb"] = 512.0;
  requests[1].infer.fields["peak_memory_mb"] = 768.0;
  requests[2].train.fields.erase("reward");
  return requests;
}

TEST(Population, ValuesAreThoseOfTheDefinitions) {
  const Summary summary = Accumulate(Plan::Default(), ThreeRequests());
  const Expected cases[] = {
      {"refusal_rate_gap", 1.0 / 3, 3, 0},
      {"parse_rate_gap", 0, 0, 3},
      {"reward_drift", 0, 2, 1},
      {"throughput_tokens_per_s", 30 / 2.5, 3, 0},
      {"train_throughput_tokens_per_s", 0, 0, 3},
      {"peak_memory_mb", 768, 2, 1},
      {"failure_rate", 1.0 / 3, 3, 0},
      {"train_failure_rate", 0, 0, 3},
      {"replay_mismatch_rate", 1.0 / 3, 3, 0},
      {"signature_match_rate", 2.0 / 3, 3, 0},
      {"determinism_rate", 0.5, 2, 0},
      {"fingerprint_match_rate", 2.0 / 3, 3, 0},
      {"flip_rate", 0, 0, 0},
      {"ece_gap", 0, 0, 0},
  };
  for (const Expected& row : cases) {
    const PopulationValue value = SlicePopulation(summary, 0, *ParseMetric(row.metric));
    EXPECT_EQ(value.count, row.count) << row.metric;
    EXPECT_EQ(value.missing, row.missing) << row.metric;
    if (row.count == 0) continue;
    EXPECT_DOUBLE_EQ(value.value.lo, row.value) << row.metric;
    EXPECT_DOUBLE_EQ(value.value.hi, row.value) << row.metric;
  }
}

// Infer's cost by train's. What one side lacks is missing, whichever it is.
TEST(Population, CostIsComparedWithTrains) {
  std::vector<FakeRequest> requests = ThreeRequests();
  for (size_t i = 0; i < 3; ++i) {
    auto& train = requests[i].train.fields;
    train["started_at_ms"] = 500.0 * static_cast<double>(i);
    train["latency_ms"] = 500.0;
    train["output_tokens"] = 10.0;
    train["failed"] = false;
    train["peak_memory_mb"] = 512.0;
  }
  const auto value = [&](const char* metric) {
    return SlicePopulation(Accumulate(Plan::Default(), requests), 0, *ParseMetric(metric));
  };
  EXPECT_EQ(value("throughput_ratio").value.lo, (30 / 2.5) / (30 / 1.5));
  EXPECT_EQ(value("throughput_ratio").count, 3u);
  EXPECT_EQ(value("failure_rate_gap").value.lo, 1.0 / 3);
  EXPECT_EQ(value("peak_memory_ratio").value.lo, 1.5);
  EXPECT_EQ(value("peak_memory_ratio").missing, 1u);  // the third has none on infer's side
  requests[0].train.fields.erase("latency_ms");
  requests[0].train.fields.erase("failed");
  EXPECT_EQ(value("throughput_ratio").missing, 1u);
  EXPECT_EQ(value("failure_rate_gap").missing, 1u);
  for (FakeRequest& request : requests) request.train.fields["peak_memory_mb"] = 0.0;
  EXPECT_EQ(value("peak_memory_ratio").count, 0u);  // by nothing
}

// Two pairs of traces at 60 tokens a second, recorded over the same seconds, are not one at 120.
TEST(Population, PairsOfTracesHaveNoCommonThroughput) {
  const auto part = [](const std::string& source, const std::string& id) {
    FakeRequest request(id);
    request.Both("started_at_ms", 0.0);
    request.Both("latency_ms", 1000.0);
    request.Both("output_tokens", 60.0);
    Summary summary = Accumulate(Plan::Default(), {request});
    summary.sources.resize(1);
    summary.sources[0].train.identity = source + "-train";
    summary.sources[0].infer.identity = source + "-infer";
    return summary;
  };
  const Metric throughput = *ParseMetric("throughput_tokens_per_s");
  const Summary shards = *Merge(part("a", "r0"), part("a", "r1"));
  EXPECT_EQ(SlicePopulation(shards, 0, throughput).value.lo, 120) << "two shards of one pair";
  for (const char* metric :
       {"throughput_tokens_per_s", "train_throughput_tokens_per_s", "throughput_ratio"}) {
    const Summary pairs = *Merge(part("a", "r0"), part("b", "r1"));
    EXPECT_EQ(SlicePopulation(pairs, 0, *ParseMetric(metric)).count, 0u) << metric;
    EXPECT_EQ(SlicePopulation(pairs, 0, *ParseMetric(metric)).missing, 2u) << metric;
  }
}

// Infer needs ten times train's memory in one pair and a tenth in the other; their maxima are
// alike.
TEST(Population, PairsOfTracesHaveNoCommonRatioOfMaxima) {
  const auto part = [](const std::string& source, double train, double infer) {
    FakeRequest request(source);
    request.train.fields["peak_memory_mb"] = train;
    request.infer.fields["peak_memory_mb"] = infer;
    Summary summary = Accumulate(Plan::Default(), {request});
    summary.sources.resize(1);
    summary.sources[0].train.identity = source + "-train";
    summary.sources[0].infer.identity = source + "-infer";
    return summary;
  };
  const Metric ratio = *ParseMetric("peak_memory_ratio");
  EXPECT_EQ(SlicePopulation(part("a", 10, 100), 0, ratio).value.lo, 10);
  const Summary pairs = *Merge(part("a", 10, 100), part("b", 100, 10));
  EXPECT_EQ(SlicePopulation(pairs, 0, ratio).count, 0u);
  EXPECT_EQ(SlicePopulation(pairs, 0, *ParseMetric("peak_memory_mb")).value.lo, 100);
}

TEST(Population, AGapOfFailuresIsRoundedOnce) {
  std::vector<FakeRequest> requests;
  for (int i = 0; i < 10; ++i) {
    requests.emplace_back("r" + std::to_string(i));
    requests.back().infer.fields["failed"] = i < 4;
    requests.back().train.fields["failed"] = i < 3;
  }
  const Summary summary = Accumulate(Plan::Default(), requests);
  EXPECT_EQ(SlicePopulation(summary, 0, *ParseMetric("failure_rate_gap")).value.hi, 0.1);
}

// Requests that are there and give no value are missing; no token is a throughput of 0.
TEST(Population, WhatGivesNoValueIsMissing) {
  const auto judged = [](const char* metric, double infer_tokens, double train_tokens,
                         double latency_ms) {
    FakeRequest request("r");
    request.Both("started_at_ms", 1000.0);
    request.Both("latency_ms", latency_ms);
    request.infer.fields["output_tokens"] = infer_tokens;
    request.train.fields["output_tokens"] = train_tokens;
    request.infer.fields["peak_memory_mb"] = infer_tokens;
    request.train.fields["peak_memory_mb"] = train_tokens;
    const Summary summary = Accumulate(Plan::Default(), {request});
    return SlicePopulation(summary, 0, *ParseMetric(metric));
  };
  const PopulationValue none = judged("throughput_tokens_per_s", 0, 5, 0);
  EXPECT_EQ(none.count, 1u);
  EXPECT_EQ(none.value.hi, 0);
  EXPECT_EQ(judged("throughput_ratio", 0, 5, 100).value.hi, 0);
  EXPECT_EQ(judged("throughput_tokens_per_s", 5, 5, 0).missing, 1u) << "tokens in no time";
  for (const char* ratio : {"throughput_ratio", "peak_memory_ratio"}) {
    EXPECT_EQ(judged(ratio, 5, 0, 100).count, 0u) << ratio;
    EXPECT_EQ(judged(ratio, 5, 0, 100).missing, 1u) << ratio;
  }
}

TEST(Population, EveryPopulationQuantityOfTheCatalogIsComputed) {
  const Summary summary = Accumulate(Plan::Default(), ThreeRequests());
  for (const Quantity& quantity : Catalog()) {
    if (quantity.level != QuantityLevel::kPopulation) continue;
    const PopulationValue value =
        SlicePopulation(summary, 0, {&quantity, Aggregate::kNone, Side::kInfer});
    EXPECT_TRUE(value.count == 0 || value.value.lo <= value.value.hi) << quantity.id;
  }
}

TEST(Population, CoverageAsksForEveryFieldOfTheClause) {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", "")};
  Clause clause = testing::MakeClause("trace_field_coverage", BoundKind::kAtLeast, 1);
  clause.fields = {"reward", "peak_memory_mb"};
  contract.clauses = {clause};
  const Summary summary = Accumulate(Plan::FromContract(contract), ThreeRequests());
  const Metric metric = *ParseMetric("trace_field_coverage");
  EXPECT_DOUBLE_EQ(SlicePopulation(summary, 0, metric, clause.fields).value.lo, 2.0 / 3);
  EXPECT_EQ(SlicePopulation(summary, 0, metric, {"reward"}).count, 0u) << "not in the plan";
  const Metric train{metric.quantity, Aggregate::kNone, Side::kTrain};
  EXPECT_EQ(SlicePopulation(summary, 0, train, clause.fields).value.lo, 0);
}

// What kcc filled in from the kernel's declaration says to which build a request is put down. It
// does not say which replica answered, so it matches nothing.
TEST(Population, AFilledFingerprintCoversAndMatchesNothing) {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", "")};
  Clause clause = testing::MakeClause("trace_field_coverage", BoundKind::kAtLeast, 1);
  clause.fields = {"kernel_fingerprint"};
  contract.clauses = {clause};
  const Plan plan = Plan::FromContract(contract);
  const auto value = [&](const char* metric, const char* field, const char* fingerprint) {
    FakeRequest request("r");
    request.infer.fields[field] = std::string(fingerprint);
    return SlicePopulation(Accumulate(plan, {request}), 0, *ParseMetric(metric),
                           std::string_view(metric).ends_with("coverage")
                               ? clause.fields
                               : std::vector<std::string>());
  };
  const std::string filled(kFilledFingerprintField);
  EXPECT_EQ(value("trace_field_coverage", filled.c_str(), "infer-fp").value.lo, 1);
  EXPECT_EQ(value("trace_field_coverage", filled.c_str(), "of another trace").value.lo, 0);
  EXPECT_EQ(value("train_trace_field_coverage", filled.c_str(), "infer-fp").value.lo, 0);
  EXPECT_EQ(value("fingerprint_match_rate", filled.c_str(), "infer-fp").count, 0u);
  EXPECT_EQ(value("fingerprint_match_rate", filled.c_str(), "infer-fp").missing, 1u);
  EXPECT_EQ(value("fingerprint_match_rate", "kernel_fingerprint", "infer-fp").value.lo, 1);
}

TEST(Population, CalibrationGapsComeFromGoldLabelsOnly) {
  FakeRequest request("r");
  for (int i = 0; i < 4; ++i) {
    FakeToken token;
    token.gold = i < 3 ? 1 : -1;
    token.drift.argmax = {1, i == 0 ? 2 : 1};  // infer always right, train wrong once
    token.drift.confidence = {0.75, 0.75};
    token.drift.Set(TokenSlot("top1_overlap"), i == 0 ? 0 : 1);
    request.tokens.push_back(token);
  }
  const Summary summary = Accumulate(Plan::Default(), {request});
  const auto value = [&](const char* name) {
    return SlicePopulation(summary, 0, *ParseMetric(name));
  };
  EXPECT_EQ(value("ece_gap").count, 3u);
  EXPECT_EQ(value("ece_gap").missing, 1u);
  // infer: |1 - 0.75|; train: |2/3 - 0.75|
  EXPECT_NEAR(value("ece_gap").value.lo, 0.25 - (0.75 - 2.0 / 3), 1e-12);
  EXPECT_NEAR(value("brier_gap").value.lo, (0.5625 - 0.0625) / 3, 1e-12);
  EXPECT_LE(value("smce_gap").value.lo, value("smce_gap").value.hi);
  EXPECT_DOUBLE_EQ(value("flip_rate").value.lo, 0.25);
}

TEST(Population, ATimedOutRequestTookForEver) {
  FakeRequest done("done");
  done.infer.fields["latency_ms"] = 5.0;
  FakeRequest lost("lost");
  FakeRequest late("late");
  late.infer.fields["timed_out"] = true;
  const Summary summary = Accumulate(Plan::Default(), {done, lost, late});
  const SeriesView latency(summary, 0, *FindSeries("latency_ms"));
  EXPECT_EQ(latency.count(), 2u);
  EXPECT_EQ(latency.missing(), 1u);
  EXPECT_EQ(latency.Above(SeriesView::End::kHigh, 1e300), (CountRange{1, 1}));
}

// A size or a time below 0 says that nothing was measured; as a value it would be the best.
TEST(Population, WhatCannotBeIsMissing) {
  std::vector<FakeRequest> requests = ThreeRequests();
  for (FakeRequest& request : requests) {
    request.train.fields = request.infer.fields;
    for (Request* side : {&request.infer, &request.train}) {
      side->fields["peak_memory_mb"] = side->fields["kv_cache_mb"] = 5.0;
    }
  }
  for (Request* side : {&requests[1].infer, &requests[1].train}) {
    side->fields["latency_ms"] = side->fields["peak_memory_mb"] = -1.0;
    side->fields["kv_cache_mb"] = -1.0;
  }
  const Summary summary = Accumulate(Plan::Default(), requests);
  for (const char* metric : {"peak_memory_mb", "kv_cache_mb", "throughput_tokens_per_s",
                             "train_peak_memory_mb", "train_kv_cache_mb", "peak_memory_ratio",
                             "train_throughput_tokens_per_s", "throughput_ratio"}) {
    const PopulationValue value = SlicePopulation(summary, 0, *ParseMetric(metric));
    EXPECT_EQ(value.count, 2u) << metric;
    EXPECT_EQ(value.missing, 1u) << metric;
  }
}

// A latency beside the flag is the limit that was waited for.
TEST(Population, ATimedOutRequestTookForEverWhateverLatencyIsRecorded) {
  FakeRequest late("late");
  for (Request* side : {&late.infer, &late.train}) {
    side->fields = {{"timed_out", true},
                    {"latency_ms", 400.0},
                    {"ttft_ms", 30.0},
                    {"started_at_ms", 1000.0},
                    {"output_tokens", 50.0}};
  }
  FakeRequest mute = late;  // no token came, so that none came first
  mute.infer.id = mute.train.id = "mute";
  for (Request* side : {&mute.infer, &mute.train}) side->fields["output_tokens"] = 0.0;
  const Summary summary = Accumulate(Plan::Default(), {late, mute});
  for (const std::string side : {"", "train_"}) {
    const auto endless = [&](const char* name) {
      const SeriesView view(summary, 0, *FindSeries(side + name));
      EXPECT_EQ(view.count(), 2u) << side << name;
      return view.Above(SeriesView::End::kHigh, 1e300).lo;
    };
    EXPECT_EQ(endless("latency_ms"), 2u);
    EXPECT_EQ(endless("tpot_ms"), 2u);
    EXPECT_EQ(endless("ttft_ms"), 1u);
    const PopulationValue throughput =
        SlicePopulation(summary, 0, *ParseMetric(side + "throughput_tokens_per_s"));
    EXPECT_EQ(throughput.count, 0u);
    EXPECT_EQ(throughput.missing, 2u);
  }
}

// Rows that both sides score are no answer of the side that was given up, and what it claims to
// have written is its own word: a first token that nobody vouches for never came.
TEST(Population, NoClaimOfALengthMakesAFirstTokenOfATimedOutRequest) {
  Request infer, train;
  for (Request* side : {&infer, &train}) side->fields = {{"timed_out", true}, {"ttft_ms", 30.0}};
  RequestPair pair;
  pair.infer = &infer;
  pair.train = &train;
  const Quantity& first_token = *FindQuantity("ttft_ms");
  for (const double claim : {0.0, 2.0, 3.0}) {
    for (Request* side : {&infer, &train}) side->fields["output_tokens"] = claim;
    for (const Side side : {Side::kInfer, Side::kTrain}) {
      pair.output_rows = 2;
      EXPECT_EQ(RecordedQuantity(first_token, pair, side).value,
                std::numeric_limits<double>::infinity());
      pair.output_rows = -1;  // each side wrote its own answer
      const double written = claim > 0 ? 30 : std::numeric_limits<double>::infinity();
      EXPECT_EQ(RecordedQuantity(first_token, pair, side).value, written);
    }
  }
}

}  // namespace
}  // namespace kcc
