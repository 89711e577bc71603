// What every row of the table of servers must hold, and the bytes that each asks with.

#include "kcc/kernel/server_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kcc/base/file.h"
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_score.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<int32_t> kTokens = {5, 17, 40, 9};

ServerFacts FactsOf(const ServerDialect& server, const ServerPath& path) {
  ServerFacts facts;
  facts.server = &server;
  facts.path = &path;
  facts.model = "m";
  facts.vocab_size = 64;
  facts.end = {2};
  return facts;
}

ScoreAsk AskOf() {
  ScoreAsk ask;
  ask.tokens = kTokens;
  ask.prompt_tokens = 2;
  ask.top = 3;
  return ask;
}

TEST(ServerTable, EveryRowIsWholeAndHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const ServerDialect* server : kServers) {
    SCOPED_TRACE(server->name);
    EXPECT_TRUE(names.insert(server->name).second);
    EXPECT_EQ(FindServer(server->name), server);
    EXPECT_FALSE(server->title.empty() || server->raw_remedy.empty());
    EXPECT_EQ(server->stuck.empty(), server->stuck_advice.empty());
    EXPECT_TRUE(server->identify != nullptr && server->generate != nullptr &&
                server->parse != nullptr);
    ASSERT_FALSE(server->paths.empty());
    std::set<TracePath> kinds;
    for (const ServerPath& path : server->paths) {
      EXPECT_TRUE(kinds.insert(path.kind).second);
      EXPECT_TRUE(path.route != nullptr && path.score != nullptr);
      // A prompt is scored at once and by the prefill path.
      EXPECT_FALSE(path.about_prompt && (path.by_token || path.kind == TracePath::kDecode));
    }
  }
  EXPECT_EQ(FindServer("tgi"), nullptr);
  EXPECT_THAT(ServerChoices(), StartsWith("vllm|sglang|"));
}

// RequestBody dies of a field that the route's list lacks, so every question is asked once.
TEST(ServerTable, EveryQuestionHoldsOnlyFieldsOfItsRoute) {
  for (const ServerDialect* server : kServers) {
    for (const ServerPath& path : server->paths) {
      SCOPED_TRACE(std::string(server->name) + " " + std::string(Name(path.kind)));
      for (const std::string_view name : path.route->user) {
        const auto& own = path.route->own;
        EXPECT_EQ(std::find(own.begin(), own.end(), name), own.end()) << name;
      }
      const ServerFacts facts = FactsOf(*server, path);
      for (const bool narrow : {false, true}) {
        for (const bool whole : {false, true}) {
          ScoreAsk ask = AskOf();
          ask.narrow = narrow;
          ask.whole = whole && path.holds_back != nullptr;
          EXPECT_EQ(path.score(facts, ask, "salt").path, path.route->path);
        }
      }
      GenerateAsk ask;
      ask.prompt = kTokens;
      ask.sampling.top_k = 7;
      ask.sampling.top_p = 0.5;
      ask.sampling.stop = {2};
      EXPECT_THAT(server->generate(facts, ask, "salt").body, HasSubstr("[5,17,40,9]"));
    }
  }
}

TEST(ServerTable, EachPathAsksWithTheseBytes) {
  struct Case {
    const ServerPath& path;
    const ServerDialect& server;
    std::string body;
  };
  const std::vector<Case> cases = {
      {kVllmServer.paths[0], kVllmServer,
       R"({"model":"m","prompt":[5,17,40,9],"max_tokens":1,"temperature":1,"prompt_logprobs":3,)"
       R"("return_token_ids":true,"return_tokens_as_token_ids":true,"cache_salt":"s"})"},
      {kVllmServer.paths[1], kVllmServer,
       R"({"model":"m","token_ids":[5,17],"cache_salt":"s","sampling_params":{)"
       R"("trace_decode_token_ids":[40,9],"max_tokens":2,"logprobs":3,"temperature":1}})"},
      {kSglangServer.paths[0], kSglangServer,
       R"({"input_ids":[5,17,40,9],"sampling_params":{"max_new_tokens":0,"temperature":1},)"
       R"("return_logprob":true,"logprob_start_len":1,"top_logprobs_num":3,)"
       R"("return_text_in_logprobs":false,"cache_salt":"s"})"},
      {kLlamacppServer.paths[0], kLlamacppServer,
       R"({"prompt":[5,17],"n_predict":2,"n_probs":3,"post_sampling_probs":false,)"
       R"("return_tokens":true,"cache_prompt":false,"temperature":1,)"
       R"("grammar":"root ::= <[40]> <[9]>"})"},
      {kLlamacppServer.paths[1], kLlamacppServer,
       R"({"prompt":[5,17],"n_predict":1,"n_probs":3,"post_sampling_probs":false,)"
       R"("return_tokens":true,"cache_prompt":false,"temperature":1,"logit_bias":[[40,1000]]})"},
      {kTrtllmServer.paths[0], kTrtllmServer,
       R"({"model":"m","prompt":[5,17,40,9],"max_tokens":1,"temperature":1,)"
       R"("return_context_logits":true,"detokenize":false})"},
  };
  for (const Case& c : cases) {
    const ServerFacts facts = FactsOf(c.server, c.path);
    const HttpCall call = c.path.score(facts, SplitAsk(facts, AskOf())[0], "s");
    EXPECT_EQ(call.body, c.body + "\n") << c.server.name;
  }
}

