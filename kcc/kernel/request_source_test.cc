#include "kcc/kernel/request_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "kcc/kernel/command_line.h"
#include "kcc/kernel/exec_protocol.h"
#include "kcc/kernel/request_batches.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScratchDir;

std::string Write(const ScratchDir& scratch, const std::string& text) {
  const std::string path = scratch / "r.jsonl";
  std::ofstream(path) << text;
  return path;
}

TEST(RequestFile, IsTokensAndFields) {
  const ScratchDir scratch;
  const auto path =
      Write(scratch,
            "{\"id\":\"a\",\"prompt\":[1,2],\"output\":[3],\"tags\":[\"x\"],\"k\":5}\n"
            "\n{\"id\":\"b\",\"prompt\":[1],\"output\":[3,4,5]}\n");
  auto source = OpenRequestFile(path, RequestUse::kScore);
  ASSERT_TRUE(source.has_value()) << source.error().Format();
  EXPECT_EQ((*source)->totals().requests, 2);
  EXPECT_EQ((*source)->totals().output_tokens, 4);
  KernelRequest request;
  ASSERT_TRUE((*source)->Next(&request).value());
  EXPECT_EQ(request.request.id, "a");
  EXPECT_THAT(request.tokens, ElementsAre(1, 2, 3));
  EXPECT_EQ(request.prompt_tokens, 2);
  EXPECT_EQ(request.request.Number("k"), 5);
  EXPECT_EQ(request.request.Number("prompt_tokens"), 2);
  EXPECT_EQ(request.request.Number("output_tokens"), 1);
  EXPECT_EQ(request.request.fields.count("prompt"), 0u);
  ASSERT_TRUE((*source)->Next(&request).value());
  EXPECT_EQ((*source)->place().line, 3);
  EXPECT_FALSE((*source)->Next(&request).value());

  auto prompts = OpenRequestFile(path, RequestUse::kGenerate);
  ASSERT_TRUE((*prompts)->Next(&request).value());
  EXPECT_THAT(request.tokens, ElementsAre(1, 2));
}

TEST(RequestFile, GoldLabelsTheOutput) {
  const ScratchDir scratch;
  const auto path = Write(scratch,
                          "{\"id\":\"a\",\"prompt\":[1,2],\"output\":[3,4],\"gold\":\"output\"}\n"
                          "{\"id\":\"b\",\"prompt\":[1],\"output\":[3,4,5],\"gold\":[7,-1,5]}\n"
                          "{\"id\":\"c\",\"prompt\":[1],\"output\":[3]}\n");
  auto source = OpenRequestFile(path, RequestUse::kScore);
  ASSERT_TRUE(source.has_value()) << source.error().Format();
  KernelRequest request;
  ASSERT_TRUE((*source)->Next(&request).value());
  EXPECT_THAT(request.gold, ElementsAre(3, 4));
  EXPECT_EQ(request.request.fields.count("gold"), 0u);
  ASSERT_TRUE((*source)->Next(&request).value());
  EXPECT_THAT(request.gold, ElementsAre(7, -1, 5));
  ASSERT_TRUE((*source)->Next(&request).value());
  EXPECT_TRUE(request.gold.empty());
  // A prompt alone has nothing to label.
  auto prompts = OpenRequestFile(path, RequestUse::kGenerate);
  ASSERT_TRUE((*prompts)->Next(&request).value());
  EXPECT_TRUE(request.gold.empty());
}

TEST(RequestFile, AdvantagesAreAListOrOneNumberForAll) {
  const ScratchDir scratch;
  const std::string path =
      Write(scratch, R"({"id":"a","prompt":[1],"output":[3,4],"advantage":[0.5,null]}
{"id":"b","prompt":[1],"output":[3,4],"advantage":-2}
{"id":"c","prompt":[1],"output":[3]}
)");
  auto source = OpenRequestFile(path, RequestUse::kScore);
  ASSERT_TRUE(source.has_value()) << source.error().Format();
  KernelRequest request;
  ASSERT_TRUE((*source)->Next(&request).value());
  ASSERT_EQ(request.advantage.size(), 2u);
  EXPECT_EQ(request.advantage[0], 0.5f);
  EXPECT_NE(request.advantage[1], request.advantage[1]);  // NaN
  EXPECT_EQ(request.request.fields.count("advantage"), 0u);
  ASSERT_TRUE((*source)->Next(&request).value());
  EXPECT_THAT(request.advantage, ElementsAre(-2.0f, -2.0f));
  EXPECT_EQ(request.request.Number("advantage"), -2);
  ASSERT_TRUE((*source)->Next(&request).value());
  EXPECT_TRUE(request.advantage.empty());
}

