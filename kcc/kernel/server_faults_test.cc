// A server that fails or lies: each way gives the error that docs/servers.md names, and leaves no
// trace, no socket and no temporary file behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/reference_test_server.h"
#include "kcc/kernel/server_kernel.h"
#include "kcc/kernel/server_table.h"
#include "kcc/trace/reader.h"

namespace kcc {
namespace {

using ::kcc::testing::MakeRequest;
using ::kcc::testing::MustOpen;
using ::kcc::testing::OpenDescriptors;
using ::kcc::testing::OpenServer;
using ::kcc::testing::ReferenceServer;
using ::kcc::testing::ScratchDir;
using ::kcc::testing::ServerUri;
using ::kcc::testing::ThreeRequests;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ServerFaultsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ReferenceServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  // Opens and scores; "" if both work.
  static std::string Problem(const std::string& uri, const std::vector<KernelRequest>& batch) {
    const ScratchDir scratch;
    const int before = OpenDescriptors();
    std::string problem;
    {
      auto kernel = OpenServer(uri);
      if (!kernel.has_value()) {
        problem = "open: " + kernel.error().message();
      } else if (auto scored = (*kernel)->Score(batch, scratch / "out"); !scored.has_value()) {
        problem = "score: " + scored.error().message();
        EXPECT_TRUE(std::filesystem::is_empty(scratch / "")) << "left behind";
      }
    }
    EXPECT_EQ(OpenDescriptors(), before) << "a descriptor is left open";
    return problem;
  }

