#include "kcc/rl/rl_json.h"

#include <gtest/gtest.h>

#include <cctype>

#include "kcc/format/json.h"
#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

// Every text of `kcc rl --json`, of a batch that has all there is to say.
struct Texts {
  std::string diagnose, lint, dialects, translate, correct, replay, conform;

  std::vector<std::pair<std::string, const std::string*>> All() const {
    return {{"kccRlDiagnose", &diagnose}, {"kccRlLint", &lint},
            {"kccRlDialects", &dialects}, {"kccRlTranslate", &translate},
            {"kccRlCorrect", &correct},   {"kccRlReplay", &replay},
            {"kccRlConform", &conform}};
  }
};

OwnedBatch FullBatch() {
  OwnedBatch batch = NoisyBatch(30, 24, 0.1, 3);
  batch.old = batch.rollout;
  return batch;
}

std::vector<RlMetrics> MetricsBySlice(const RlBatch& batch) {
  RlSummary summary;
  EXPECT_TRUE(summary.Add(batch).has_value());
  std::vector<RlMetrics> out = {*summary.Metrics()};
  for (const std::string& slice : summary.slices()) out.push_back(*summary.Metrics(slice));
  return out;
}

Texts MakeTexts() {
  const OwnedBatch owned = FullBatch();
  const RlBatch batch = owned.View();
  Texts out;
  const std::vector<RlMetrics> metrics = MetricsBySlice(batch);
  const RlClause clauses[] = {{"token.k3", 1}, {"row.mean_tv", 0.03}, {"token.ess", 2, true}};
  out.diagnose = DiagnoseJson(metrics, *JudgeRl(metrics[0], clauses));
  const auto rule = ParseCorrection(
      R"({"weight": {"mode": "clip", "low": 0.5, "high": 2, "batchNormalize": true}, )"
      R"("reject": [{"statistic": "ratio", "low": 0.9, "high": 1.1}], "veto": {"low": 1e-4}})");
  EXPECT_TRUE(rule.has_value());
  const auto settings = LintCorrection(batch, *rule);
  RlLintReport report = *LintRl(batch);
  report.findings.push_back({RlFault::kUnsure, 0.5, "m", {{"e", 1, 2}}, {RlFault::kStale}});
  out.lint = LintJson(report, &*settings);
  out.dialects = DialectsJson();
  out.translate = TranslateJson(*TranslateDialect("verl", "", R"({"rollout_is": "sequence"})"));
  out.correct = CorrectJson(*rule, *CorrectRl(batch, *rule, {}));
  out.replay = ReplayJson(*ReplayRl(batch, ReplayGrid()));
  ConformReport missed;
  missed.misses.push_back({"trl", "a case", "loss", "1", "2"});
  const ConformedFile files[] = {{"trl.json", missed}};
  out.conform = ConformJson(files);
  return out;
}

bool IsCamelCase(std::string_view key) {
  for (const char c : key) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) return false;
  }
  return !key.empty() && std::islower(static_cast<unsigned char>(key[0])) != 0;
}

// Keys that are neither camelCase nor names of metrics, which have their own objects.
void CollectOddKeys(json::element element, std::vector<std::string>* odd) {
  json::object object;
  json::array array;
  if (element.get(object) == simdjson::SUCCESS) {
    for (const auto [key, value] : object) {
      if (!IsCamelCase(key)) odd->emplace_back(key);
      if (key != "metrics" && key != "confidenceIntervals") CollectOddKeys(value, odd);
    }
  } else if (element.get(array) == simdjson::SUCCESS) {
    for (const json::element item : array) CollectOddKeys(item, odd);
  }
}

TEST(RlJson, TheFirstKeyCarriesTheVersion) {
  const Texts texts = MakeTexts();
  for (const auto& [key, text] : texts.All()) {
    EXPECT_TRUE(text->starts_with("{\n  \"" + key + "\": 2,\n")) << text->substr(0, 60);
  }
}

TEST(RlJson, KeysHaveOneSpelling) {
  const Texts texts = MakeTexts();
  for (const auto& [name, text] : texts.All()) {
    json::parser parser;
    const auto root = ParseJson(parser, *text);
    ASSERT_TRUE(root.has_value()) << name;
    std::vector<std::string> odd;
    CollectOddKeys(*root, &odd);
    EXPECT_EQ(odd, std::vector<std::string>()) << name;
  }
}

// As JsonWriter indents it: what was pasted in as text would stand at the wrong depth.
TEST(RlJson, OneWriterWritesItAll) {
  const Texts texts = MakeTexts();
  for (const auto& [name, text] : texts.All()) {
    int depth = 0;
    bool in_text = false, at_start = true;
    int spaces = 0;
    for (size_t i = 0; i < text->size(); ++i) {
      const char c = (*text)[i];
      if (in_text) {
        if (c == '\\') ++i;
        in_text = c != '"';
      } else if (c == '\n') {
        at_start = true;
        spaces = 0;
      } else if (at_start && c == ' ') {
        ++spaces;
      } else {
        depth -= c == '}' || c == ']';
        ASSERT_TRUE(!at_start || spaces == 2 * depth) << name << " at byte " << i;
        depth += c == '{' || c == '[';
        at_start = false;
        in_text = c == '"';
      }
    }
    EXPECT_EQ(depth, 0) << name;
  }
}

TEST(RlJson, WithoutAClauseThereIsNoVerdict) {
  const std::vector<RlMetrics> metrics = MetricsBySlice(FullBatch().View());
  EXPECT_NE(DiagnoseJson(metrics, {}).find("\"verdict\": null"), std::string::npos);
}

TEST(RlJson, TheVerdictIsTheWorstOfTheClauses) {
  const auto worst = [](std::vector<RlVerdict> verdicts) {
    std::vector<RlClauseVerdict> judged(verdicts.size());
    for (size_t i = 0; i < verdicts.size(); ++i) judged[i].verdict = verdicts[i];
    return WorstVerdict(judged);
  };
  using enum RlVerdict;
  EXPECT_EQ(worst({kSatisfied}), kSatisfied);
  EXPECT_EQ(worst({kSatisfied, kInconclusive, kSatisfied}), kInconclusive);
  EXPECT_EQ(worst({kInconclusive, kViolated, kSatisfied}), kViolated);
  EXPECT_EQ(worst({kViolated, kInconclusive}), kViolated);
}

TEST(RlJson, ASliceCalledAllIsNotTheWhole) {
  OwnedBatch owned = FullBatch();
  owned.slice_names[0] = "all";
  const std::string text = DiagnoseJson(MetricsBySlice(owned.View()), {});
  json::parser parser;
  const auto root = ParseJson(parser, text);
  ASSERT_TRUE(root.has_value());
  double whole = 0, part = 0;
  ASSERT_EQ((*root)["all"]["metrics"]["tokens"].get(whole), simdjson::SUCCESS);
  ASSERT_EQ((*root)["slices"].at(0)["metrics"]["tokens"].get(part), simdjson::SUCCESS);
  EXPECT_EQ((*root)["slices"].at(0)["slice"].get_string().value(), "all");
  EXPECT_LT(part, whole);
}

}  // namespace
}  // namespace kcc
