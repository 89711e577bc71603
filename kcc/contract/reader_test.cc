// The reader against wrong documents: each row is one mistake, its code and its exact place.
#include "kcc/contract/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kcc/base/file.h"

namespace kcc {
namespace {

constexpr std::string_view kHead =
    "apiVersion: kcc/v1\n"
    "kind: KernelContract\n"
    "metadata: {name: a, version: 1.0.0}\n"
    "spec:\n";

std::vector<std::string> Codes(const ReadOutcome& outcome) {
  std::vector<std::string> codes;
  for (const Diagnostic& diagnostic : outcome.diagnostics) codes.push_back(diagnostic.code);
  return codes;
}

// "line:column code".
std::string Placed(const Diagnostic& diagnostic) {
  return std::to_string(diagnostic.mark.line) + ":" + std::to_string(diagnostic.mark.column) + " " +
         diagnostic.code;
}

std::vector<std::string> Placed(const ReadOutcome& outcome) {
  std::vector<std::string> places;
  for (const Diagnostic& diagnostic : outcome.diagnostics) places.push_back(Placed(diagnostic));
  return places;
}

TEST(ReadContract, ReadsTheExampleOfTheDesign) {
  const Result<ContractFile> file = ReadContractFile("tests/data/contract/design_example.yaml");
  ASSERT_TRUE(file.has_value()) << file.error().Format();
  ASSERT_TRUE(file->outcome.contract.has_value());
  const Contract& contract = *file->outcome.contract;
  EXPECT_EQ(contract.name, "qwen3-8b-fp8-serving");
  EXPECT_EQ(contract.version, "1.3.0");
  EXPECT_EQ(contract.infer.at("kvCache"), "fp8");
  EXPECT_EQ(contract.decision.about, Population::kTraffic);
  EXPECT_EQ(contract.slices.size(), 4u);
  EXPECT_EQ(contract.slices[0].name, "all");
  EXPECT_EQ(contract.clauses.size(), 8u);
  const Clause* n2 = contract.FindClause("N-2");
  ASSERT_NE(n2, nullptr);
  EXPECT_EQ(n2->exceedance, 0.01);
  EXPECT_EQ(n2->threshold, 2e-3);
  EXPECT_EQ(n2->action, Action::kGuard);
  EXPECT_EQ(n2->mark.line, 21);
  EXPECT_EQ(n2->mark.column, 7);
  const Clause* r1 = contract.FindClause("R-1");
  ASSERT_NE(r1, nullptr);
  EXPECT_EQ(r1->window, (Window{Window::Kind::kTime, 60000}));
  const Clause* o1 = contract.FindClause("O-1");
  ASSERT_NE(o1, nullptr);
  EXPECT_EQ(o1->fields.size(), 3u);
  EXPECT_EQ(ActionOf(contract.escalation, *o1), Action::kRollback);
  EXPECT_THAT(Codes(file->outcome),
              testing::ElementsAre("unused-slice", "needs-tokens-max", "not-certifiable",
                                   "not-certifiable", "quantile-of-quantiles"));
}

TEST(ReadContract, ListsAllTenMistakesOfOneFile) {
  const Result<ContractFile> file = ReadContractFile("tests/data/contract/ten_mistakes.yaml");
  ASSERT_TRUE(file.has_value()) << file.error().Format();
  EXPECT_FALSE(file->outcome.contract.has_value());
  EXPECT_THAT(Placed(file->outcome),
              testing::ElementsAre("4:9 bad-name", "5:12 bad-version", "9:51 bad-where",
                                   "11:25 unknown-metric", "12:34 wrong-bound", "13:41 wrong-unit",
                                   "14:12 duplicate-id", "14:66 unknown-slice",
                                   "16:66 out-of-range", "18:9 unknown-word"));
  for (const Diagnostic& diagnostic : file->outcome.diagnostics) {
    EXPECT_EQ(diagnostic.kind, DiagnosticKind::kError);
    EXPECT_FALSE(diagnostic.hint.empty() && diagnostic.code != "bad-where") << diagnostic.message;
  }
}

struct Case {
  std::string name;
  std::string text;  // after kHead, unless it starts with '!'
  std::vector<std::string> places;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Document : public testing::TestWithParam<Case> {};

TEST_P(Document, IsReportedAtItsPlace) {
  const Case& c = GetParam();
  const bool whole = c.text.starts_with('!');
  const std::string text = whole ? c.text.substr(1) : std::string(kHead) + c.text;
  const ReadOutcome outcome = ReadContract(text);
  EXPECT_THAT(Placed(outcome), testing::ElementsAreArray(c.places)) << text;
  bool error = false;
  for (const Diagnostic& d : outcome.diagnostics) error |= d.kind == DiagnosticKind::kError;
  EXPECT_EQ(outcome.contract.has_value(), !error);
}

std::string CaseName(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// One clause under numerical (line 6, starting at column 5).
std::string Clause1(const std::string& clause) { return "  numerical:\n  - {" + clause + "}\n"; }
constexpr const char* kGood = "  - {id: A, metric: mean_tv, atMost: 0.1, level: L1}\n";

// clang-format off
const Case kStructure[] = {
    {"EmptyText", "!", {"1:1 empty"}},
    {"OnlyAComment", "!# nothing\n", {"1:1 empty"}},
    {"AScalar", "!hello\n", {"1:1 wrong-type"}},
    {"AList", "!- a\n", {"1:1 wrong-type"}},
    {"RootKeysMissing", "!a: 1\n", {"1:1 unknown-key", "1:1 missing-key", "1:1 missing-key", "1:1 missing-key", "1:1 missing-key"}},
    {"WrongApiVersion", "!apiVersion: kcc/v2\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0}\nspec: {numerical: [{id: A, metric: mean_tv, atMost: 0.1, level: L1}]}\n", {"1:13 unknown-word"}},
    {"NoClauses", "  decision: {confidence: 0.9}\n", {"5:3 no-clauses"}},
    {"UnknownKey", "  numericl:\n" + std::string(kGood) + "  numerical:\n" + kGood, {"5:3 unknown-key"}},
    {"DuplicateKey", "  numerical:\n" + std::string(kGood) + "  numerical:\n" + kGood, {"7:3 duplicate-key"}},
    {"DuplicateKeyInClause", Clause1("id: A, id: B, metric: mean_tv, atMost: 0.1, level: L1"), {"6:13 duplicate-key"}},
    {"DuplicateUnknownKey", Clause1("id: A, x: 1, x: 2, metric: mean_tv, atMost: 0.1, level: L1"), {"6:13 unknown-key", "6:19 duplicate-key"}},
    {"DuplicateLabel", "!apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0, labels: {x: 1, x: 2}}\nspec: {numerical: [{id: A, metric: mean_tv, atMost: 0.1, level: L1}]}\n", {"3:52 duplicate-key"}},
    {"EmptyValue", "  decision:\n  numerical:\n" + std::string(kGood), {"5:3 empty-value"}},
    {"NullValue", "  decision: ~\n  numerical:\n" + std::string(kGood), {"5:3 empty-value"}},
    {"ScalarForMapping", "  decision: traffic\n  numerical:\n" + std::string(kGood), {"5:13 wrong-type"}},
    {"MappingForList", "  numerical: {id: A}\n", {"5:3 no-clauses", "5:14 wrong-type"}},
    {"ScalarForList", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1, slices: all"), {"6:62 wrong-type"}},
    {"ListForScalar", Clause1("id: [A], metric: mean_tv, atMost: 0.1, level: L1"), {"6:10 wrong-type"}},
    {"KeyIsAList", "  ? [a]\n  : b\n  numerical:\n" + std::string(kGood), {"5:5 bad-key"}},
    {"MergeKey", "  numerical:\n  - &x {id: A, metric: mean_tv, atMost: 0.1, level: L1}\n  - {<<: *x, id: B}\n",
     {"7:5 missing-key", "7:5 missing-key", "7:6 unknown-key"}},
    {"NameUpperCase", "!apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: A, version: 01.0.0}\nspec: {numerical: [{id: A, metric: mean_tv, atMost: 0.1, level: L1}]}\n", {"3:18 bad-name", "3:30 bad-version"}},
    {"BadDigest", "  binds: {model: {digest: \"sha256:12\"}}\n  numerical:\n" + std::string(kGood), {"5:27 bad-digest"}},
    {"BindingNested", "  binds: {model: {a: [1]}}\n  numerical:\n" + std::string(kGood), {"5:22 wrong-type"}},
};

const Case kClauses[] = {
    {"Good", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1"), {}},
    {"MissingIdAndLevel", Clause1("metric: mean_tv, atMost: 0.1"), {"6:5 missing-key", "6:5 missing-key"}},
    {"NoThreshold", Clause1("id: A, metric: mean_tv, level: L1"), {"6:5 missing-threshold"}},
    {"BothThresholds", Clause1("id: A, metric: mean_log_ratio, atMost: 1, atLeast: 0, level: L1"), {"6:48 two-thresholds"}},
    {"WrongBoundLower", Clause1("id: A, metric: p99_kl, atLeast: 1, level: L1"), {"6:29 wrong-bound"}},
    {"WrongBoundHigher", Clause1("id: A, metric: mean_top1_overlap, atMost: 0.9, level: L1"), {"6:40 wrong-bound"}},
    {"SignedTakesBoth", "  numerical:\n  - {id: A, metric: mean_log_ratio, atMost: 0.1, level: L1}\n  - {id: B, metric: mean_log_ratio, atLeast: -0.1, level: L1}\n", {}},
    {"UnknownMetric", Clause1("id: A, metric: p99_kll, atMost: 1, level: L1"), {"6:21 unknown-metric"}},
    {"MetricWithoutAggregate", Clause1("id: A, metric: kl, atMost: 1, level: L1"), {"6:21 unknown-metric"}},
    {"UnknownLevel", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L4"), {"6:50 unknown-word"}},
    {"UnknownAction", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1, action: panic"), {"6:62 unknown-word"}},
    {"UnknownStage", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1, stages: [canry]"), {"6:63 unknown-word"}},
    {"StageTwice", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1, stages: [full, full]"), {"6:69 duplicate-item"}},
    {"EmptySlices", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1, slices: []"), {"6:62 empty-list"}},
    {"SliceTwice", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1, slices: [all, all]"), {"6:68 duplicate-item"}},
    {"QuotedNumber", Clause1("id: A, metric: mean_tv, atMost: \"0.1\", level: L1"), {"6:38 quoted-number"}},
    {"QuotedRatio", Clause1("id: A, metric: mean_tv, atMost: 0.1, exceedance: '0.1', level: L1"), {"6:55 quoted-number"}},
    {"QuotedWithUnit", Clause1("id: A, metric: mean_tv, atMost: \"10%\", exceedance: '1%', level: L1"), {}},
    {"NotANumber", Clause1("id: A, metric: mean_tv, atMost: lots, level: L1"), {"6:38 bad-number"}},
    {"Infinity", Clause1("id: A, metric: mean_kl, atMost: .inf, level: L1"), {"6:38 bad-number"}},
    {"NaN", Clause1("id: A, metric: mean_kl, atMost: nan, level: L1"), {"6:38 bad-number"}},
    {"Hexadecimal", Clause1("id: A, metric: mean_kl, atMost: 0x10, level: L1"), {"6:38 bad-number"}},
    {"Overflow", Clause1("id: A, metric: mean_kl, atMost: 1e999, level: L1"), {"6:38 bad-number"}},
    {"DurationForAShare", Clause1("id: A, metric: mean_tv, atMost: 400ms, level: L1"), {"6:38 wrong-unit"}},
    {"PercentOfNats", Clause1("id: A, metric: mean_kl, atMost: 1%, level: L1"), {"6:38 wrong-unit"}},
    {"PercentOfAShare", Clause1("id: A, metric: mean_tv, atMost: 1%, level: L1"), {}},
    {"BeyondRange", Clause1("id: A, metric: mean_tv, atMost: -0.1, level: L1"), {"6:38 out-of-range"}},
    {"BeyondRangeAbove", Clause1("id: A, metric: mean_top1_overlap, atLeast: 1.5, level: L1"), {"6:49 out-of-range"}},
    {"VacuousAbove", Clause1("id: A, metric: mean_tv, atMost: 1, level: L1"), {"6:38 vacuous"}},
    {"VacuousBelow", Clause1("id: A, metric: mean_top1_overlap, atLeast: 0, level: L1"), {"6:49 vacuous"}},
    {"VacuousBudget", Clause1("id: A, metric: mean_tv, atMost: 0.1, exceedance: 100%, level: L1"), {"6:55 vacuous"}},
    {"BudgetWithoutSign", Clause1("id: A, metric: mean_tv, atMost: 0.1, exceedance: 5, level: L1"), {"6:55 out-of-range"}},
    {"NegativeBudget", Clause1("id: A, metric: mean_tv, atMost: 0.1, exceedance: -1%, level: L1"), {"6:55 out-of-range"}},
    {"ConfidenceOfOne", Clause1("id: A, metric: mean_tv, atMost: 0.1, confidence: 1, level: L1"), {"6:55 out-of-range"}},
    {"WindowOnHard", Clause1("id: A, metric: mean_tv, atMost: 0.1, window: request, level: L1"), {"6:51 window-ignored"}},
    {"WindowUnknown", Clause1("id: A, metric: mean_tv, atMost: 0.1, exceedance: 1%, window: week, level: L1"), {"6:67 bad-window"}},
    {"WindowWithoutUnit", Clause1("id: A, metric: mean_tv, atMost: 0.1, exceedance: 1%, window: 100, level: L1"), {"6:67 bad-window"}},
    {"PercentileWithBudget", Clause1("id: A, metric: p99_tv, atMost: 0.1, exceedance: 1%, level: L1"), {"6:54 quantile-of-quantiles"}},
    {"MinSamplesFraction", Clause1("id: A, metric: mean_tv, atMost: 0.1, minSamples: {requests: 1.5}, level: L1"), {"6:66 bad-number"}},
    {"MinSamplesNegative", Clause1("id: A, metric: mean_tv, atMost: 0.1, minSamples: {tokens: -1}, level: L1"), {"6:64 out-of-range"}},
    {"HoldoutYes", Clause1("id: A, metric: mean_tv, atMost: 0.1, holdout: yes, level: L1"), {"6:52 bad-boolean"}},
    {"HoldoutQuoted", Clause1("id: A, metric: mean_tv, atMost: 0.1, holdout: \"true\", level: L1"), {"6:52 bad-boolean"}},
    {"FieldsMissing", "  observability:\n  - {id: A, metric: trace_field_coverage, atLeast: 1, level: L1}\n", {"6:5 missing-key"}},
    {"FieldsElsewhere", Clause1("id: A, metric: mean_tv, atMost: 0.1, fields: [seed], level: L1"), {"6:43 unexpected-fields"}},
    {"LatencyUnderNumerical", Clause1("id: A, metric: p99_latency_ms, atMost: 400, level: L1"), {"6:21 family"}},
    {"KlUnderRuntime", "  runtime:\n  - {id: A, metric: p99_kl, atMost: 1, level: L1}\n", {"6:21 family"}},
};

const Case kWhole[] = {
    {"DuplicateId", "  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, level: L1}\n  - {id: A, metric: max_tv, atMost: 0.1, level: L1}\n", {"7:10 duplicate-id"}},
    {"IdsAreCaseSensitive", "  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, level: L1}\n  - {id: a, metric: max_tv, atMost: 0.1, level: L1}\n", {}},
    {"DuplicateIdAcrossFamilies", "  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, level: L1}\n  statistical:\n  - {id: A, metric: max_tv, atMost: 0.1, level: L1}\n", {"8:10 duplicate-id"}},
    {"UnknownSlice", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1, slices: [al]"), {"6:63 unknown-slice"}},
    {"OwnersOfEveryKind", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1") + "  owners: {A: ada, precision: quant, runtime: sre}\n", {}},
    {"OwnerOfNothing", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1") + "  owners: {precison: quant}\n", {"7:12 unknown-owned"}},
    {"OwnersAreAMapping", Clause1("id: A, metric: mean_tv, atMost: 0.1, level: L1") + "  owners: ada\n", {"7:11 wrong-type"}},
    {"UnusedSlice", "  slices:\n  - {name: x, where: \"prompt_tokens > 1\"}\n  numerical:\n" + std::string(kGood), {"6:12 unused-slice"}},
    {"DuplicateSlice", "  slices:\n  - {name: x}\n  - {name: x}\n  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, level: L1, slices: [x]}\n", {"7:12 duplicate-slice"}},
    {"AllRedefined", "  slices:\n  - {name: all, where: \"prompt_tokens > 1\"}\n  numerical:\n" + std::string(kGood), {"6:24 all-redefined"}},
    {"AllWrittenTwice", "  slices:\n  - name: all\n  - name: all\n  numerical:\n" + std::string(kGood), {"7:11 duplicate-slice"}},
    {"WherePointsIntoTheText", "  slices:\n  - {name: x, where: 'prompt_tokens >'}\n  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, level: L1, slices: [x]}\n", {"6:38 bad-where"}},
    {"LatencyOnATokenSlice", "  slices:\n  - {name: x, where: \"token.position > 1\"}\n  runtime:\n  - {id: A, metric: p95_latency_ms, atMost: 1s, level: L1, slices: [all, x]}\n", {"8:74 token-slice"}},
    {"Contradiction", "  numerical:\n  - {id: A, metric: mean_log_ratio, atMost: 0.1, level: L1}\n  - {id: B, metric: mean_log_ratio, atLeast: 0.2, level: L2}\n", {"7:46 contradiction"}},
    {"NoContradictionInOtherStages", "  numerical:\n  - {id: A, metric: mean_log_ratio, atMost: 0.1, level: L1, stages: [offline]}\n  - {id: B, metric: mean_log_ratio, atLeast: 0.2, level: L2, stages: [full]}\n", {}},
    {"NoContradictionOnOtherSlices", "  slices: [{name: x}, {name: y}]\n  numerical:\n  - {id: A, metric: mean_log_ratio, atMost: 0.1, level: L1, slices: [x]}\n  - {id: B, metric: mean_log_ratio, atLeast: 0.2, level: L2, slices: [y]}\n", {}},
    {"Subsumed", "  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.2, level: L1}\n  - {id: B, metric: mean_tv, atMost: 0.1, level: L1}\n", {"6:38 subsumed"}},
    {"LadderOfLevels", "  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, level: L1}\n  - {id: B, metric: mean_tv, atMost: 0.2, level: L2}\n", {}},
    {"LadderOfBudgets", "  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, exceedance: 5%, level: L1}\n  - {id: B, metric: mean_tv, atMost: 0.2, exceedance: 1%, level: L1}\n", {}},
    {"TrafficMeanUnbounded", "  decision: {about: traffic}\n  numerical:\n  - {id: A, metric: mean_kl, atMost: 0.1, level: L1}\n", {"7:21 not-certifiable"}},
    {"TrafficMax", "  decision: {about: traffic}\n  assumptions: {tokensMax: 100}\n  numerical:\n  - {id: A, metric: max_tv, atMost: 0.1, level: L1}\n", {"8:21 not-certifiable"}},
    {"TrafficSoftMeanIsFine", "  decision: {about: traffic}\n  numerical:\n  - {id: A, metric: mean_kl, atMost: 0.1, exceedance: 1%, level: L1}\n", {}},
    {"TrafficTokenRate", "  decision: {about: traffic}\n  numerical:\n  - {id: A, metric: mean_tv, atMost: 0.1, level: L1}\n", {"7:21 needs-tokens-max"}},
    {"TrafficRewardBounded", "  decision: {about: traffic}\n  assumptions: {rewardMax: 1}\n  statistical:\n  - {id: A, metric: mean_reward, atLeast: 0.1, level: L1}\n", {}},
    {"EvaluationSetMeanIsFine", "  decision: {about: evaluation-set}\n  numerical:\n  - {id: A, metric: mean_kl, atMost: 0.1, level: L1}\n", {}},
    {"TemperatureZero", "  assumptions: {temperature: 0}\n  numerical:\n" + std::string(kGood), {"5:30 out-of-range"}},
    {"TokensMaxFraction", "  assumptions: {tokensMax: 1.5}\n  numerical:\n" + std::string(kGood), {"5:28 bad-number"}},
    {"EscalationFalls", "  escalation: {L2: rollback}\n  numerical:\n" + std::string(kGood), {"5:16 escalation-order"}},
    {"OverrideUnreachable", "  escalation: {overrides: [{level: L1, action: log}, {level: L1, family: runtime, action: guard}]}\n  numerical:\n" + std::string(kGood), {"5:54 unreachable-override"}},
    {"OverrideWithoutAction", "  escalation: {overrides: [{level: L1}]}\n  numerical:\n" + std::string(kGood), {"5:28 missing-key"}},
};

const Case kYaml[] = {
    {"Tab", "\tdecision: {about: traffic}\n", {"5:1 tab"}},
    {"TabAfterBlanks", "  numerical:\n  \t- {id: A}\n", {"6:3 tab"}},
    {"TwoDocuments", "  numerical:\n" + std::string(kGood) + "---\na: b\n", {"7:1 several-documents"}},
    {"Tag", "  numerical:\n  - {id: !!str A, metric: mean_tv, atMost: 0.1, level: L1}\n", {"6:10 tag"}},
    {"NonSpecificTag", "  numerical:\n  - {id: ! A, metric: mean_tv, atMost: 0.1, level: L1}\n", {"6:10 tag"}},
    {"TagBehindAnchor", "  numerical:\n  - {id: &x !!str A, metric: mean_tv, atMost: 0.1, level: L1}\n", {"6:13 tag"}},
    {"UnknownAlias", "  numerical: *x\n", {"5:14 unknown-anchor"}},
    {"AliasInsideItsNode", "  numerical: &x [*x]\n", {"5:18 alias-cycle"}},
    {"UnclosedQuote", "  numerical:\n  - {id: \"A\n", {"7:1 yaml-syntax"}},
    {"UnclosedBrace", "  numerical:\n  - {id: A\n", {"7:1 yaml-syntax"}},
    {"ColonInPlainText", "  numerical:\n  - id: A: B\n", {"6:10 yaml-syntax"}},
    {"BadIndentation", "  numerical:\n  - id: A\n   metric: b\n", {"7:4 yaml-syntax"}},
    {"InvalidUtf8", "  a: \xC3\xA9 \xFF\n", {"5:8 not-utf8"}},
    {"ControlCharacter", "  a: \x01\n", {"5:6 control-character"}},
    {"Nul", std::string("  a: \0b\n", 8), {"5:6 control-character"}},
    {"EscapedControlCharacter", "  a: \"\\x01\"\n", {"5:6 control-character"}},
    {"BidirectionalOverride", "  a: \xE2\x80\xAE\n", {"5:6 control-character"}},
    {"ByteOrderMarkInside", "  a: \xEF\xBB\xBF\n", {"5:6 control-character"}},
    {"LoneCarriageReturn", "  a: b\r  c: d\n", {"5:7 control-character"}},
    {"ColumnsAreCodePoints", "  numerical:\n  - {id: A, why: \"\xC3\xA9\xC3\xA9\", metric: mean_tvv, atMost: 0.1, level: L1}\n", {"6:32 unknown-metric"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Structure, Document, testing::ValuesIn(kStructure), CaseName);
INSTANTIATE_TEST_SUITE_P(Clauses, Document, testing::ValuesIn(kClauses), CaseName);
INSTANTIATE_TEST_SUITE_P(WholeContract, Document, testing::ValuesIn(kWhole), CaseName);
INSTANTIATE_TEST_SUITE_P(Yaml, Document, testing::ValuesIn(kYaml), CaseName);

Contract MustRead(const std::string& text) {
  const ReadOutcome outcome = ReadContract(text);
  EXPECT_TRUE(outcome.contract.has_value())
      << (outcome.diagnostics.empty() ? "" : outcome.diagnostics[0].message);
  return outcome.contract.value_or(Contract{});
}

TEST(ReadContract, KeepsWordsThatOldYamlReadsAsBooleansAsText) {
  const Contract contract = MustRead(
      "apiVersion: kcc/v1\nkind: KernelContract\n"
      "metadata: {name: a, version: 1.0.0, owner: NO, labels: {country: no, on: yes, n: 012, x: "
      "1_0}}\n"
      "spec:\n  numerical:\n" +
      std::string(kGood));
  EXPECT_EQ(contract.owner, "NO");
  EXPECT_THAT(contract.labels,
              testing::ElementsAre(testing::Pair("country", "no"), testing::Pair("n", "012"),
                                   testing::Pair("on", "yes"), testing::Pair("x", "1_0")));
}

TEST(ReadContract, ReadsTheSameThroughByteOrderMarkAndCrLf) {
  std::string text = std::string(kHead) + "  numerical:\n" + kGood;
  std::string dos = "\xEF\xBB\xBF";
  for (const char c : text) dos += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const Contract contract = MustRead(dos);
  ASSERT_EQ(contract.clauses.size(), 1u);
  EXPECT_EQ(contract.clauses[0].mark.line, 6);
  EXPECT_EQ(contract.clauses[0].mark.column, 5);
  EXPECT_EQ(contract.name, "a");
}

TEST(ReadContract, ResolvesAliases) {
  const Contract contract =
      MustRead(std::string(kHead) +
               "  slices: [{name: x}, {name: y}]\n  numerical:\n"
               "  - {id: A, metric: mean_tv, atMost: &t 0.1, level: L1, slices: &s [x, y]}\n"
               "  - {id: B, metric: max_tv, atMost: *t, level: L1, slices: *s}\n");
  ASSERT_EQ(contract.clauses.size(), 2u);
  EXPECT_EQ(contract.clauses[1].threshold, 0.1);
  EXPECT_THAT(contract.clauses[1].slices, testing::ElementsAre("x", "y"));
}

TEST(ReadContract, ReadsFoldedAndEscapedTexts) {
  const Contract contract = MustRead(std::string(kHead) +
                                     "  numerical:\n  - id: A\n    metric: mean_tv\n"
                                     "    atMost: 1e-1\n    level: L1\n    why: >-\n"
                                     "      from two\n      lines\n"
                                     "  - {id: B, metric: max_tv, atMost: .5, level: L1, "
                                     "why: \"tab\\tand \\u00e9\"}\n");
  ASSERT_EQ(contract.clauses.size(), 2u);
  EXPECT_EQ(contract.clauses[0].why, "from two lines");
  EXPECT_EQ(contract.clauses[1].why, "tab\tand \xC3\xA9");
}

TEST(ReadContract, DefinesAllFirstEvenWhenItIsNotWritten) {
  const Contract contract =
      MustRead(std::string(kHead) +
               "  slices: [{name: x}]\n  numerical:\n"
               "  - {id: A, metric: mean_tv, atMost: 0.1, level: L1, slices: [x]}\n");
  ASSERT_EQ(contract.slices.size(), 2u);
  EXPECT_EQ(contract.slices[0].name, "all");
  EXPECT_EQ(contract.slices[1].name, "x");
}

TEST(ReadContract, StopsAfterTwoHundredErrorsAndSaysSo) {
  std::string text = std::string(kHead) + "  numerical:\n";
  for (int i = 0; i < 1000; ++i) {
    text += "  - {id: A" + std::to_string(i) + ", metric: mean_kll, atMost: 1, level: L1}\n";
  }
  const ReadOutcome outcome = ReadContract(text);
  ASSERT_EQ(outcome.diagnostics.size(), 201u);
  EXPECT_EQ(outcome.diagnostics.back().code, "too-many-problems");
}

TEST(ReadContractFile, NamesAFileThatIsNotThere) {
  const Result<ContractFile> file = ReadContractFile("tests/data/contract/no-such-file.yaml");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace kcc