  static ReferenceServer* server_;
};
ReferenceServer* ServerFaultsTest::server_ = nullptr;

struct FaultCase {
  std::string dialect, faults, options, problem;
};

TEST_F(ServerFaultsTest, EachFaultGivesItsDocumentedError) {
  // clang-format off
  const std::vector<FaultCase> cases = {
      // Transport.
      {"vllm", "500", "probe=off", "score: http://127.0.0.1"},
      {"vllm", "500", "probe=off&retries=2", "status 500: EngineCore encountered an issue (after 3 attempts)"},
      {"vllm", "500", "", "open: the probe, which asks a few tokens before the first request: http://127.0.0.1"},
      {"sglang", "429", "probe=off", "status 429: too many; the server asks to come back after 3600 s, longer than the 60 s"},
      {"vllm", "close", "probe=off", "closed the connection before its answer was complete (after 5 attempts)"},
      {"vllm", "huge", "probe=off", "the answer is larger than 64 MiB; ask for less"},
      {"sglang", "huge-said", "probe=off", "the answer is larger than 64 MiB; ask for less"},
      {"vllm", "slow", "probe=off&timeout=0.2", "no answer within 0.2 s"},
      {"vllm", "html", "probe=off", "request 'a': the answer is no JSON object"},
      {"vllm", "key", "", "/v1/models gives status 401; give the server's key with api_key_file=PATH"},
      // Identity.
      {"vllm", "two-models", "", "the server has the models tiny and other; say which with model=NAME"},
      {"vllm", "none", "model=tni", "the server has no model 'tni'; it has tiny"},
      {"vllm", "other-build", "", "another build or other weights answer at this address"},
      {"sglang", "other-build", "", "another build or other weights answer at this address"},
      // Token ids.
      {"vllm", "no-ids", "probe=off", "the answer has no prompt_token_ids"},
      {"vllm", "text-ids", "probe=off", "prompt_logprobs must be keyed by token id"},
      {"vllm", "no-ids", "probe=off&path=decode", "the tokens are texts without ids"},
      {"sglang", "no-ids", "probe=off", "an entry is not [logprob, token id, text]"},
      {"llamacpp", "no-ids", "probe=off", "has no 'id'"},
      // Alignment and counts.
      {"vllm", "shift-ids", "probe=off", "do not stand at their tokens"},
      {"sglang", "shift-ids", "probe=off", "do not stand at their tokens"},
      {"llamacpp", "shift-ids", "probe=off", "do not stand at their tokens"},
      {"vllm", "shift", "", "open: the probe, which asks a few tokens before the first request: the numbers at the last token change when that token is replaced"},
      {"vllm", "shift", "path=decode", "the server's lists are shifted by one"},
      {"sglang", "shift", "", "the server's lists are shifted by one"},
      {"trtllm", "shift", "", "the server's lists are shifted by one"},
      {"llamacpp", "shift", "", "the server's lists are shifted by one"},
      {"vllm", "count", "probe=off", "do not stand at their tokens"},
      {"vllm", "count", "probe=off&path=decode", "do not stand at their tokens"},
      {"sglang", "count", "probe=off", "input_token_logprobs has 3 entries"},
      {"llamacpp", "count", "probe=off", "the list has 2 entries for 3 tokens"},
      {"llamacpp", "bos", "probe=off", "the server counts 3 prompt tokens, sent were 2: it adds or cuts tokens"},
      {"trtllm", "count", "probe=off", "context_logits has 4 rows for 5 prompt tokens"},
      {"vllm", "few-tops", "probe=off", "alternatives with ids, asked for were 20"},
      {"sglang", "few-tops", "probe=off", "position 2 has 2 alternatives with ids, asked for were 20"},
      {"llamacpp", "few-tops", "probe=off", "position 2 has 2 alternatives with ids, asked for were 20"},
      // Meaning.
      {"vllm", "scaled", "", "wrong semantics: asked for are raw log-probs, the server gives temperature-scaled ones"},
      {"vllm", "scaled", "path=decode", "start vLLM with --logprobs-mode raw_logprobs"},
      {"vllm", "processed", "path=decode", "the server gives processed ones (sampling parameters cut"},
      {"sglang", "scaled", "", "start SGLang with SGLANG_RETURN_ORIGINAL_LOGPROB=1"},
      {"llamacpp", "scaled", "", "the server gives temperature-scaled ones"},
      {"trtllm", "scaled", "", "the server gives temperature-scaled ones"},
      {"llamacpp", "prob", "", "wrong semantics"},
      {"vllm", "none", "path=decode&semantics=temperature-scaled", "the server gives raw ones (the log-probs do not change with the temperature)"},
      {"vllm", "logits", "", "these are logits; vLLM must not run with --logprobs-mode raw_logits"},
      {"sglang", "flat", "", "it cannot tell raw from temperature-scaled log-probs: the model finds its best tokens equally likely here; probe=ID,ID,ID asks about other tokens, and probe=off skips it: then nobody checks what the log-probs mean"},
      {"vllm", "sentinel", "probe=off", "request 'a', position 4: there is no log-prob: null, NaN or a stand-in such as -9999.0"},
      {"sglang", "sentinel", "probe=off", "position 4: there is no log-prob"},
      {"sglang", "null", "probe=off", "position 4: there is no log-prob"},
      {"llamacpp", "sentinel", "probe=off", "position 4: there is no log-prob"},
      // Routes.
      {"sglang", "none", "path=decode", "sglang has no way to force tokens while it decodes; use path=prefill"},
      {"trtllm", "none", "path=decode", "trtllm has no way to force tokens while it decodes; use path=prefill"},
      {"vllm", "no-replay", "path=decode", "status 403: Scale-out endpoints are disabled"},
      {"vllm", "no-trace", "path=decode", "status 400: trace_decode_token_ids is set but trace replay is not enabled. Start the engine with --enable-trace-replay to use it."},
  };
  // clang-format on
  const std::vector<KernelRequest> batch = {ThreeRequests()[0]};
  for (const FaultCase& c : cases) {
    SCOPED_TRACE(c.dialect + " " + c.faults + " " + c.options);
    EXPECT_THAT(Problem(ServerUri(server_->Base(c.dialect, c.faults), c.dialect, c.options), batch),
                HasSubstr(c.problem));
  }
}

TEST_F(ServerFaultsTest, AnotherServerThanSaidIsNoticedByItsMissingPages) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"sglang", "vllm",
       "/version gives status 404; is it the right server=? It answers as server=sglang"},
      {"llamacpp", "trtllm",
       "/version gives status 404; is it the right server=? It answers as server=llamacpp"},
      {"vllm", "sglang",
       "/server_info gives status 404; is it the right server=? It answers as server=vllm or "
       "trtllm"},
      {"trtllm", "llamacpp",
       "/props gives status 404; is it the right server=? It answers as server=vllm or trtllm"},
  };
  for (const auto& [is, said, problem] : cases) {
    SCOPED_TRACE(is + " said to be " + said);
    EXPECT_THAT(Problem(ServerUri(server_->Base(is, "none"), said, ""), ThreeRequests()),
                HasSubstr(problem));
  }
}

