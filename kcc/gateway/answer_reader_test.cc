#include "kcc/gateway/answer_reader.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kcc {
namespace {

constexpr Injected kAll = {true, true};
constexpr size_t kMuch = 1 << 20;

struct ReadResult {
  AnswerReader::Outcome outcome;
  std::string text;
  ServedAnswer answer;
};

ReadResult Read(const char* server, bool chat, const Injected& injected,
                const std::vector<std::string>& texts, bool token_id_texts = true,
                size_t most = kMuch) {
  AnswerReader reader(*FindWireDialect(server), chat, injected, token_id_texts, most);
  ReadResult result{};
  for (const std::string& text : texts) {
    std::string edited;
    result.outcome = reader.Read(text, &edited);
    result.text = result.outcome == AnswerReader::Outcome::kEdited ? edited : text;
  }
  result.answer = reader.Take();
  return result;
}

struct StripCase {
  const char* name;
  const char* server;
  bool chat;
  Injected injected;
  const char* answer;
  const char* stripped;
};

TEST(AnswerReader, CutsOutWhatTheClientDidNotAskFor) {
  const StripCase cases[] = {
      {"vLLM's chat keeps members as null", "vllm", true, kAll,
       R"({"choices":[{"index":0,"message":{"content":"a"},"logprobs":{"content":[]},"token_ids":[1]}],"prompt_token_ids":[5, 6]})",
       R"({"choices":[{"index":0,"message":{"content":"a"},"logprobs":null,"token_ids":null}],"prompt_token_ids":null})"},
      {"vLLM's completion", "vllm", false, kAll,
       R"({"choices":[{"text":"a","logprobs":{"tokens":["token_id:1"]},"token_ids":[1],"prompt_token_ids":[5]}]})",
       R"({"choices":[{"text":"a","logprobs":null,"token_ids":null,"prompt_token_ids":null}]})"},
      {"the client's own log-probs stay",
       "vllm",
       true,
       {true, false},
       R"({"choices":[{"logprobs":{"content":[]},"token_ids":[1]}]})",
       R"({"choices":[{"logprobs":{"content":[]},"token_ids":null}]})"},
      {"all choices", "vllm", true, kAll,
       R"({"choices":[{"index":0,"token_ids":[1]}, {"index":1,"token_ids":[2],"logprobs":{}}]})",
       R"({"choices":[{"index":0,"token_ids":null}, {"index":1,"token_ids":null,"logprobs":null}]})"},
      {"what is named alike elsewhere stays", "vllm", true, kAll,
       R"({"logprobs":1,"token_ids":2,"choices":[{"message":{"content":"\"logprobs\":1","token_ids":[1]}}]})",
       R"({"logprobs":1,"token_ids":2,"choices":[{"message":{"content":"\"logprobs\":1","token_ids":[1]}}]})"},
      {"SGLang's ids leave with a comma", "sglang", true, kAll,
       R"({"choices":[{"index":0, "logprobs":{"content":[]}, "prompt_token_ids":[1],"response_token_ids":[2] , "x":1}]})",
       R"({"choices":[{"index":0, "logprobs":null , "x":1}]})"},
      {"members in front", "sglang", true, kAll,
       R"({"choices":[{ "response_token_ids":[2], "prompt_token_ids":[1], "x":1, "token_ids":[3] }]})",
       R"({"choices":[{ "x":1 }]})"},
      {"the only members", "sglang", true, kAll,
       R"({"choices":[{ "response_token_ids":[2],"token_ids":[1] }]})", R"({"choices":[{  }]})"},
      {"llama.cpp's chat leaves log-probs out",
       "llamacpp",
       true,
       {false, true},
       R"({"choices":[{"finish_reason":"stop","index":0,"logprobs":{"content":[{"id":5,"token":"a","logprob":-1,"top_logprobs":[]}]}}]})",
       R"({"choices":[{"finish_reason":"stop","index":0}]})"},
      {"llama.cpp's completion writes null",
       "llamacpp",
       false,
       {false, true},
       R"({"choices":[{"text":"a","logprobs":{"content":[]},"finish_reason":null}]})",
       R"({"choices":[{"text":"a","logprobs":null,"finish_reason":null}]})"},
      {"nothing was asked for",
       "vllm",
       true,
       {},
       R"({"choices":[{"logprobs":{"content":[]},"token_ids":[1]}]})",
       R"({"choices":[{"logprobs":{"content":[]},"token_ids":[1]}]})"},
      {"escaped names", "vllm", true, kAll, R"({"choices":[{"token\u005fids":[1]}]})",
       R"({"choices":[{"token\u005fids":null}]})"},
      {"choices that are none", "vllm", true, kAll, R"({"choices":null,"x":[{"token_ids":[1]}]})",
       R"({"choices":null,"x":[{"token_ids":[1]}]})"},
  };
  for (const StripCase& one : cases) {
    EXPECT_EQ(Read(one.server, one.chat, one.injected, {one.answer}).text, one.stripped)
        << one.name;
  }
}

