#include "kcc/rl/dialect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

struct TranslationCase {
  const char* dialect;
  const char* function;
  const char* options;
  const char* describes;
};

// clang-format off
constexpr TranslationCase kCases[] = {
    {"verl", "", R"({"rollout_is": "token", "rollout_is_threshold": 1.2})", "token truncate at 1.2"},
    {"verl", "", R"({"rollout_is": "sequence", "rollout_is_threshold": "0.5_2.0", "rollout_is_batch_normalize": true})", "sequence mask to [0.5, 2], normalised"},
    {"verl", "", R"({"rollout_is": "token", "rollout_rs": "token_k1,seq_mean_k3", "rollout_rs_threshold": "0.6_1.6,0.05"})", "token truncate at 2; reject by token k1 outside [0.6, 1.6]; reject by sequence mean k3 above 0.05"},
    {"trl", "", R"({"vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_clip_max": 1.5})", "sequence mask to [0, 1.5]"},
    {"trl", "", R"({"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_min": 0.8, "vllm_importance_sampling_clip_max": 1.2})", "token clip to [0.8, 1.2]"},
    {"openrlhf", "", R"({"enable_vllm_is_correction": true, "vllm_is_correction_type": "icepop", "vllm_is_truncated_threshold": [0.8, 1.2]})", "token mask to [0.8, 1.2]"},
    {"openrlhf", "", R"({"enable_vllm_is_correction": true, "vllm_is_correction_type": "seq-mask-tis", "vllm_is_truncated_threshold": [0.97, 1.03]})", "token full; reject by sequence mean ratio outside [0.97, 1.03]"},
    {"slime", "", R"({"tis_mode": "clip", "use_rs": true, "rs_level": "geometric", "rs_lower_bound": 0.95, "rs_upper_bound": 1.05})", "token clip to [0.5, 2], normalised; reject by sequence mean ratio outside [0.95, 1.05]; veto below 1e-04"},
    {"miles", "icepop_function", R"({"tis_clip": 1.3, "tis_clip_low": 0.7})", "token mask to [0.7, 1.3]"},
    {"skyrl", "", R"({"tis_ratio_type": "token", "sequence_mask_metric": "product", "product_mask_low": 0.4, "product_mask_high": 2.5})", "token truncate at 2; reject by sequence sum ratio outside [0.4, 2.5]"},
    {"areal", "", R"({"metric": "ratio", "upper": 1.3, "lower": 0.7})", "token full; reject by token ratio outside [0.7, 1.3]"},
    {"areal", "", R"({"level": "sequence", "action": "clamp", "upper": 1.02, "lower": 0.98})", "geometric clip to [0.98, 1.02]"},
    {"ms-swift", "", R"({"rollout_importance_sampling_mode": "sequence_truncate", "rollout_importance_sampling_threshold": 1.01})", "geometric truncate at 1.01"},
    {"nemo", "", R"({"use_importance_sampling_correction": true, "truncated_importance_sampling_type": "tis", "truncated_importance_sampling_ratio": 1.2})", "token truncate at 1.2"},
    {"roll", "", R"({"is_weight": {"enabled": true, "weight_type": "geometric", "upper_bound": 1.01}, "filters": [{"agg_type": "token", "ratio_low": 0.7, "ratio_high": 1.4}]})", "geometric truncate at 1.01; reject by token ratio outside [0.7, 1.4]"},
    {"open-instruct", "", R"({"rho_clamp_upper_bound": 1.5, "rho_mask_lower_bound": 0.8, "rho_mask_upper_bound": 1.3})", "token truncate at 1.5; reject by token ratio outside [0.8, 1.3]"},
};
// clang-format on

TEST(DialectTranslation, GivesTheDialectsWeightsInCanonicalWords) {
  const OwnedBatch owned = NoisyBatch(24, 20, 0.15, 12);
  const RlBatch batch = owned.View();
  for (const TranslationCase& c : kCases) {
    SCOPED_TRACE(std::string(c.dialect) + " " + c.options);
    const auto translation = TranslateDialect(c.dialect, c.function, c.options);
    ASSERT_TRUE(translation.has_value()) << translation.error().Format();
    EXPECT_EQ(DescribeCorrection(translation->correction), c.describes);
    ASSERT_TRUE(translation->complete);
    const auto upstream = RunDialect(c.dialect, c.function, batch, {}, c.options);
    ASSERT_TRUE(upstream.has_value()) << upstream.error().Format();
    std::vector<double> weights(owned.train.size());
    RlCorrectOutput output;
    output.weights_double = weights;
    ASSERT_TRUE(CorrectRl(batch, translation->correction, output).has_value());
    const DialectArray* given = upstream->Array("weights");
    const DialectArray* mask = upstream->Array("mask");
    const DialectArray* rows = upstream->Array("sequence_mask");
    ASSERT_NE(given, nullptr);
    const bool by_row = given->values.size() == static_cast<size_t>(batch.rows);
    for (size_t i = 0; i < weights.size(); ++i) {
      const size_t row = i / static_cast<size_t>(batch.columns);
      double want = given->values[by_row ? row : i] * owned.mask[i];
      if (mask != nullptr) want *= mask->values[i];
      if (rows != nullptr) want *= rows->values[row];
      ASSERT_NEAR(weights[i], want, 1e-12 * (1 + want)) << i;
    }
  }
}