TEST(RequestFile, EveryMistakeHasItsLine) {
  struct Case {
    std::string line, words;
  };
  const std::string good = R"({"id":"good","prompt":[1],"output":[2]})";
  const Case cases[] = {
      {R"({"id":"a","prompt":"hello","output":[1]})", "kcc requests make turns text into ids"},
      {R"({"id":"a","prompt":[1],"output":[2,3],"gold":[2]})", "1 labels for 2 tokens"},
      {R"({"id":"a","prompt":[1],"output":[2],"gold":[-2]})", "no token id"},
      {R"({"id":"a","prompt":[1],"output":[2],"gold":"mine"})", "or the word output"},
      {R"({"id":"a","prompt":[1],"output":[2],"advantage":[1,2]})", "2 numbers for 1 tokens"},
      {R"({"id":"a","prompt":[1],"output":[2],"advantage":["x"]})", "which is no number"},
      {R"({"id":"a","prompt":[1],"output":[2],"advantage":"x"})", "or a list of numbers"},
      {R"({"id":"a","prompt":[],"output":[1]})", "begin-of-text"},
      {R"({"id":"a","output":[1]})", "begin-of-text"},
      {R"({"id":"a","prompt":[1]})", "nothing to score"},
      {R"({"id":"a","prompt":[1.5],"output":[1]})", "holds 1.5, which is no token id"},
      {R"({"id":"a","prompt":[-1],"output":[1]})", "no token id"},
      {R"({"id":"a","prompt":[99999999999],"output":[1]})", "no token id"},
      {R"({"prompt":[1],"output":[1]})", "no 'id'"},
      {R"({"id":"a","prompt":[1],"output":[1],"prompt_tokens":7})", "list of ids has 1"},
      {R"({"id":"a","prompt":[1],"output":[1],"reward":1})", "a kernel's own run"},
      {R"({"id":"a","prompt":[1],"output":[1],"failed":false})", "a kernel's own run"},
      {R"({"id":"good","prompt":[1],"output":[1]})", "stood already in line 1"},
      {R"([1])", "must be an object"},
      {R"({"id":"a")", "not JSON"},
  };
  const ScratchDir scratch;
  for (const Case& row : cases) {
    const auto path = Write(scratch, good + "\n\n" + row.line + "\n");
    const auto source = OpenRequestFile(path, RequestUse::kScore);
    ASSERT_FALSE(source.has_value()) << row.line;
    EXPECT_EQ(source.error().place(), (Place{path, 3})) << source.error().Format();
    EXPECT_THAT(source.error().message(), HasSubstr(row.words));
  }
  EXPECT_THAT(OpenRequestFile(Write(scratch, "\n"), RequestUse::kScore).error().message(),
              HasSubstr("holds no request"));
  EXPECT_THAT(OpenRequestFile(scratch / "none", RequestUse::kScore).error().message(),
              HasSubstr("cannot open"));
}

TEST(TraceRequests, WhatTheRecordedKernelMeasuredIsNotAsked) {
  const ScratchDir scratch;
  testing::SyntheticSpec spec;
  spec.requests = 1;
  spec.edit_request = [](Request* request) {
    request->fields["prompt"] = std::vector<std::string>{"1", "2"};
    request->fields["started_at_ms"] = 5.0;
    request->fields["failed"] = false;
    request->fields["timed_out"] = false;
    request->fields["peak_memory_mb"] = 7.0;
    request->fields["kernel_fingerprint"] = "theirs";
    request->fields["kernel_fingerprint_filled"] = "theirs";
    request->fields["team"] = "red";
  };
  testing::WriteSynthetic(scratch / "trace", spec);
  auto source = OpenTraceRequests(scratch / "trace");
  ASSERT_TRUE(source.has_value()) << source.error().Format();
  KernelRequest request;
  ASSERT_TRUE((*source)->Next(&request).value());
  std::vector<std::string> fields;
  for (const auto& [name, value] : request.request.fields) fields.push_back(name);
  EXPECT_THAT(fields, ElementsAre("output_tokens", "prompt_tokens", "tags", "team"));
}