TEST(AnswerReader, KeepsWhatAChatTells) {
  const ReadResult read =
      Read("vllm", true, kAll,
           {R"({"choices":[{"index":0,"message":{"content":"a\u00e9"},"logprobs":{"content":[
          {"token":"token_id:7","logprob":-0.5,"top_logprobs":[{"token":"token_id:7","logprob":-0.5},{"token":"token_id:8","logprob":-1.5}]},
          {"token":"token_id:9","logprob":-9999.0,"top_logprobs":[{"token":"token_id:8","logprob":-9999}]}]},
          "finish_reason":"stop","token_ids":[7,9]},{"index":1,"message":{"content":"b"},"token_ids":[3]}],
          "prompt_token_ids":[1,2],"system_fingerprint":"fp"})"});
  const ServedAnswer& answer = read.answer;
  EXPECT_EQ(answer.fault, "");
  EXPECT_EQ(answer.text, "a\xC3\xA9");
  EXPECT_EQ(answer.finish_reason, "stop");
  EXPECT_EQ(answer.fingerprint, "fp");
  EXPECT_EQ(answer.prompt_ids, (std::vector<int32_t>{1, 2}));
  ASSERT_EQ(answer.tokens.size(), 2u);
  EXPECT_EQ(answer.tokens[0].id, 7);
  EXPECT_EQ(answer.tokens[0].logprob, -0.5);
  ASSERT_EQ(answer.tokens[0].top.size(), 2u);
  EXPECT_EQ(answer.tokens[0].top[1], (std::pair<int32_t, double>(8, -1.5)));
  EXPECT_EQ(answer.tokens[1].id, 9);
  EXPECT_TRUE(std::isnan(answer.tokens[1].logprob));
  EXPECT_TRUE(answer.tokens[1].top.empty());
}

TEST(AnswerReader, ACompletionsDrawnTokenIsNoAlternativeUnlessItIsOneOfTheBest) {
  const auto top = [](const std::string& list) {
    const ReadResult read = Read(
        "vllm", false, kAll,
        {R"({"choices":[{"text":"","logprobs":{"tokens":["token_id:5"],"token_logprobs":[-3],"top_logprobs":[)" +
         list + R"(]},"token_ids":[5]}]})"});
    EXPECT_EQ(read.answer.tokens.size(), 1u);
    return read.answer.tokens[0].top;
  };
  using Top = std::vector<std::pair<int32_t, double>>;
  EXPECT_EQ(top(R"({"token_id:5":-3,"token_id:1":-0.1,"token_id:2":-2})"),
            (Top{{1, -0.1}, {2, -2}}));
  EXPECT_EQ(top(R"({"token_id:5":-3,"token_id:1":-0.1,"token_id:2":-4})"),
            (Top{{1, -0.1}, {5, -3}, {2, -4}}));
  EXPECT_EQ(top(R"({"token_id:1":-0.1,"token_id:5":-3})"), (Top{{1, -0.1}, {5, -3}}));
  EXPECT_EQ(top("null"), Top());
}

