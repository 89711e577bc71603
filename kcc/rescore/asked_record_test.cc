// What a client asked, from its request alone.
#include "kcc/rescore/asked_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/rescore/rescore_test_data.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using testing::RescorePool;

AskedRecord Asked(const std::string& body, std::map<std::string, std::string> fields = {},
                  std::map<std::string, std::string> set = {}) {
  auto pool = RescorePool();
  pool->kernels[0].set = std::move(set);
  ServedRecord record;
  record.pool = pool;
  record.id = "r";
  record.request_body = body;
  record.fields = std::move(fields);
  auto asked = ReadAskedRecord(record);
  EXPECT_TRUE(asked.has_value()) << asked.error().Format();
  return asked.has_value() ? *std::move(asked) : AskedRecord{};
}

TEST(AskedRecord, PromptsAreKnownOnlyWhereEveryMemberIs) {
  using Kind = AskedPrompt::Kind;
  const std::string chat = R"("messages":[{"role":"user","content":"hi"}])";
  struct Case {
    std::string name, body;
    Kind kind;
  };
  const Case cases[] = {
      {"ids", R"({"prompt":[1,2]})", Kind::kIds},
      {"a list of one list of ids", R"({"prompt":[[1,2]]})", Kind::kIds},
      {"a text", R"({"prompt":"hi","temperature":0,"stream":true})", Kind::kText},
      {"a list of one text", R"({"prompt":["hi"]})", Kind::kText},
      {"two prompts", R"({"prompt":["hi","ho"]})", Kind::kUnknown},
      {"two prompts of ids", R"({"prompt":[[1],[2]]})", Kind::kUnknown},
      {"an empty prompt", R"({"prompt":[]})", Kind::kUnknown},
      {"an id that is none", R"({"prompt":[1,-2]})", Kind::kUnknown},
      {"no prompt", R"({"model":"tiny"})", Kind::kUnknown},
      {"a conversation", "{" + chat + R"(,"user":"u","logprobs":true})", Kind::kChat},
      {"one whose tools are chosen", "{" + chat + R"(,"tools":[{}],"tool_choice":"auto"})",
       Kind::kChat},
      {"one whose tools may be left out", "{" + chat + R"(,"tools":[{}],"tool_choice":"none"})",
       Kind::kUnknown},
      {"a member nobody knows", "{" + chat + R"(,"reasoning_effort":"high"})", Kind::kUnknown},
      {"one that says nothing", "{" + chat + R"(,"documents":null,"echo":false})", Kind::kChat},
      {"an image", R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
       Kind::kUnknown},
      {"parts of text", R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]})",
       Kind::kChat},
      {"a member that stands twice", R"({"prompt":"a","prompt":"b"})", Kind::kUnknown},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(static_cast<int>(Asked(one.body).prompt.kind), static_cast<int>(one.kind))
        << one.name;
  }
}

TEST(AskedRecord, FieldsAreOfTheKindThatSlicesRead) {
  const AskedRecord asked =
      Asked(R"({"prompt":[1],"seed":7,"top_p":0.5,"max_tokens":9})", {{"tags", R"("safety, code")"},
                                                                      {"labels", R"("a, b")"},
                                                                      {"task", R"("sum")"},
                                                                      {"difficulty", "3"},
                                                                      {"hard", "true"},
                                                                      {"nothing", "null"},
                                                                      {"latency_ms", "1"},
                                                                      {"prompt_tokens", "5"},
                                                                      {"id", R"("other")"}});
  const auto& fields = asked.record.fields;
  EXPECT_THAT(std::get<std::vector<std::string>>(fields.at("tags")), ElementsAre("safety", "code"));
  EXPECT_EQ(std::get<std::string>(fields.at("labels")), "a, b");
  EXPECT_EQ(*asked.record.Text("task"), "sum");
  EXPECT_EQ(asked.record.Number("difficulty"), 3);
  EXPECT_EQ(asked.record.Flag("hard"), true);
  EXPECT_EQ(asked.record.Number("seed"), 7);
  EXPECT_EQ(asked.record.Number("top_p"), 0.5);
  EXPECT_EQ(asked.record.Number("output_tokens_max"), 9);
  for (const char* never : {"nothing", "latency_ms", "prompt_tokens", "id"}) {
    EXPECT_FALSE(fields.contains(never)) << never;
  }
  EXPECT_EQ(asked.record.id, "r");
  const RequestValue tags = FieldValueOf("tags", R"("[\"x\",\"y, z\"]")");
  EXPECT_THAT(std::get<std::vector<std::string>>(tags), ElementsAre("x", "y, z"));
}

TEST(AskedRecord, WhatTheConfigurationSetsCountsAsAsked) {
  const AskedRecord warm = Asked(R"({"prompt":[1],"temperature":0.7})");
  EXPECT_EQ(warm.temperature, 0.7);
  EXPECT_FALSE(warm.repeatable());
  EXPECT_FALSE(warm.altered);
  const AskedRecord greedy =
      Asked(R"({"prompt":[1],"temperature":0.7})", {}, {{"temperature", "0"}});
  EXPECT_EQ(greedy.temperature, 0);
  EXPECT_TRUE(greedy.repeatable());
  EXPECT_TRUE(Asked(R"({"prompt":[1],"top_p":0.9})").altered);
  EXPECT_TRUE(Asked(R"({"prompt":[1]})", {}, {{"top_k", "5"}}).altered);
  EXPECT_EQ(Asked(R"({"prompt":[1]})").temperature, std::nullopt);
  EXPECT_TRUE(Asked(R"({"prompt":[1],"seed":3})").repeatable());
  EXPECT_FALSE(Asked(R"({"prompt":[1],"seed":3,"n":2})").repeatable());
}

TEST(AskedRecord, ABodyThatIsNoObjectCannotBeRead) {
  ServedRecord record;
  record.pool = RescorePool();
  for (const char* body : {"", "[]", "{", "\xff"}) {
    record.request_body = body;
    EXPECT_FALSE(ReadAskedRecord(record).has_value()) << body;
  }
}

}  // namespace
}  // namespace kcc
