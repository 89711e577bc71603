// The columns of a row agree with one another: what reads one may rely on the others.
#include "kcc/metric/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace kcc {
namespace {

bool IsFieldWord(std::string_view fields, std::string_view word) {
  return (" " + std::string(fields) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

TEST(CatalogColumns, ATokenQuantityIsTestedByItsAggregate) {
  for (const Quantity& row : Catalog()) {
    if (row.level != QuantityLevel::kToken) continue;
    SCOPED_TRACE(row.id);
    EXPECT_EQ(row.observation, Observation::kToken);
    EXPECT_EQ(row.form, TestForm::kByAggregate);
    EXPECT_EQ(row.bounded_by, BoundedBy::kOwnRange);
    EXPECT_EQ(row.taken, TakenFrom::kNone);
    EXPECT_EQ(row.counts, RequestCounts::kNone);
    EXPECT_EQ(row.merge, MergeRule::kExactSum);
    EXPECT_TRUE(row.of.empty());
    EXPECT_TRUE(row.evidence == EvidenceNeeded::kLogits ||
                row.evidence == EvidenceNeeded::kSampledToken);
  }
}

TEST(CatalogColumns, ARequestQuantityIsTakenFromSomewhere) {
  for (const Quantity& row : Catalog()) {
    EXPECT_EQ(row.taken != TakenFrom::kNone, row.level == QuantityLevel::kRequest) << row.id;
    if (row.level != QuantityLevel::kRequest) continue;
    SCOPED_TRACE(row.id);
    EXPECT_EQ(row.observation, Observation::kRequest);
    EXPECT_EQ(row.form, TestForm::kByAggregate);
    EXPECT_EQ(row.counts, RequestCounts::kNone);
    EXPECT_EQ(row.merge, MergeRule::kExactSum);
    // Of its tokens, of what both sides recorded, or of what one side did.
    const bool of_tokens = row.taken == TakenFrom::kTokenSum || row.taken == TakenFrom::kTokenMean;
    const bool of_sides = row.taken == TakenFrom::kSideDifference ||
                          row.taken == TakenFrom::kSideGap || row.taken == TakenFrom::kSideRatio;
    const bool of_outputs =
        row.taken == TakenFrom::kSameOutput || row.taken == TakenFrom::kFirstDivergence;
    EXPECT_EQ(of_tokens, !OfWholeRequests(row));
    EXPECT_EQ(of_outputs, row.evidence == EvidenceNeeded::kOutputs);
    EXPECT_EQ(of_tokens || of_sides, !row.of.empty());
    EXPECT_EQ(of_tokens || of_sides || of_outputs, !row.sided);
    if (of_outputs) {
      EXPECT_TRUE(row.on_demand);  // measuring reads the tokens only where a plan asks
    }
    const Quantity& source = SourceOf(row);
    if (of_tokens) {
      EXPECT_EQ(source.level, QuantityLevel::kToken);
      EXPECT_EQ(source.evidence, row.evidence);
      EXPECT_EQ(source.direction, row.direction);
    }
    if (of_sides) {
      EXPECT_EQ(source.level, QuantityLevel::kRequest);
      EXPECT_TRUE(source.sided);
      EXPECT_EQ(source.fields, row.fields);
      EXPECT_EQ(row.min < 0, row.taken == TakenFrom::kSideDifference);
    }
    EXPECT_EQ(row.unit, row.taken == TakenFrom::kSideRatio ? Unit::kPure : source.unit);
    const bool own_field = row.taken == TakenFrom::kField || row.taken == TakenFrom::kOutputTokens;
    if (own_field) {
      EXPECT_EQ(row.fields, row.id);
    }
  }
}

TEST(CatalogColumns, APopulationQuantityHasAFormOfItsOwn) {
  for (const Quantity& row : Catalog()) {
    const bool population = row.level == QuantityLevel::kPopulation;
    EXPECT_EQ(row.form != TestForm::kByAggregate, population) << row.id;
    EXPECT_EQ(row.merge == MergeRule::kBins, population) << row.id;
    if (!population) continue;
    SCOPED_TRACE(row.id);
    const bool share = row.min == 0 && row.max == 1 && row.unit == Unit::kPure;
    const bool of_fields = row.evidence == EvidenceNeeded::kRequestFields;
    EXPECT_EQ(of_fields, row.observation != Observation::kToken);
    switch (row.form) {
      case TestForm::kRequestShare:
        EXPECT_TRUE(share && of_fields);
        EXPECT_THAT(row.counts,
                    testing::AnyOf(RequestCounts::kFailures, RequestCounts::kSignatures,
                                   RequestCounts::kFingerprints, RequestCounts::kCoverage,
                                   RequestCounts::kConformance));
        break;
      case TestForm::kFlagGap:
        EXPECT_TRUE(share && of_fields && !row.sided);
        EXPECT_THAT(row.counts, testing::AnyOf(RequestCounts::kRefusals, RequestCounts::kParses));
        break;
      case TestForm::kTokenShare:
        EXPECT_TRUE(share && !row.of.empty());
        EXPECT_EQ(SourceOf(row).level, QuantityLevel::kToken);
        EXPECT_EQ(SourceOf(row).max, 1);
        break;
      case TestForm::kMeanGap:
        EXPECT_EQ(row.min, 0);  // of its size; tests take the sign as well
        EXPECT_EQ(row.direction, Direction::kLowerIsBetter);
        EXPECT_FALSE(row.sided);
        EXPECT_TRUE(std::isfinite(row.max) || row.bounded_by != BoundedBy::kOwnRange);
        EXPECT_EQ(of_fields, !row.of.empty());
        break;
      case TestForm::kReplayShare:
        EXPECT_TRUE(share);
        EXPECT_EQ(row.observation, Observation::kReplay);
        EXPECT_TRUE(IsFieldWord(row.fields, "replay_group"));
        break;
      case TestForm::kLargest:
        EXPECT_EQ(row.direction, Direction::kLowerIsBetter);
        EXPECT_TRUE(std::isinf(row.max));
        break;
      case TestForm::kNone:
        break;
      case TestForm::kByAggregate:
        ADD_FAILURE();
    }
    const bool counted = row.form == TestForm::kRequestShare || row.form == TestForm::kFlagGap;
    EXPECT_EQ(row.counts != RequestCounts::kNone, counted);
  }
}

TEST(CatalogColumns, WhatIsDerivedIsBoundedLikeItsSource) {
  for (const Quantity& row : Catalog()) {
    SCOPED_TRACE(row.id);
    EXPECT_EQ(&SourceOf(row) == &row, row.of.empty());
    if (row.of.empty()) continue;
    ASSERT_NE(FindQuantity(row.of), nullptr);
    EXPECT_EQ(SourceOf(row).bounded_by, row.bounded_by);
    EXPECT_TRUE(SourceOf(row).of.empty());
  }
}

TEST(CatalogColumns, AnAssumptionBoundsWhatTheRowLeavesOpen) {
  for (const Quantity& row : Catalog()) {
    SCOPED_TRACE(row.id);
    switch (row.bounded_by) {
      case BoundedBy::kOwnRange:
        break;
      case BoundedBy::kRewardMax:
        EXPECT_TRUE(std::isinf(row.max));
        EXPECT_TRUE(IsFieldWord(row.fields, "reward"));
        break;
      case BoundedBy::kTokensMax:
        EXPECT_TRUE(std::isinf(row.max));
        EXPECT_EQ(row.unit, Unit::kTokens);
        break;
    }
  }
}

TEST(CatalogColumns, SampledTokensEstimateDistributionalQuantitiesAlone) {
  for (const Quantity& row : Catalog()) {
    SCOPED_TRACE(row.id);
    if (row.estimate == SampleEstimate::kNone) continue;
    EXPECT_EQ(row.level, QuantityLevel::kToken);
    EXPECT_EQ(row.evidence, EvidenceNeeded::kLogits);
    EXPECT_FALSE(row.sided);
    if (row.estimate == SampleEstimate::kWithinRange) {
      EXPECT_TRUE(std::isfinite(row.max));
    }
  }
}

TEST(CatalogColumns, FamiliesFollowWhatIsMeasured) {
  for (const Quantity& row : Catalog()) {
    SCOPED_TRACE(row.id);
    const Unit unit = SourceOf(row).unit;  // a ratio of times is about cost too
    const bool cost =
        unit == Unit::kMs || unit == Unit::kMegabytes || unit == Unit::kTokensPerSecond;
    EXPECT_EQ(row.families == FamilySet{Family::kRuntime}, cost);
    const bool token = row.level == QuantityLevel::kToken;
    EXPECT_EQ((row.families == FamilySet{Family::kNumerical, Family::kStatistical}), token);
  }
}

// A row moved to another form is judged by another test: that is written down twice.
TEST(CatalogColumns, FormsOfThePopulationQuantities) {
  const auto with = [](TestForm form) {
    std::set<std::string> ids;
    for (const Quantity& row : Catalog()) {
      if (row.form == form) ids.emplace(row.id);
    }
    return ids;
  };
  using Ids = std::set<std::string>;
  EXPECT_EQ(with(TestForm::kRequestShare),
            (Ids{"event_conformance", "failure_rate", "fingerprint_match_rate",
                 "replay_mismatch_rate", "signature_match_rate", "trace_field_coverage"}));
  EXPECT_EQ(with(TestForm::kTokenShare), Ids{"flip_rate"});
  EXPECT_EQ(with(TestForm::kFlagGap), (Ids{"parse_rate_gap", "refusal_rate_gap"}));
  EXPECT_EQ(with(TestForm::kMeanGap), (Ids{"brier_gap", "reward_drift"}));
  EXPECT_EQ(with(TestForm::kLargest),
            (Ids{"kv_cache_mb", "peak_memory_mb", "replay_logprob_gap", "replay_ulp_gap"}));
  EXPECT_EQ(with(TestForm::kReplayShare), Ids{"determinism_rate"});
  EXPECT_EQ(with(TestForm::kNone),
            (Ids{"ece_gap", "failure_rate_gap", "peak_memory_ratio", "smce_gap", "throughput_ratio",
                 "throughput_tokens_per_s"}));
}

// Summaries of before named them whether asked for or not; no further row may.
TEST(CatalogColumns, ThreeQuantitiesOnDemandAreNamedInEverySummary) {
  std::set<std::string> ids;
  for (const Quantity& row : Catalog()) {
    if (row.always_named) ids.emplace(row.id);
  }
  EXPECT_EQ(ids, (std::set<std::string>{"hellinger", "js", "rank"}));
}

// The span is of Delta, which the temperature divides.
TEST(CatalogColumns, WhatIsUnscaledIsInLogits) {
  for (const Quantity& row : Catalog()) {
    EXPECT_EQ(row.unscaled, row.unit == Unit::kLogit && row.id != "logit_span") << row.id;
    if (row.unscaled) {
      EXPECT_EQ(row.level, QuantityLevel::kToken) << row.id;
    }
  }
}

TEST(CatalogColumns, EveryUnitHasAName) {
  std::set<std::string_view> names;
  for (const Quantity& row : Catalog()) names.insert(Name(row.unit));
  EXPECT_EQ(names, (std::set<std::string_view>{"", "MB", "logit", "ms", "nat", "token", "token/s",
                                               "ulp"}));
}

}  // namespace
}  // namespace kcc