TEST(AnswerReader, ChunksAddUp) {
  const ReadResult read = Read(
      "vllm", true, kAll,
      {R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"token_ids":null}],"prompt_token_ids":[1]})",
       R"({"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"token_id:7","logprob":-1,"top_logprobs":[]}]},"token_ids":[7]}]})",
       R"({"choices":[{"index":0,"delta":{"content":"b"},"logprobs":{"content":[{"token":"token_id:8","logprob":-2,"top_logprobs":[]}]},"token_ids":[8],"finish_reason":"length"}]})",
       R"({"choices":[],"usage":{}})"});
  EXPECT_EQ(read.answer.text, "ab");
  EXPECT_EQ(read.answer.finish_reason, "length");
  EXPECT_EQ(read.answer.prompt_ids, std::vector<int32_t>{1});
  ASSERT_EQ(read.answer.tokens.size(), 2u);
  EXPECT_EQ(read.answer.tokens[1].id, 8);
}

TEST(AnswerReader, ReadsTheIdsOfLlamacpp) {
  const ReadResult read = Read(
      "llamacpp", true, {false, true},
      {R"({"choices":[{"message":{"content":"a"},"logprobs":{"content":[{"id":5,"token":"token_id:9","logprob":-1,"top_logprobs":[{"id":6,"token":"b","logprob":-0.5}]}]}}]})"},
      false);
  ASSERT_EQ(read.answer.tokens.size(), 1u);
  EXPECT_EQ(read.answer.tokens[0].id, 5);
  EXPECT_EQ(read.answer.tokens[0].top[0].first, 6);
}

TEST(AnswerReader, WhatDoesNotAddUpIsLost) {
  const auto fault = [](const std::string& answer) {
    return Read("vllm", true, kAll, {answer}).answer.fault;
  };
  EXPECT_NE(fault("nonsense"), "");
  EXPECT_NE(fault("[]"), "");
  EXPECT_NE(fault("{} {}"), "");
  EXPECT_NE(fault(R"({"choices":[{"token_ids":[1]})"), "");
  EXPECT_NE(
      fault(
          R"({"choices":[{"logprobs":{"content":[{"token":"token_id:2","logprob":-1}]},"token_ids":[1]}]})"),
      "");
  EXPECT_NE(
      fault(
          R"({"choices":[{"logprobs":{"content":[{"token":"token_id:1","logprob":-1}]},"token_ids":[1,2]}]})"),
      "");
  EXPECT_EQ(fault(R"({"choices":[{"token_ids":[1,2]}]})"), "");
  const ReadResult large =
      Read("vllm", true, kAll, {R"({"choices":[{"token_ids":[1,2]}]})"}, true, 10);
  EXPECT_NE(large.answer.fault, "");
  EXPECT_EQ(large.text, R"({"choices":[{"token_ids":null}]})") << "cut out all the same";
  EXPECT_TRUE(large.answer.tokens.empty());
}

TEST(AnswerReader, TokensWithoutIdsAreNone) {
  const ReadResult read = Read(
      "sglang", true, {},
      {R"({"choices":[{"message":{"content":"ab"},"logprobs":{"content":[{"token":"a","logprob":-1}]}}]})"},
      false);
  EXPECT_TRUE(read.answer.tokens.empty());
  EXPECT_EQ(read.answer.text, "ab");
  EXPECT_EQ(read.answer.fault, "");
}

TEST(AnswerReader, DropsTheEventThatIsThereForThePromptAlone) {
  const char* const event =
      R"({"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":null,"token_ids":[],"prompt_token_ids":[1,2]}]})";
  const ReadResult dropped = Read("vllm", false, kAll, {event});
  EXPECT_EQ(dropped.outcome, AnswerReader::Outcome::kDropped);
  EXPECT_EQ(dropped.answer.prompt_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(Read("vllm", false, {}, {event}).outcome, AnswerReader::Outcome::kAsIs)
      << "the client asked for it";
  const char* const first =
      R"({"choices":[{"index":0,"text":"a","finish_reason":null,"token_ids":[5],"prompt_token_ids":[1,2]}]})";
  EXPECT_EQ(Read("vllm", false, kAll, {first}).outcome, AnswerReader::Outcome::kEdited)
      << "vLLM has a token in it";
}

}  // namespace
}  // namespace kcc