TEST_F(ServerFaultsTest, AFaultThatPassesIsOvercome) {
  for (const std::string fault : {"500-once", "503-once", "close-once"}) {
    SCOPED_TRACE(fault);
    const auto uri = ServerUri(server_->Base("vllm", fault), "vllm", "probe=off");
    EXPECT_EQ(Problem(uri, ThreeRequests()), "");
    const auto strict = ServerUri(server_->Base("vllm", fault), "vllm", "probe=off&retries=0");
    EXPECT_THAT(Problem(strict, ThreeRequests()), HasSubstr("score: "));
  }
}

TEST_F(ServerFaultsTest, MissingLogProbsAreLeftOutWhereThatIsAskedFor) {
  const ScratchDir scratch;
  const auto kernel = OpenServer(
      ServerUri(server_->Base("vllm", "sentinel"), "vllm", "probe=off&mask_missing=true"));
  ASSERT_TRUE(kernel.has_value());
  const std::vector<KernelRequest> batch = {ThreeRequests()[0]};
  const auto scored = (*kernel)->Score(batch, scratch / "out");
  ASSERT_TRUE(scored.has_value()) << scored.error().Format();
  const TraceReader reader = MustOpen(scratch / "out");
  TokenCursor cursor(reader);
  std::string masked;
  while (const TokenEvidence* row = cursor.Next().value()) masked += row->masked ? "x" : ".";
  EXPECT_EQ(masked, "..x");
}

TEST_F(ServerFaultsTest, TheKeyOpensTheServerAndIsInNoMessage) {
  const ScratchDir scratch;
  std::ofstream(scratch / "right") << "secret-1\n";
  std::ofstream(scratch / "wrong") << "secret-2\n";
  const auto uri = [&](const std::string& file) {
    return ServerUri(server_->Base("vllm", "key"), "vllm", "api_key_file=" + (scratch / file));
  };
  EXPECT_EQ(Problem(uri("right"), ThreeRequests()), "");
  EXPECT_THAT(Problem(uri("wrong"), ThreeRequests()), HasSubstr("status 401"));
  EXPECT_THAT(Problem(uri("wrong"), ThreeRequests()), Not(HasSubstr("secret")));
  // A server that echoes the key in its own words.
  HttpOptions options;
  options.base_url = "http://" + server_->Base("vllm", "key");
  options.api_key = "secret-2";
  const auto run = HttpPool::Open(options).value()->Run(
      1,
      [](size_t) {
        return HttpCall{"/v1/models", ""};
      },
      [](size_t, const HttpReply&) -> Result<> { return {}; });
  ASSERT_FALSE(run.has_value());
  EXPECT_THAT(run.error().message(), HasSubstr("status 401: wrong: Bearer ***"));
}