TEST(DialectTranslation, WarnsWhereANameMisleads) {
  const std::pair<TranslationCase, const char*> cases[] = {
      {{"verl", "", R"({"rollout_rs": "token_k1", "rollout_rs_threshold": "0.6_1.6"})", ""},
       "keeps w in [0.625, 1.667]"},
      {{"verl", "", R"({"rollout_is": "sequence"})", ""}, "product"},
      {{"ms_swift", "", R"({"rollout_importance_sampling_mode": "sequence_mask"})", ""},
       "geometric mean"},
      {{"areal", "", R"({"metric": "kl_k3", "upper": 0.1})", ""}, "1/w"},
      {{"slime", "", R"({"tis_mode": "mask"})", ""}, "leaves the weights"},
      {{"skyrl", "", R"({"token_mask_is_threshold_low": 0.5})", ""}, "ignored"},
      {{"roll", "", R"({"is_weight": {"enabled": true, "weight_type": "segment"}})", ""},
       "geometric mean over a run"},
  };
  for (const auto& [c, says] : cases) {
    const auto translation = TranslateDialect(c.dialect, c.function, c.options);
    ASSERT_TRUE(translation.has_value()) << translation.error().Format();
    std::string all;
    for (const std::string& warning : translation->warnings) all += warning + "\n";
    EXPECT_NE(all.find(says), std::string::npos) << c.dialect << ": " << all;
  }
}

TEST(DialectTranslation, SaysWhatItCannotSay) {
  for (const TranslationCase& c :
       {TranslationCase{"prime_rl", "", "{}", ""},
        TranslationCase{"trl", "get_off_policy_mask", "{}", ""},
        TranslationCase{"slime", "compute_opsm_mask", "{}", ""},
        TranslationCase{"nemo", "compute_and_apply_seq_logprob_error_masking", "{}", ""},
        TranslationCase{"open_instruct", "",
                        R"({"rho_mask_tv_divergence": true, "rho_mask_upper_bound": 1.2})", ""}}) {
    const auto translation = TranslateDialect(c.dialect, c.function, c.options);
    ASSERT_TRUE(translation.has_value()) << translation.error().Format();
    EXPECT_FALSE(translation->complete);
    EXPECT_FALSE(translation->notes.empty());
  }
}

TEST(Dialect, MistakesAreNamed) {
  const OwnedBatch owned = NoisyBatch(2, 3, 0.1, 1);
  const auto says = [&](const char* dialect, const char* function, const char* options) {
    const auto result = RunDialect(dialect, function, owned.View(), {}, options);
    return result.has_value() ? std::string("accepted") : result.error().message();
  };
  EXPECT_NE(says("verll", "", "").find("did you mean \"verl\""), std::string::npos);
  EXPECT_NE(says("verl", "f", "").find("no function"), std::string::npos);
  EXPECT_NE(says("verl", "", R"({"rollout_iss": "token"})").find("\"rollout_is\""),
            std::string::npos);
  EXPECT_NE(says("trl", "", R"({"vllm_importance_sampling_clip_max": "x"})").find("a number"),
            std::string::npos);
  EXPECT_NE(says("trl", "get_gamma_weights", "").find("current_logprobs"), std::string::npos);
  EXPECT_NE(says("verl", "", "[]").find("object"), std::string::npos);
}

TEST(Dialect, EveryDialectAnswersWithItsDefaults) {
  const OwnedBatch owned = NoisyBatch(6, 9, 0.05, 3);
  for (const Dialect* dialect : Dialects()) {
    const auto result = RunDialect(dialect->id, "", owned.View(), {}, "");
    ASSERT_TRUE(result.has_value()) << dialect->id << ": " << result.error().Format();
    EXPECT_FALSE(result->metrics.empty() && result->arrays.empty() && dialect->id != "ms_swift");
    EXPECT_TRUE(TranslateDialect(dialect->id, "", "").has_value()) << dialect->id;
  }
}

TEST(Dialect, EveryRowIsWholeAndItsNamesAreItsOwn) {
  std::set<std::string_view> names;
  for (const Dialect* dialect : Dialects()) {
    SCOPED_TRACE(dialect->id);
    EXPECT_TRUE(names.insert(dialect->id).second);
    for (const std::string_view alias : DialectWords(dialect->aliases)) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(*FindDialect(alias), dialect);
    }
    EXPECT_EQ(*FindDialect(dialect->id), dialect);
    for (const std::string_view text :
         {dialect->title, dialect->repository, dialect->commit, dialect->oddities}) {
      EXPECT_FALSE(text.empty());
    }
    EXPECT_FALSE(dialect->functions.empty());
  }
}

// A row says which options its functions know; the reader decides. The two must agree: what is
// listed is read, what is not is refused.
TEST(Dialect, FunctionsKnowTheOptionsOfTheirRow) {
  const auto problem = [](const Dialect& dialect, const DialectFunction& function,
                          std::string_view option) {
    const auto done =
        TranslateDialect(dialect.id, function.name, "{\"" + std::string(option) + "\": null}");
    return done.has_value() ? std::string() : done.error().message();
  };
  for (const Dialect* dialect : Dialects()) {
    for (const DialectFunction& function : dialect->functions) {
      SCOPED_TRACE(std::string(dialect->id) + " " + std::string(function.name));
      EXPECT_NE(problem(*dialect, function, "no_such_option").find("unknown option"),
                std::string::npos);
      EXPECT_FALSE(DialectWords(function.options).empty());
      for (const std::string_view option : DialectWords(function.options)) {
        EXPECT_EQ(problem(*dialect, function, option).find("unknown option"), std::string::npos)
            << option;
      }
    }
  }
}

}  // namespace
}  // namespace kcc