TEST(RequestBatches, EndAtRequestsOrTokensAndLoseNothing) {
  const ScratchDir scratch;
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += "{\"id\":\"r" + std::to_string(i) + "\",\"prompt\":[1],\"output\":[1";
    for (int t = 0; t < i; ++t) text += ",2";
    text += "]}\n";
  }
  const std::string path = Write(scratch, text);
  const auto sizes = [&](BatchLimits limits) {
    auto source = OpenRequestFile(path, RequestUse::kScore);
    RequestBatches batches(**source, limits);
    std::vector<size_t> found;
    for (int next = 0;;) {
      const auto batch = batches.Next().value();
      if (batch.empty()) return found;
      for (const KernelRequest& request : batch) {
        EXPECT_EQ(request.ordinal, next);
        EXPECT_EQ(request.request.id, "r" + std::to_string(next++));
      }
      found.push_back(batch.size());
    }
  };
  EXPECT_THAT(sizes({4, 1000}), ElementsAre(4, 4, 2));
  EXPECT_THAT(sizes({100, 10}), ElementsAre(4, 1, 1, 1, 1, 1, 1));  // 1+2+3+4, then 5 …
  EXPECT_THAT(sizes({100, 1}), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(CommandLine, SplitsAsAShellWould) {
  EXPECT_THAT(SplitCommand(R"(  python3 -c 'a "b"' "c \"d\" $x" e\ f '' )").value(),
              ElementsAre("python3", "-c", "a \"b\"", "c \"d\" $x", "e f", ""));
  EXPECT_THAT(SplitCommand("a'b'\"c\"").value(), ElementsAre("abc"));
  for (const char* bad : {"", "  ", "''", "a 'b", "a \"b"}) {
    EXPECT_FALSE(SplitCommand(bad).has_value()) << bad;
  }
}

TEST(ExecProtocol, SeedsAreTheRequestsOwnAndFitEveryLanguage) {
  EXPECT_EQ(RequestSeed(1, "a"), RequestSeed(1, "a"));
  EXPECT_NE(RequestSeed(1, "a"), RequestSeed(2, "a"));
  EXPECT_NE(RequestSeed(1, "a"), RequestSeed(1, "b"));
  EXPECT_NE(RequestSeed(1, "1a"), RequestSeed(11, "a"));
  EXPECT_LT(RequestSeed(7, "x"), uint64_t{1} << 53);
}

TEST(ExecProtocol, AHelloMustSayWhatTheNumbersMean) {
  const std::string good =
      R"({"type":"hello","protocol":1,"fingerprint":"f","vocabSize":9,"evidence":"top-k",)"
      R"("semantics":"processed","path":"decode","temperature":0.5,"batchRequestsMax":3})";
  const auto info = ParseHello(good);
  ASSERT_TRUE(info.has_value()) << info.error().Format();
  EXPECT_EQ(info->evidence, EvidenceLevel::kTopK);
  EXPECT_EQ(info->semantics, LogprobSemantics::kProcessed);
  EXPECT_EQ(info->path, TracePath::kDecode);
  EXPECT_EQ(info->temperature, 0.5);
  EXPECT_EQ(info->batch_requests_max, 3);
  const std::pair<std::string, std::string> changes[] = {
      {R"("fingerprint":"f",)", "'fingerprint'"},
      {R"("vocabSize":9,)", "'vocabSize'"},
      {R"("evidence":"top-k",)", "'evidence'"},
      {R"("semantics":"processed",)", "'semantics'"},
  };
  for (const auto& [part, words] : changes) {
    std::string text = good;
    text.erase(text.find(part), part.size());
    const auto bad = ParseHello(text);
    ASSERT_FALSE(bad.has_value()) << text;
    EXPECT_THAT(bad.error().message(), HasSubstr(words));
  }
  EXPECT_FALSE(ParseHello(R"({"type":"hello","protocol":1,"fingerprint":"f","vocabSize":9,)"
                          R"("evidence":"logits","semantics":"raw","options":[{"name":"a",)"
                          R"("value":"b","source":"magic"}]})")
                   .has_value());
}

}  // namespace
}  // namespace kcc
