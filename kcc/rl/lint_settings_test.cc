#include "kcc/rl/lint_settings.h"

#include <gtest/gtest.h>

#include "kcc/rl/rl_json.h"
#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

std::string Named(const RlBatch& batch, std::string_view json) {
  const auto correction = ParseCorrection(json);
  if (!correction.has_value()) return correction.error().Format();
  const auto found = LintCorrection(batch, *correction, 2);
  if (!found.has_value()) return found.error().Format();
  std::string text;
  for (const RlSettingFinding& finding : *found) {
    EXPECT_FALSE(finding.evidence.empty());
    EXPECT_FALSE(finding.message.empty());
    EXPECT_EQ(finding.is_note(), finding.fault == RlSettingFault::kNeverActs);
    text += (text.empty() ? "" : " ") + finding.setting + ":" +
            std::string(RlSettingFaultName(finding.fault));
  }
  return text;
}

// Noise of 0.05: log w of tokens within 0.25, of sequences within a few tenths.
TEST(RlLintSettings, NamesWhatIsVacuousAndNothingElse) {
  const auto owned = testing::NoisyBatch(60, 80, 0.05, 7);
  const std::pair<const char*, const char*> cases[] = {
      // Sensible: acts on some tokens.
      {R"({"weight": {"mode": "truncate", "high": 1.05}})", ""},
      {R"({"weight": {"mode": "clip", "low": 0.95, "high": 1.05}})", ""},
      {R"({"weight": {"mode": "full", "level": "sequence"}})", ""},
      {R"({"reject": [{"statistic": "ratio", "low": 0.9, "high": 1.1}]})", ""},
      {R"({"reject": [{"statistic": "k1", "aggregate": "sequence_sum", "low": 0.8, "high": 1.25}]})",
       ""},
      {R"({"veto": {"low": 0.87}})", ""},
      {"{}", ""},
      // Bounds beyond everything seen.
      {R"({"weight": {"mode": "truncate", "high": 3}})", "weight:never_acts"},
      {R"({"weight": {"mode": "mask", "low": 0.1, "high": 10}})", "weight:never_acts"},
      {R"({"reject": [{"statistic": "k3", "high": 5}]})", "reject[0]:never_acts"},
      {R"({"veto": {"low": 1e-4}})", "veto:never_acts"},
      // A cap below 1, bands without 1.
      {R"({"weight": {"mode": "truncate", "high": 0.99}})", "weight:excludes_one"},
      {R"({"weight": {"mode": "clip", "low": 1.01, "high": 1.2}})", "weight:excludes_one"},
      {R"({"weight": {"mode": "mask", "level": "sequence", "low": 1.01, "high": 1.2}})",
       "weight:excludes_one"},
      {R"({"reject": [{"statistic": "ratio", "low": 0.5, "high": 0.98}]})",
       "reject[0]:excludes_one"},
      // verl's k1 band is of 1/w: [1.02, 1.5] keeps w in [0.667, 0.98].
      {R"({"reject": [{"statistic": "k1", "low": 1.02, "high": 1.5}]})", "reject[0]:excludes_one"},
      // A band with 1 in it that next to nothing fits.
      {R"({"weight": {"mode": "clip", "low": 0.999999, "high": 1.000001}})", "weight:always_acts"},
      {R"({"reject": [{"statistic": "k3", "high": 1e-8}]})", "reject[0]:always_acts"},
      // Nothing is left: by one rule, or by two that are harmless alone.
      {R"({"reject": [{"statistic": "ratio", "low": 5, "high": 6}]})",
       "reject[0]:rejects_everything"},
      {R"({"reject": [{"statistic": "ratio", "low": 1, "high": 9}, {"statistic": "ratio", "high": 0.9999999}]})",
       "reject[1]:excludes_one correction:rejects_everything"},
  };
  for (const auto& [correction, want] : cases) {
    EXPECT_EQ(Named(owned.View(), correction), want) << correction;
  }
}

TEST(RlLintSettings, NamesASliceOfWhichNothingIsLeft) {
  auto owned = testing::NoisyBatch(60, 80, 0.01, 7);
  for (size_t i = 0; i < owned.train.size(); ++i) {
    if (i / 80 % 3 == 2) owned.train[i] = owned.rollout[i] - 1;  // math
  }
  EXPECT_EQ(Named(owned.View(), R"({"reject": [{"statistic": "ratio", "low": 0.5, "high": 2}]})"),
            "correction:rejects_slice");
}

TEST(RlLintSettings, AnEmptyMaskHasNoFindingsOfItsOwn) {
  auto owned = testing::NoisyBatch(4, 8, 0.01, 7);
  std::fill(owned.mask.begin(), owned.mask.end(), uint8_t{0});
  EXPECT_EQ(Named(owned.View(), R"({"weight": {"mode": "truncate", "high": 0.5}})"), "");
}

TEST(RlLintSettings, JsonCarriesSettingsBesideFindings) {
  const auto owned = testing::NoisyBatch(60, 80, 0.05, 7);
  const auto report = LintRl(owned.View());
  const auto correction = ParseCorrection(R"({"weight": {"mode": "truncate", "high": 3}})");
  ASSERT_TRUE(report.has_value() && correction.has_value());
  const auto found = LintCorrection(owned.View(), *correction);
  ASSERT_TRUE(found.has_value());
  const std::string json = LintJson(*report, &*found);
  EXPECT_NE(json.find("\"settings\""), std::string::npos);
  EXPECT_NE(json.find("\"largest w seen\""), std::string::npos) << json;
  EXPECT_EQ(LintJson(*report).find("\"settings\""), std::string::npos);
}

}  // namespace
}  // namespace kcc