TEST(ServerTable, EachServerGeneratesWithTheseBytes) {
  const std::vector<std::pair<const ServerDialect*, std::string>> cases = {
      {&kVllmServer,
       R"({"model":"m","prompt":[5,17],"max_tokens":4,"temperature":1,)"
       R"("top_k":-1,"top_p":1,"seed":7,"stop_token_ids":[2],"logprobs":3,"return_token_ids":true,)"
       R"("return_tokens_as_token_ids":true,"cache_salt":"s"})"},
      {&kSglangServer,
       R"({"input_ids":[5,17],"sampling_params":{"max_new_tokens":4,"temperature":1,)"
       R"("top_k":-1,"top_p":1,"sampling_seed":7,"stop_token_ids":[2]},"return_logprob":true,"top_logprobs_num":3,)"
       R"("return_text_in_logprobs":false,"cache_salt":"s"})"},
      {&kLlamacppServer,
       R"({"prompt":[5,17],"n_predict":4,"n_probs":3,"post_sampling_probs":false,)"
       R"("return_tokens":true,"cache_prompt":false,"temperature":1,"top_k":0,)"
       R"("top_p":1,"seed":7,"min_p":0})"},
      {&kTrtllmServer,
       R"({"model":"m","prompt":[5,17],"max_tokens":4,"temperature":1,)"
       R"("top_k":0,"top_p":1,"seed":7,"stop_token_ids":[2],"logprobs":1,"detokenize":false})"},
  };
  for (const auto& [server, body] : cases) {
    GenerateAsk ask;
    ask.prompt = std::span(kTokens).first(2);
    ask.sampling.output_tokens_max = 4;
    ask.sampling.stop = {2};
    ask.seed = (uint64_t{1} << 40) + 7;  // all but 31 bits are left out
    ask.top = 3;
    const ServerFacts facts = FactsOf(*server, server->paths[0]);
    EXPECT_EQ(server->generate(facts, ask, "s").body, body + "\n") << server->name;
  }
}

TEST(ChoosePath, TakesTheFirstPathOrTheOneAskedFor) {
  EXPECT_EQ(ChoosePath(kVllmServer, {}).value()->kind, TracePath::kPrefill);
  EXPECT_EQ(ChoosePath(kLlamacppServer, {}).value()->kind, TracePath::kDecode);
  EXPECT_EQ(ChoosePath(kVllmServer, TracePath::kDecode).value(), &kVllmServer.paths[1]);
  EXPECT_EQ(ChoosePath(kSglangServer, TracePath::kDecode).error().message(),
            "sglang has no way to force tokens while it decodes; use path=prefill, or vllm with "
            "trace replay or llamacpp for the decode path");
  ServerDialect decodes = kLlamacppServer;
  decodes.name = "other";
  decodes.paths = decodes.paths.first(1);
  EXPECT_THAT(ChoosePath(decodes, TracePath::kPrefill).error().message(),
              StartsWith("other has no way to score the tokens of a prompt; use path=decode, or "
                         "vllm, sglang, "));
}

TEST(DiscoverServer, RefusesOtherThanRawLogProbsWhereThereAreNone) {
  ServerOptions options;
  options.server = &kSglangServer;
  options.semantics = LogprobSemantics::kProcessed;
  options.http.base_url = "http://127.0.0.1:1";  // refused before anything is asked
  const auto pool = HttpPool::Open(options.http);
  ASSERT_TRUE(pool.has_value());
  const auto found = DiscoverServer(**pool, options);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().message(),
            "the log-probs of given tokens are raw on sglang (prefill path); semantics=processed "
            "is for vllm with path=decode");
}

TEST(ServerTable, ThePageShowsEveryServerAndItsPaths) {
  const std::string page = ReadFile("docs/servers.md", size_t{1} << 20).value();
  for (const ServerDialect* server : kServers) {
    EXPECT_THAT(page, HasSubstr("\n- **" + std::string(server->title) + "**"));
    for (const ServerPath& path : server->paths) {
      const bool usual = server->paths.size() > 1 && &path == server->paths.data();
      EXPECT_THAT(page, HasSubstr("\n| `" + std::string(server->name) + "` | `" +
                                  std::string(Name(path.kind)) + "`" + (usual ? " (default)" : "") +
                                  " | " + std::string(path.question) + " | " +
                                  std::string(path.evidence) + " |\n"));
    }
  }
}

}  // namespace
}  // namespace kcc
