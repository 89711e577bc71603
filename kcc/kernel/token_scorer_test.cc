// Sequences scored in memory: each fails by itself.
#include "kcc/kernel/token_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kcc/kernel/reference_test_server.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using testing::kReferenceVocab;
using testing::ReferenceLogprobs;
using testing::ReferenceServer;
using testing::ServerUri;

class TokenScorerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ReferenceServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static Result<std::unique_ptr<TokenScorer>> Open(const std::string& dialect,
                                                   const std::string& faults,
                                                   const std::string& options = "") {
    TokenScorerOptions how;
    how.uri = ServerUri(server_->Base(dialect, faults), dialect, options);
    how.call_timeout_s = 30;
    return TokenScorer::Open(how);
  }

  static ReferenceServer* server_;
};
ReferenceServer* TokenScorerTest::server_ = nullptr;

const std::vector<int32_t> kTokens = {5, 17, 40, 9};

TEST_F(TokenScorerTest, EveryServerGivesTheNumbersOfItsFormula) {
  for (const char* dialect : {"vllm", "sglang", "llamacpp", "trtllm"}) {
    auto scorer = Open(dialect, "none");
    ASSERT_TRUE(scorer.has_value()) << dialect << scorer.error().Format();
    EXPECT_EQ((*scorer)->facts().vocab_size, kReferenceVocab);
    const TokenAsk ask{kTokens, 2};
    const std::vector<TokenAnswer> answers = (*scorer)->Score(std::span(&ask, 1), 30);
    ASSERT_TRUE(answers[0].ok) << dialect << answers[0].fault;
    ASSERT_EQ(answers[0].tokens.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      const ScoredToken& token = answers[0].tokens[i];
      const std::vector<double> row = ReferenceLogprobs(std::span(kTokens).first(2 + i));
      EXPECT_EQ(token.id, kTokens[2 + i]);
      const bool logits = (*scorer)->facts().evidence == EvidenceLevel::kLogits;
      EXPECT_EQ(token.logits.empty(), !logits) << dialect;
      if (logits) continue;
      EXPECT_NEAR(token.logprob, row[static_cast<size_t>(token.id)], 1e-6) << dialect;
      ASSERT_EQ(token.top.size(), 20u) << dialect;
      EXPECT_NEAR(token.top[0].second, *std::max_element(row.begin(), row.end()), 1e-6);
    }
  }
}

TEST_F(TokenScorerTest, OneSequenceThatFailsTakesNoOtherWithIt) {
  auto scorer = Open("vllm", "refuse-58");
  ASSERT_TRUE(scorer.has_value()) << scorer.error().Format();
  const std::vector<int32_t> refused = {58, 1, 2};
  const std::vector<int32_t> foreign = {1, 2, kReferenceVocab};
  const TokenAsk asks[] = {{kTokens, 2}, {refused, 1}, {foreign, 1}, {kTokens, 3}, {kTokens, 0}};
  const std::vector<TokenAnswer> answers = (*scorer)->Score(asks, 30);
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_TRUE(answers[0].ok) << answers[0].fault;
  EXPECT_FALSE(answers[1].ok);
  EXPECT_THAT(answers[1].fault, HasSubstr("does not take"));
  EXPECT_FALSE(answers[2].ok);
  EXPECT_THAT(answers[2].fault, HasSubstr("vocabulary"));
  EXPECT_TRUE(answers[3].ok) << answers[3].fault;
  EXPECT_EQ(answers[3].tokens.size(), 1u);
  EXPECT_FALSE(answers[4].ok);
  EXPECT_EQ(answers[0].build, "build-1");
}

TEST_F(TokenScorerTest, WhatIsNotAnsweredInTimeIsSaidToBeLate) {
  auto scorer = Open("vllm", "slow", "probe=off");
  ASSERT_TRUE(scorer.has_value()) << scorer.error().Format();
  const TokenAsk ask{kTokens, 2};
  const std::vector<TokenAnswer> answers = (*scorer)->Score(std::span(&ask, 1), 0.3);
  EXPECT_FALSE(answers[0].ok);
  EXPECT_TRUE(answers[0].timed_out) << answers[0].fault;
}

