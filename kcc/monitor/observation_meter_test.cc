#include "kcc/monitor/observation_meter.h"

#include <gtest/gtest.h>

#include "kcc/judge/judge.h"
#include "kcc/monitor/monitor_test_data.h"
#include "kcc/summary/file.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::KlObservation;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::MonitorSlice;
using testing::SoftKl;

class ObservationMeterTest : public ::testing::Test {
 protected:
  ObservationMeter Make() const {
    auto meter = ObservationMeter::Make(Plan::FromContract(contract_), contract_.trust);
    EXPECT_TRUE(meter.has_value()) << meter.error().Format();
    return std::move(*meter);
  }
  // As a source vouches for them; `lost` more were sampled.
  Summary WithSource(Summary summary, uint64_t lost = 0) const {
    Source source;
    source.train.identity = "t";
    source.infer.identity = "i";
    source.train.kernel_fingerprint = "train";
    source.infer.kernel_fingerprint = "infer";
    source.requests = summary.requests.size() + lost;
    for (const uint64_t hash : summary.requests) source.manifest += hash;
    for (const SliceStats& slice : summary.slices)
      source.tokens = std::max(source.tokens, slice.tokens);
    summary.sources = {source};
    return summary;
  }
  Verdict VerdictOf(const Summary& summary) const {
    JudgeOptions options;
    options.stage = Stage::kCanary;
    options.about = Population::kTraffic;
    return Judge(contract_, summary, options).clauses[0].slices[0].verdict();
  }

  Contract contract_ = MonitorContract({SoftKl(0.05)});
};

TEST_F(ObservationMeterTest, SumsWhatTheObservationsSay) {
  ObservationMeter meter = Make();
  EXPECT_TRUE(meter.Add(KlObservation(1, {0.25, 0.5}), ""));
  EXPECT_TRUE(meter.Add(KlObservation(2, {2.25}), ""));
  EXPECT_EQ(meter.requests(), 2u);
  EXPECT_EQ(meter.tokens(), 3u);
  const auto summary = meter.Sum();
  ASSERT_TRUE(summary.has_value()) << summary.error().Format();
  EXPECT_EQ(summary->requests.size(), 2u);
  const int all = summary->plan.FindSlice("all");
  const SeriesView view(*summary, static_cast<size_t>(all), *FindSeries("kl"));
  EXPECT_EQ(view.count(), 3u);
  EXPECT_EQ(view.Mean(SeriesStats::End::kLow), 1);
  EXPECT_EQ(view.missing(), 0u);
}

TEST_F(ObservationMeterTest, InPartsItSumsTheSame) {
  ObservationMeter whole = Make();
  ObservationMeter parts = Make();
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(whole.Add(GoodOrBad(i, i % 7 == 0), ""));
    EXPECT_TRUE(parts.Add(GoodOrBad(i, i % 7 == 0), ""));
    EXPECT_TRUE(i % 9 != 0 || parts.Sum().has_value());
  }
  EXPECT_EQ(EncodeSummary(*whole.Sum()), EncodeSummary(*parts.Sum()));
  EXPECT_EQ(EncodeSummary(*whole.Sum()), EncodeSummary(*whole.Sum())) << "read twice";
}

TEST_F(ObservationMeterTest, AVerdictRestsOnAllThatWasSampled) {
  ObservationMeter good = Make();
  for (int64_t i = 0; i < 400; ++i) EXPECT_TRUE(good.Add(GoodOrBad(i, false), ""));
  EXPECT_EQ(VerdictOf(WithSource(*good.Sum())), Verdict::kSatisfied);
  EXPECT_EQ(VerdictOf(WithSource(*good.Sum(), 1)), Verdict::kInconclusive) << "one is missing";
  ObservationMeter bad = Make();
  for (int64_t i = 0; i < 400; ++i) EXPECT_TRUE(bad.Add(GoodOrBad(i, i % 2 == 0), ""));
  EXPECT_EQ(VerdictOf(WithSource(*bad.Sum())), Verdict::kViolated);
  EXPECT_EQ(VerdictOf(WithSource(*bad.Sum(), 3)), Verdict::kViolated);
}

TEST_F(ObservationMeterTest, RowsThatAreClaimedAndNotThereAreMissing) {
  ObservationMeter meter = Make();
  for (int64_t i = 0; i < 400; ++i) {
    MonitorObservation observation = GoodOrBad(i, false);
    if (i == 7) observation.infer.fields["output_tokens"] = 5.0;
    EXPECT_TRUE(meter.Add(observation, ""));
  }
  EXPECT_EQ(VerdictOf(WithSource(*meter.Sum())), Verdict::kInconclusive);
  MonitorObservation unknown = GoodOrBad(0, false);
  unknown.tokens.columns[0].lo[0] = std::numeric_limits<double>::quiet_NaN();
  ObservationMeter other = Make();
  for (int64_t i = 1; i < 400; ++i) EXPECT_TRUE(other.Add(GoodOrBad(i, false), ""));
  EXPECT_TRUE(other.Add(unknown, ""));
  EXPECT_EQ(VerdictOf(WithSource(*other.Sum())), Verdict::kInconclusive);
}

TEST_F(ObservationMeterTest, WhatNoSummaryCanHoldIsRefused) {
  ObservationMeter meter = Make();
  MonitorObservation repeat = GoodOrBad(1, false);
  repeat.repeat = true;
  EXPECT_FALSE(meter.Add(repeat, ""));
  MonitorObservation broken = GoodOrBad(2, false);
  broken.broken = "it read another prompt";
  EXPECT_FALSE(meter.Add(broken, ""));
  MonitorObservation values;
  values.kernel = "fast";
  values.infer.id = "r3";
  values.values["max_kl"] = {0.1, 0.1};
  EXPECT_FALSE(meter.Add(values, ""));
  EXPECT_EQ(meter.requests(), 0u);
  EXPECT_TRUE(meter.Sum()->requests.empty());
}

// A slice by a field that infer alone has is no evidence, as everywhere.
TEST_F(ObservationMeterTest, WhatInferAloneSaysVouchesForNoSlice) {
  contract_ = MonitorContract({SoftKl(0.05, {"code"})},
                              {MonitorSlice("all"), MonitorSlice("code", "kind == 'code'")});
  for (const bool asked : {false, true}) {
    ObservationMeter meter = Make();
    for (int64_t i = 0; i < 400; ++i) {
      MonitorObservation observation = GoodOrBad(i, false);
      observation.infer.fields["kind"] = std::string("code");
      if (asked) {
        observation.asked.emplace().id = observation.id();
        observation.asked->fields["kind"] = std::string("code");
      }
      EXPECT_TRUE(meter.Add(observation, ""));
    }
    EXPECT_EQ(VerdictOf(WithSource(*meter.Sum())),
              asked ? Verdict::kSatisfied : Verdict::kInconclusive);
  }
}

}  // namespace
}  // namespace kcc