// The search for the key found it again in its own replacement, for ever and deaf to signals.
TEST_F(ServerFaultsTest, AKeyOfAsterisksIsHiddenAndEnds) {
  const ScratchDir scratch;
  for (const std::string key : {"***", "*", "**"}) {
    std::ofstream(scratch / "key") << key;
    const auto uri =
        ServerUri(server_->Base("vllm", "key"), "vllm", "api_key_file=" + (scratch / "key"));
    EXPECT_THAT(Problem(uri, ThreeRequests()), HasSubstr("401"));
    HttpOptions options;
    options.base_url = "http://" + server_->Base("vllm", "key");
    options.api_key = key;
    const auto run = HttpPool::Open(options).value()->Run(
        1,
        [](size_t) {
          return HttpCall{"/v1/models", ""};
        },
        [](size_t, const HttpReply&) -> Result<> { return {}; });
    ASSERT_FALSE(run.has_value());
    EXPECT_THAT(run.error().message(), HasSubstr("status 401: wrong: Bearer ###"));
  }
}

// What the server says in an answer that is no error is quoted too, and a long answer is cut.
TEST_F(ServerFaultsTest, AnAnswerThatQuotesTheKeyIsQuotedWithoutIt) {
  const ScratchDir scratch;
  std::ofstream(scratch / "key") << "secret-3";
  const std::string key = "api_key_file=" + (scratch / "key");
  const auto model = ServerUri(server_->Base("vllm", "key-as-model"), "vllm", key + "&model=x");
  EXPECT_THAT(Problem(model, ThreeRequests()), HasSubstr("no model 'x'; it has ***"));
  HttpOptions options;
  options.base_url = "http://" + server_->Base("vllm", "key-late");
  options.api_key = "secret-3";
  const auto run = HttpPool::Open(options).value()->Run(
      1,
      [](size_t) {
        return HttpCall{"/v1/models", ""};
      },
      [](size_t, const HttpReply&) -> Result<> { return {}; });
  ASSERT_FALSE(run.has_value());
  EXPECT_THAT(run.error().message(), Not(HasSubstr("secr")));
}

TEST_F(ServerFaultsTest, NobodyListensIsSaidAfterTheLastAttempt) {
  // A port that was free a moment ago: bound and given back.
  EXPECT_THAT(
      Problem("openai+http://127.0.0.1:1?server=vllm&retry_wait_ms=1&vocab_size=9&retries=1",
              ThreeRequests()),
      AllOf(HasSubstr("http://127.0.0.1:1/v1/models: no connection: "),
            HasSubstr("is the server started, and is this its port? (after 2 attempts); vLLM "
                      "listens on 8000 unless it is told otherwise")));
}

TEST_F(ServerFaultsTest, IdsOutsideTheVocabularyAreNeverSent) {
  const std::vector<KernelRequest> batch = {MakeRequest("x", {5, 64, 7}, 1)};
  for (const std::string_view name : ServerNames()) {
    const std::string dialect(name);
    EXPECT_THAT(Problem(ServerUri(server_->Base(dialect, "none"), dialect, ""), batch),
                HasSubstr("request 'x': the token id 64 at position 1 is outside the server's "
                          "vocabulary of 64"));
  }
  EXPECT_THAT(
      Problem(ServerUri(server_->Base("vllm", "none"), "vllm", ""), {MakeRequest("x", {5, 6}, 0)}),
      HasSubstr("it must have at least one, since nothing predicts the first"));
}

TEST_F(ServerFaultsTest, AReadableStopDescriptorEndsTheWait) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  KernelOpenOptions how;
  how.stop_fd = ends[0];
  const auto kernel =
      OpenServer(ServerUri(server_->Base("vllm", "slow"), "vllm", "probe=off"), how);
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().message(), "interrupted");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(ServerFaultsTest, ABatchIsGivenUpAtItsTimeLimit) {
  KernelOpenOptions how;
  how.batch_timeout_s = 0.2;
  const ScratchDir scratch;
  const auto kernel =
      OpenServer(ServerUri(server_->Base("vllm", "slow"), "vllm", "probe=off&timeout=100"), how);
  ASSERT_TRUE(kernel.has_value());
  const auto scored = (*kernel)->Score(ThreeRequests(), scratch / "out");
  ASSERT_FALSE(scored.has_value());
  EXPECT_THAT(scored.error().message(), HasSubstr("0 of 3 calls were answered within 0.2 s"));
}

}  // namespace
}  // namespace kcc