TEST_F(TokenScorerTest, CallsAreJudgedByWhoMadeThem) {
  auto scorer = Open("vllm", "none");
  ASSERT_TRUE(scorer.has_value()) << scorer.error().Format();
  const HttpCall calls[] = {{"/v1/models", ""}, {"/nowhere", "{}"}};
  const std::vector<CallAnswer> answers = (*scorer)->Call(calls, 30);
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_EQ(answers[1].status, 404);
  auto failing = Open("vllm", "500", "probe=off");
  ASSERT_TRUE(failing.has_value()) << failing.error().Format();
  const HttpCall call{"/v1/completions", "{}"};
  EXPECT_EQ((*failing)->Call(std::span(&call, 1), 30)[0].status, 500) << "and it is not repeated";
}

TEST_F(TokenScorerTest, WhatGeneratedLogprobsMeanIsFoundOut) {
  const std::pair<const char*, LogprobSemantics> servers[] = {
      {"vllm", LogprobSemantics::kRaw},
      {"sglang", LogprobSemantics::kTemperatureScaled},
      {"llamacpp", LogprobSemantics::kRaw}};
  for (const auto& [dialect, meaning] : servers) {
    auto scorer = Open(dialect, "none");
    ASSERT_TRUE(scorer.has_value()) << scorer.error().Format();
    const auto found = (*scorer)->GeneratedSemantics(30);
    ASSERT_TRUE(found.has_value()) << dialect << found.error().Format();
    EXPECT_EQ(*found, meaning) << dialect;
  }
  const std::pair<const char*, LogprobSemantics> lies[] = {
      {"scaled", LogprobSemantics::kTemperatureScaled},
      {"processed", LogprobSemantics::kProcessed}};
  for (const auto& [fault, meaning] : lies) {
    auto scorer = Open("vllm", fault, "probe=off");
    ASSERT_TRUE(scorer.has_value()) << scorer.error().Format();
    const auto found = (*scorer)->GeneratedSemantics(30);
    ASSERT_TRUE(found.has_value()) << fault << found.error().Format();
    EXPECT_EQ(*found, meaning) << fault;
  }
  auto logits = Open("vllm", "logits", "probe=off");
  ASSERT_TRUE(logits.has_value()) << logits.error().Format();
  EXPECT_FALSE((*logits)->GeneratedSemantics(30).has_value()) << "these are no log-probs";
}

TEST_F(TokenScorerTest, TextsAndConversationsAreTokenisedWhereTheServerCan) {
  auto scorer = Open("vllm", "none");
  ASSERT_TRUE(scorer.has_value()) << scorer.error().Format();
  const ScoringFacts& facts = (*scorer)->facts();
  ASSERT_TRUE(facts.tokenizes);
  const std::pair<std::string, std::string> members[] = {
      {"messages", R"([{"role":"user","content":"w7 w8"}])"}};
  const HttpCall calls[] = {TokenizeTextCall(facts, "w5 w6", true),
                            TokenizeChatCall(facts, members)};
  const std::vector<CallAnswer> answers = (*scorer)->Call(calls, 30);
  EXPECT_EQ(*ReadTokenized(answers[0].body), (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(*ReadTokenized(answers[1].body), (std::vector<int32_t>{1, 7, 8, 3}));
  EXPECT_FALSE(ReadTokenized("{}").has_value());
  EXPECT_FALSE(ReadTokenized(R"({"tokens":["a"]})").has_value());
  auto silent = Open("trtllm", "none");
  ASSERT_TRUE(silent.has_value()) << silent.error().Format();
  EXPECT_FALSE((*silent)->facts().tokenizes);
  EXPECT_TRUE((*silent)->facts().chat_members.empty());
}

TEST_F(TokenScorerTest, AddressesThatCannotServeAreRefusedWithoutAsking) {
  for (const char* uri : {"trace:x", "http://localhost:1", "openai+http://localhost:1",
                          "openai+http://localhost:1?server=vllm&semantics=processed",
                          "openai+http://localhost:1?server=vllm&temperature=2"}) {
    TokenScorerOptions options;
    options.uri = uri;
    EXPECT_FALSE(TokenScorer::Check(options).has_value()) << uri;
  }
}

}  // namespace
}  // namespace kcc
