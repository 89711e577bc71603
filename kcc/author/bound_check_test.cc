// The check of bounds against evidence: honest rows pass at every scale, a broken measurement is
// found out.
#include "kcc/author/bound_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"

namespace kcc {
namespace {

TokenDrift Measured(const std::vector<float>& train, const std::vector<float>& infer,
                    double temperature) {
  RowPair row;
  row.train = train.data();
  row.infer = infer.data();
  row.vocab = train.size();
  row.temperature = temperature;
  row.token = 0;
  TokenDrift drift;
  EXPECT_TRUE(MeasureRowReference(row, AllTokenSlots(), &drift));
  return drift;
}

TEST(BoundChecker, HonestEvidenceViolatesNothingAtAnyScale) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const double temperature : {0.3, 1.0, 2.0}) {
    BoundChecker checker(temperature);
    for (const size_t vocab : std::initializer_list<size_t>{2, 3, 50, 400}) {
      for (float noise = 1e-7f; noise < 40; noise *= 3) {
        std::vector<float> train(vocab);
        std::vector<float> infer(vocab);
        for (size_t i = 0; i < vocab; ++i) {
          train[i] = 3 * normal(random);
          infer[i] = train[i] + noise * normal(random);
        }
        checker.Add(Measured(train, infer, temperature), "r", 0);
        checker.Add(Measured(train, train, temperature), "same", 0);
      }
    }
    for (const CheckedBound& row : checker.Rows()) {
      EXPECT_EQ(row.violations, 0)
          << row.statement << " " << row.closest->measured << " > " << row.closest->bound;
      EXPECT_GT(row.compared, 0) << row.statement;
      if (row.closest) {
        EXPECT_LE(row.ratio_max, 1 + 1e-9) << row.statement;
      }
    }
  }
}

TEST(BoundChecker, ATwoPointPairAttainsTheSharpBounds) {
  // q(D = s) = 1/(1 + e^{s/2}): tv is tanh(s/4) exactly.
  const double s = 0.5;
  const float odds = static_cast<float>(-s / 2);
  BoundChecker checker(1);
  checker.Add(Measured({0.0f, odds + static_cast<float>(s)}, {0.0f, odds}, 1), "two", 0);
  for (const CheckedBound& row : checker.Rows()) {
    EXPECT_EQ(row.violations, 0) << row.statement;
    if (row.statement == "tv <= tanh(s/4)") {
      EXPECT_NEAR(row.ratio_max, 1, 1e-6);
    }
    if (row.statement == "hellinger <= 1 - sech(s/4)") {
      EXPECT_NEAR(row.ratio_max, 1, 1e-6);
    }
  }
}

TEST(BoundChecker, FindsAMeasurementThatCannotBe) {
  const std::vector<float> train = {1, 2, 3, 0.5f};
  const std::vector<float> infer = {1.1f, 2, 2.9f, 0.5f};
  struct Case {
    const char* slot;
    const char* statement;
  };
  const Case cases[] = {
      {"tv", "tv <= tanh(s/4)"},
      {"kl", "kl <= s/(e^s - 1) - 1 + ln((e^s - 1)/s)"},
      {"reverse_kl", "reverse_kl <= as kl"},
      {"chi2", "chi2 <= sinh(s/2)^2"},
      {"hellinger", "hellinger <= 1 - sech(s/4)"},
      {"abs_log_ratio", "abs_log_ratio <= s"},
      {"logit_span", "logit_span <= 2 logit_linf/tau"},
  };
  for (const Case& c : cases) {
    TokenDrift drift = Measured(train, infer, 1);
    drift.Set(TokenSlot(c.slot), 0.9);
    BoundChecker checker(1);
    checker.Add(drift, "liar", 7);
    bool found = false;
    for (const CheckedBound& row : checker.Rows()) {
      if (row.statement != c.statement) continue;
      found = true;
      EXPECT_EQ(row.violations, 1) << c.statement;
      EXPECT_EQ(row.closest->request, "liar");
      EXPECT_EQ(row.closest->position, 7);
    }
    EXPECT_TRUE(found) << c.statement;
  }
}

TEST(BoundChecker, AFlipWithinACertainMarginIsAViolation) {
  TokenDrift drift = Measured({9, 1, 0}, {8.5f, 1, 0}, 1);
  drift.Set(TokenSlot("top1_overlap"), 0);
  BoundChecker checker(1);
  checker.Add(drift, "r", 0);
  EXPECT_EQ(checker.Rows().back().violations, 1);
}

TEST(BoundChecker, AnIntervalViolatesOnlyWhereNoValueInItCouldHold) {
  TokenDrift drift = Measured({1, 2, 3}, {1, 2, 3.01f}, 1);
  drift.SetInterval(TokenSlot("tv"), 0, 1);
  BoundChecker checker(1);
  checker.Add(drift, "r", 0);
  for (const CheckedBound& row : checker.Rows()) EXPECT_EQ(row.violations, 0) << row.statement;
}

}  // namespace
}  // namespace kcc
