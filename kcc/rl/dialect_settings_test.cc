#include "kcc/rl/dialect_settings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kcc/rl/dialect.h"
#include "kcc/rl/replay.h"

namespace kcc {
namespace {

using Lines = std::vector<std::string>;

RlCorrection Parsed(std::string_view json) {
  auto correction = ParseCorrection(json);
  EXPECT_TRUE(correction.has_value()) << correction.error().Format();
  return *correction;
}

TEST(DialectSettings, TokenTruncationInEveryFrameworkThatHasIt) {
  const RlCorrection truncate = Parsed(R"({"weight": {"mode": "truncate", "high": 2}})");
  EXPECT_EQ(SettingsFor("verl", truncate)->lines,
            (Lines{"actor_rollout_ref.rollout.calculate_log_probs=true",
                   "algorithm.rollout_correction.rollout_is=\"token\"",
                   "algorithm.rollout_correction.rollout_is_threshold=2"}));
  EXPECT_EQ(SettingsFor("trl", truncate)->lines,
            (Lines{"vllm_importance_sampling_correction=True",
                   "vllm_importance_sampling_mode=\"token_truncate\"",
                   "vllm_importance_sampling_clip_max=2"}));
  for (const std::string_view dialect : {"nemo", "skyrl", "ms_swift", "slime"}) {
    EXPECT_TRUE(SettingsFor(dialect, truncate).has_value()) << dialect;
  }
  // Its "tis" raises small weights too.
  EXPECT_FALSE(SettingsFor("openrlhf", truncate).has_value());
}

// verl's k1 band bounds 1/w, though its documentation says w (docs/rl-dialects.md).
TEST(DialectSettings, VerlsBandsOfRatiosAreInverted) {
  const RlCorrection band = Parsed(
      R"({"reject": [{"statistic": "ratio", "aggregate": "sequence_mean", "low": 0.8, "high": 1.6}]})");
  const auto settings = SettingsFor("verl", band);
  ASSERT_TRUE(settings.has_value());
  EXPECT_NE(std::find(settings->lines.begin(), settings->lines.end(),
                      "algorithm.rollout_correction.rollout_rs_threshold=\"0.625_1.25\""),
            settings->lines.end());
  EXPECT_FALSE(SettingsFor("trl", band).has_value());  // it rejects by weights alone
}

TEST(DialectSettings, NoCorrectionIsASettingToo) {
  EXPECT_EQ(SettingsFor("trl", {})->lines, Lines{"vllm_importance_sampling_correction=False"});
  for (const std::string_view dialect : SettingsDialects()) {
    EXPECT_EQ(SettingsFor(dialect, {})->lines.size(), 1u) << dialect;
  }
}

// Whatever is given means the correction it was asked for: the framework's own words, translated.
TEST(DialectSettings, EverySettingOfTheGridTranslatesBack) {
  int said = 0;
  for (const std::string_view dialect : SettingsDialects()) {
    for (const RlCorrection& correction : ReplayGrid()) {
      const auto settings = SettingsFor(dialect, correction);
      if (!settings || settings->options.empty()) continue;
      const auto back = TranslateDialect(dialect, settings->function, settings->options);
      ASSERT_TRUE(back.has_value()) << dialect << " " << settings->options;
      EXPECT_TRUE(back->complete && SameCorrection(back->correction, correction))
          << dialect << " " << settings->options << " is " << DescribeCorrection(back->correction)
          << ", not " << DescribeCorrection(correction);
      ++said;
    }
  }
  EXPECT_GE(said, 40);
}

TEST(DialectSettings, CorrectionsAreTheSameByWhatTheyDo) {
  const RlCorrection ratio = Parsed(
      R"({"reject": [{"statistic": "ratio", "aggregate": "token", "low": 0.5, "high": 4}]})");
  const RlCorrection k1 =
      Parsed(R"({"reject": [{"statistic": "k1", "aggregate": "token", "low": 0.25, "high": 2}]})");
  EXPECT_TRUE(SameCorrection(ratio, k1));
  RlCorrection narrower = k1;
  narrower.reject[0].high = 1.9;
  EXPECT_FALSE(SameCorrection(ratio, narrower));
  RlCorrection vetoing = ratio;
  vetoing.veto = RlVeto{};
  EXPECT_FALSE(SameCorrection(ratio, vetoing));
}

}  // namespace
}  // namespace kcc
