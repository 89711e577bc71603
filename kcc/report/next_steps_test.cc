// The commands after a verdict: which are given, and that a shell reads back what was meant.
#include "kcc/report/next_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cstdio>

#include "kcc/report/text.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> NamesOf(const std::vector<NextStep>& steps) {
  std::vector<std::string> names;
  for (const NextStep& step : steps) names.push_back(step.name);
  return names;
}

std::string CommandOf(const std::vector<NextStep>& steps, std::string_view name) {
  for (const NextStep& step : steps) {
    if (step.name == name) return step.command;
  }
  return "";
}

// A violated report about mean_kl with nothing else wrong.
ReportData Violated() {
  ReportData report;
  report.contract = {"c", "1.0.0", "", "my contract.yaml"};
  ClauseVerdict clause;
  clause.id = "N-1";
  clause.metric = "mean_kl";
  clause.verdict = Verdict::kViolated;
  SliceVerdict slice;
  slice.slice = "long-context";
  slice.about.verdict = Verdict::kViolated;
  slice.value = {0.0435912, 0.0435912};
  slice.threshold = 0.015;
  clause.slices = {slice};
  report.judgement.clauses = {clause};
  report.judgement.verdict = Verdict::kViolated;
  return report;
}

TEST(NextSteps, OfTracesNameTheTraces) {
  ReportData report = Violated();
  report.inputs = {"examples/traces/train", "examples/traces/infer", ""};
  const std::vector<NextStep> steps = NextSteps(report);
  EXPECT_THAT(NamesOf(steps), ElementsAre("bound", "author", "replay"));
  EXPECT_EQ(CommandOf(steps, "bound"), "kcc bound --kl 0.0436");
  EXPECT_EQ(CommandOf(steps, "author"),
            "kcc author --evidence examples/traces/train:examples/traces/infer");
  EXPECT_EQ(CommandOf(steps, "replay"),
            "kcc rl replay examples/traces/train examples/traces/infer -o replay.html");
}

TEST(NextSteps, OfTheLabAttribute) {
  ReportData report = Violated();
  report.inputs = {"lab:train", "lab:custom?kv=e4m3&attention=tiles:8", "eval set.jsonl"};
  const std::vector<NextStep> steps = NextSteps(report);
  EXPECT_THAT(NamesOf(steps), ElementsAre("attribute", "bound"));
  EXPECT_EQ(steps[0].command,
            "kcc attribute --train lab:train --infer 'lab:custom?kv=e4m3&attention=tiles:8' "
            "--requests 'eval set.jsonl' --contract 'my contract.yaml' --max-requests 40 "
            "-o attribution.html");
}

TEST(NextSteps, AreLeftOutWhereANameIsUnknownOrCannotBePasted) {
  ReportData report = Violated();
  EXPECT_THAT(NamesOf(NextSteps(report)), ElementsAre("bound"));
  report.inputs = {"a", "", ""};
  EXPECT_THAT(NamesOf(NextSteps(report)), ElementsAre("bound"));
  report.inputs = {"a\nb", "c", ""};
  EXPECT_THAT(NamesOf(NextSteps(report)), ElementsAre("bound"));
  report.inputs = {"with:colon", "c", ""};
  EXPECT_THAT(NamesOf(NextSteps(report)), ElementsAre("bound"));
  report.judgement.clauses[0].slices[0].value = {};
  EXPECT_THAT(NextSteps(report), IsEmpty());
}

TEST(NextSteps, OfAnOpenClauseSayWhatItNeeds) {
  ReportData report = Violated();
  report.judgement.clauses[0].verdict = Verdict::kInconclusive;
  report.judgement.clauses[0].slices[0].about.verdict = Verdict::kInconclusive;
  const std::vector<NextStep> steps = NextSteps(report);
  ASSERT_THAT(NamesOf(steps), ElementsAre("explain"));
  EXPECT_EQ(steps[0].command, "kcc explain 'my contract.yaml' N-1");
  report.contract.file = "<stdin>";
  EXPECT_THAT(NextSteps(report), IsEmpty());
}

TEST(NextSteps, OfASatisfiedReportAreNone) {
  EXPECT_THAT(NextSteps(ConvergentSample()), IsEmpty());
}

TEST(NextSteps, TakeAFileForAFile) {
  ReportData report = Violated();
  report.inputs = {"-o", "b", ""};
  EXPECT_THAT(CommandOf(NextSteps(report), "replay"), HasSubstr("kcc rl replay ./-o b "));
}

TEST(ShellWord, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(*ShellWord("a/b-c_1.yaml"), "a/b-c_1.yaml");
  EXPECT_EQ(*ShellWord(""), "''");
  EXPECT_EQ(*ShellWord("a b"), "'a b'");
  EXPECT_EQ(*ShellWord("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(*ShellWord("~x"), "'~x'");
  EXPECT_FALSE(ShellWord("a\nb"));
  EXPECT_FALSE(ShellWord("\x1b[31m"));
  EXPECT_FALSE(ShellWord("\xff"));
}

// What a real shell makes of the word.
TEST(ShellWord, IsReadBackByAShell) {
  const auto echoed = [](const std::string& word) {
    FILE* shell = ::popen(("printf %s " + word).c_str(), "r");
    std::string out;
    std::array<char, 256> buffer{};
    while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), shell)) {
      out.append(buffer.data(), got);
    }
    ::pclose(shell);
    return out;
  };
  const std::string printable =
      " !\"#$%&'()*+,-./0:;<=>?@A[\\]^_`a{|}~é";  // every mark of ASCII, and one letter beyond
  EXPECT_EQ(echoed(*ShellWord(printable)), printable);
  ASSERT_TRUE(rc::check([&] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::elementOf(std::string(" !\"#$%&'()*+,-./0:;<=>?@A[\\]^_`a{|}~")));
    RC_ASSERT(echoed(*ShellWord(text)) == text);
  }));
}

TEST(KeptInput, KeepsTracesAndTheLabAndNothingThatMayHoldASecret) {
  EXPECT_EQ(KeptInput("trace:dir"), "dir");
  EXPECT_EQ(KeptInput("some/dir"), "some/dir");
  EXPECT_EQ(KeptInput("./odd:name"), "./odd:name");
  EXPECT_EQ(KeptInput("lab:fp8?kv=e4m3"), "lab:fp8?kv=e4m3");
  EXPECT_EQ(KeptInput("exec:./engine --token abc"), "");
  EXPECT_EQ(KeptInput("openai+http://user:key@host:1?server=vllm"), "");
  EXPECT_EQ(KeptInput("C:odd"), "");
}

}  // namespace
}  // namespace kcc
