// The server kernels against the reference server: numbers, paths, many calls at once, generation.

#include "kcc/kernel/server_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/reference_test_server.h"
#include "kcc/kernel/server_table.h"
#include "kcc/trace/reader.h"

namespace kcc {
namespace {

using ::kcc::testing::kReferenceEos;
using ::kcc::testing::kReferenceVocab;
using ::kcc::testing::MakeRequest;
using ::kcc::testing::MustOpen;
using ::kcc::testing::OpenServer;
using ::kcc::testing::ReferenceLogprobs;
using ::kcc::testing::ReferenceServer;
using ::kcc::testing::ScratchDir;
using ::kcc::testing::ServerUri;
using ::kcc::testing::ThreeRequests;
using ::testing::HasSubstr;

class ServerKernelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ReferenceServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static std::unique_ptr<Kernel> MustOpenServer(const std::string& uri) {
    auto kernel = OpenServer(uri);
    EXPECT_TRUE(kernel.has_value()) << kernel.error().Format();
    return kernel.has_value() ? std::move(*kernel) : nullptr;
  }

  // …/stats as text.
  static std::string Stats(const std::string& base) {
    HttpOptions options;
    options.base_url = "http://" + base;
    return HttpPool::Open(options).value()->Ask({"/stats", ""}).value().body;
  }

  static ReferenceServer* server_;
};
ReferenceServer* ServerKernelTest::server_ = nullptr;

struct Way {
  std::string dialect;
  std::string options;
  const ServerPath* path;
};
// Every path of every server, the default one unasked.
std::vector<Way> AllWays() {
  std::vector<Way> ways;
  for (const ServerDialect* server : kServers) {
    for (const ServerPath& path : server->paths) {
      const bool usual = &path == server->paths.data();
      ways.push_back(
          {std::string(server->name), usual ? "" : "path=" + std::string(Name(path.kind)), &path});
    }
  }
  return ways;
}

// Every row holds what the model's formula gives for its prefix.
void ExpectModelNumbers(const TraceReader& reader, const std::vector<KernelRequest>& batch,
                        int32_t top) {
  // vLLM's decode path cuts its lists with the forced token in them.
  const bool loses_one = reader.info().path == TracePath::kDecode &&
                         reader.info().kernel_fingerprint.starts_with("vllm");
  const int32_t least = loses_one ? std::max(0, top - 1) : top;
  TokenCursor cursor(reader);
  for (size_t r = 0; r < batch.size(); ++r) {
    const auto& tokens = batch[r].tokens;
    for (auto t = static_cast<size_t>(batch[r].prompt_tokens); t < tokens.size(); ++t) {
      const TokenEvidence* row = cursor.Next().value();
      ASSERT_NE(row, nullptr);
      EXPECT_EQ(row->request, static_cast<int32_t>(r));
      EXPECT_EQ(row->position, static_cast<int32_t>(t));
      EXPECT_EQ(row->token, tokens[t]);
      const auto truth = ReferenceLogprobs(std::span(tokens).first(t));
      if (row->logits != nullptr) {
        const auto* logits = static_cast<const float*>(row->logits);
        for (size_t v = 1; v < truth.size(); ++v) {
          EXPECT_NEAR(logits[v] - logits[0], truth[v] - truth[0], 2e-6);
        }
        continue;
      }
      EXPECT_NEAR(row->logprob, truth[static_cast<size_t>(tokens[t])], 1e-6);
      ASSERT_LE(row->top_k, top);
      ASSERT_GE(row->top_k, least);
      std::vector<double> sorted = truth;
      std::sort(sorted.rbegin(), sorted.rend());
      for (int32_t i = 0; i < row->top_k; ++i) {
        EXPECT_NEAR(row->top_logprobs[i], truth[static_cast<size_t>(row->top_ids[i])], 1e-6);
        EXPECT_NEAR(row->top_logprobs[i], sorted[static_cast<size_t>(i)], 1e-6);
      }
    }
  }
  EXPECT_EQ(cursor.Next().value(), nullptr);
}

TEST_F(ServerKernelTest, EveryServerAndPathGivesTheModelsNumbersAtTheirTokens) {
  for (const Way& way : AllWays()) {
    SCOPED_TRACE(way.dialect + " " + way.options);
    const ScratchDir scratch;
    const auto kernel =
        MustOpenServer(ServerUri(server_->Base(way.dialect, "none"), way.dialect, way.options));
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->info().path, way.path->kind);
    EXPECT_EQ(kernel->info().vocab_size, kReferenceVocab);
    EXPECT_EQ(kernel->info().semantics, LogprobSemantics::kRaw);
    std::vector<KernelRequest> batch = ThreeRequests();
    batch[1].request.fields["tier"] = std::string("gold");
    const auto scored = kernel->Score(batch, scratch / "out");
    ASSERT_TRUE(scored.has_value()) << scored.error().Format();
    const TraceReader reader = MustOpen(scratch / "out");
    EXPECT_TRUE(reader.VerifyPayload().has_value());
    EXPECT_EQ(reader.info().path, way.path->kind);
    EXPECT_EQ(reader.info().kernel_fingerprint, kernel->info().fingerprint);
    ASSERT_EQ(reader.requests().size(), 3u);
    EXPECT_EQ(*reader.requests()[1].Text("tier"), "gold");
    EXPECT_EQ(reader.requests()[2].Number("prompt_tokens"), 3);
    EXPECT_EQ(reader.requests()[2].Number("output_tokens"), 4);
    EXPECT_EQ(*reader.requests()[2].Text(kFilledFingerprintField), kernel->info().fingerprint);
    EXPECT_EQ(reader.requests()[2].Text("kernel_fingerprint"), nullptr);
    ExpectModelNumbers(reader, batch, way.path->logits ? 0 : 20);
  }
}

// One that the server refuses is a row; where it refuses all from the start, the question is wrong.
TEST_F(ServerKernelTest, ARequestThatFailsToGenerateIsARowOfTheTrace) {
  const ScratchDir scratch;
  ManualClock clock(5000);
  KernelOpenOptions how;
  how.clock = &clock;
  const auto kernel =
      OpenServer(ServerUri(server_->Base("vllm", "refuse-58"), "vllm", "retries=0"), how);
  ASSERT_TRUE(kernel.has_value()) << kernel.error().Format();
  Sampling sampling;
  sampling.output_tokens_max = 3;
  const KernelRequest refused = MakeRequest("no", {58, 4}, 2);
  const auto alone = (*kernel)->Generate(std::span(&refused, 1), sampling, scratch / "alone");
  ASSERT_FALSE(alone.has_value());
  EXPECT_THAT(alone.error().message(), HasSubstr("request 'no'"));
  std::vector<KernelRequest> batch = ThreeRequests();
  batch.push_back(refused);
  const auto done = (*kernel)->Generate(batch, sampling, scratch / "out");
  ASSERT_TRUE(done.has_value()) << done.error().Format();
  const TraceReader reader = MustOpen(scratch / "out");
  ASSERT_EQ(reader.requests().size(), 4u);
  EXPECT_EQ(reader.requests()[0].Flag("failed"), false);
  EXPECT_EQ(reader.requests()[3].Flag("failed"), true);
  EXPECT_EQ(reader.requests()[3].Number("output_tokens"), 0);
  EXPECT_EQ(reader.requests()[3].Number("latency_ms"), std::nullopt);
  EXPECT_EQ(reader.requests()[3].Number("started_at_ms"), 5000);
  EXPECT_EQ(reader.requests()[3].Flag("timed_out"), std::nullopt);
}

TEST_F(ServerKernelTest, VllmsOlderSpellingOfIdsIsReadToo) {
  const ScratchDir scratch;
  const auto kernel =
      MustOpenServer(ServerUri(server_->Base("vllm", "old"), "vllm", "path=decode"));
  ASSERT_NE(kernel, nullptr);
  ASSERT_TRUE(kernel->Score(ThreeRequests(), scratch / "out").has_value());
  ExpectModelNumbers(MustOpen(scratch / "out"), ThreeRequests(), 20);
}

TEST_F(ServerKernelTest, WithoutAlternativesTheTokensOwnLogProbIsTheEvidence) {
  for (const std::string dialect : {"vllm", "sglang", "llamacpp"}) {
    const ScratchDir scratch;
    const auto kernel = MustOpenServer(ServerUri(server_->Base(dialect, "none"), dialect, "top=0"));
    ASSERT_NE(kernel, nullptr);
    ASSERT_TRUE(kernel->Score(ThreeRequests(), scratch / "out").has_value());
    const TraceReader reader = MustOpen(scratch / "out");
    EXPECT_EQ(reader.info().evidence, EvidenceLevel::kSampledToken);
    ExpectModelNumbers(reader, ThreeRequests(), 0);
  }
}

TEST_F(ServerKernelTest, ARequestWithoutContinuationIsInTheTraceAndAsksNothing) {
  const ScratchDir scratch;
  const auto base = server_->Base("vllm", "none");
  const auto kernel = MustOpenServer(ServerUri(base, "vllm", "probe=off"));
  ASSERT_NE(kernel, nullptr);
  const std::vector<KernelRequest> batch = {MakeRequest("only prompt", {5, 6}, 2),
                                            MakeRequest("both", {5, 6, 7}, 2)};
  const auto scored = kernel->Score(batch, scratch / "out");
  ASSERT_TRUE(scored.has_value()) << scored.error().Format();
  EXPECT_EQ(MustOpen(scratch / "out").requests().size(), 2u);
  EXPECT_THAT(Stats(base), HasSubstr("\"scored\": 1,"));
}

TEST_F(ServerKernelTest, SixtyFourCallsAreInFlightAtOnce) {
  // The server answers none of them before all 64 are there.
  const ScratchDir scratch;
  const auto base = server_->Base("vllm", "hold64");
  const auto kernel = MustOpenServer(ServerUri(base, "vllm", "probe=off&top=2"));
  ASSERT_NE(kernel, nullptr);
  std::vector<KernelRequest> batch;
  for (int i = 0; i < 128; ++i) {
    batch.push_back(MakeRequest("r" + std::to_string(i), {i % 60, 5, 9}, 1));
  }
  const auto scored = kernel->Score(batch, scratch / "out");
  ASSERT_TRUE(scored.has_value()) << scored.error().Format();
  EXPECT_THAT(Stats(base), HasSubstr("\"in_flight_max\": 64"));
  ExpectModelNumbers(MustOpen(scratch / "out"), batch, 2);
}

TEST_F(ServerKernelTest, InFlightLimitsWhatTheServerSees) {
  const ScratchDir scratch;
  const auto base = server_->Base("sglang", "none");
  const auto kernel = MustOpenServer(ServerUri(base, "sglang", "in_flight=1"));
  ASSERT_NE(kernel, nullptr);
  ASSERT_TRUE(kernel->Score(ThreeRequests(), scratch / "out").has_value());
  EXPECT_THAT(Stats(base), HasSubstr("\"in_flight_max\": 1,"));
}

TEST_F(ServerKernelTest, EveryCallHasASaltOfItsOwn) {
  for (const std::string dialect : {"vllm", "sglang"}) {
    const ScratchDir scratch;
    const auto base = server_->Base(dialect, "none");
    const auto kernel = MustOpenServer(ServerUri(base, dialect, "probe=off"));
    ASSERT_NE(kernel, nullptr);
    ASSERT_TRUE(kernel->Score(ThreeRequests(), scratch / "out").has_value());
    EXPECT_THAT(Stats(base), HasSubstr("\"salts\": 3"));
  }
}

// A grammar can name neither fragments of characters (61 to 63) nor what ends a generation.
TEST_F(ServerKernelTest, LlamacppScoresTokensThatNoGrammarTakesOnBothPaths) {
  const ScratchDir scratch;
  const std::vector<KernelRequest> batch = {
      MakeRequest("end", {5, 9, 7, kReferenceEos}, 2),
      MakeRequest("end alone", {5, 9, kReferenceEos}, 2),
      MakeRequest("end inside", {5, 9, kReferenceEos, 7, 8}, 2),
      MakeRequest("fragments", {5, 9, 7, 8, 61, 62, 7, 63}, 2),
      MakeRequest("fragment first", {61, 62, 7, 8}, 1),
      MakeRequest("end after a fragment", {5, 61, kReferenceEos}, 1)};
  for (const std::string path : {"decode", "prefill"}) {
    for (const std::string top : {"20", "0"}) {
      SCOPED_TRACE(path + " " + top);
      const auto kernel = MustOpenServer(
          ServerUri(server_->Base("llamacpp", "none"), "llamacpp", "path=" + path + "&top=" + top));
      ASSERT_NE(kernel, nullptr);
      const auto scored = kernel->Score(batch, scratch / (path + top));
      ASSERT_TRUE(scored.has_value()) << scored.error().Format();
      ExpectModelNumbers(MustOpen(scratch / (path + top)), batch, std::stoi(top));
    }
  }
}

// Only what must be asked apart is: two runs and two fragments are four calls, and a run with its
// end is one.
TEST_F(ServerKernelTest, LlamacppDecodesInAsFewCallsAsItCan) {
  const auto calls = [&](const std::vector<int32_t>& tokens) {
    const ScratchDir scratch;
    const auto base = server_->Base("llamacpp", "none");
    const auto kernel = MustOpenServer(ServerUri(base, "llamacpp", "probe=off"));
    EXPECT_TRUE(kernel->Score(std::vector{MakeRequest("r", tokens, 1)}, scratch / "out"));
    return Stats(base);
  };
  EXPECT_THAT(calls({5, 7, 8, 9, kReferenceEos}), HasSubstr("\"scored\": 1,"));
  // A fragment is asked twice: its numbers are kept back at first.
  EXPECT_THAT(calls({5, 7, 8, 61, 9, 62}), HasSubstr("\"scored\": 6,"));
}

TEST_F(ServerKernelTest, TemperatureScaledLogProbsAreTakenWhereTheyAreAskedFor) {
  const ScratchDir scratch;
  const auto kernel =
      MustOpenServer(ServerUri(server_->Base("vllm", "scaled"), "vllm",
                               "path=decode&semantics=temperature-scaled&temperature=0.5&top=3"));
  ASSERT_NE(kernel, nullptr);
  const std::vector<KernelRequest> batch = {MakeRequest("a", {5, 17, 40}, 2)};
  ASSERT_TRUE(kernel->Score(batch, scratch / "out").has_value());
  const TraceReader reader = MustOpen(scratch / "out");
  EXPECT_EQ(reader.info().semantics, LogprobSemantics::kTemperatureScaled);
  EXPECT_EQ(reader.info().temperature, 0.5);
  TokenCursor cursor(reader);
  const auto truth = ReferenceLogprobs(std::vector<int32_t>{5, 17}, 0.5);
  EXPECT_NEAR(cursor.Next().value()->logprob, truth[40], 1e-6);
}

TEST_F(ServerKernelTest, TheFingerprintNamesBuildModelAndWhatChangesNumbersAndNothingElse) {
  const auto fingerprint = [&](const std::string& dialect, const std::string& options) {
    const auto kernel = MustOpenServer(ServerUri(server_->Base(dialect, "none"), dialect, options));
    return kernel == nullptr ? "" : kernel->info().fingerprint;
  };
  const std::string plain = fingerprint("vllm", "");
  EXPECT_THAT(plain, HasSubstr("vllm 1.2.3, tiny, prefill, sha256:"));
  EXPECT_EQ(plain, fingerprint("vllm", "timeout=5&retries=1&body_mib=3"));
  EXPECT_NE(plain, fingerprint("vllm", "path=decode"));
  EXPECT_NE(plain, fingerprint("vllm", "in_flight=2"));
  EXPECT_NE(plain, fingerprint("vllm", "body.priority=1"));
  EXPECT_THAT(fingerprint("llamacpp", ""), HasSubstr("llamacpp b1-abc, tiny, decode"));
}

TEST_F(ServerKernelTest, GenerationIsSeededStopsAndSaysWhatItsLogProbsMean) {
  struct Case {
    std::string dialect, faults;
    LogprobSemantics semantics;
  };
  const std::vector<Case> cases = {
      {"vllm", "none", LogprobSemantics::kRaw},
      {"sglang", "none", LogprobSemantics::kTemperatureScaled},
      {"sglang", "original", LogprobSemantics::kRaw},
      {"llamacpp", "none", LogprobSemantics::kRaw},
      {"trtllm", "none", LogprobSemantics::kRaw},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.dialect + " " + c.faults);
    const ScratchDir scratch;
    const auto kernel =
        MustOpenServer(ServerUri(server_->Base(c.dialect, c.faults), c.dialect, "top=3"));
    ASSERT_NE(kernel, nullptr);
    Sampling sampling;
    sampling.temperature = 0.7;
    sampling.seed = 11;
    sampling.output_tokens_max = 40;
    std::string texts[2];
    int masked = 0;
    for (int run = 0; run < 2; ++run) {
      const std::string out = scratch / std::to_string(run);
      const auto generated = kernel->Generate(ThreeRequests(), sampling, out);
      ASSERT_TRUE(generated.has_value()) << generated.error().Format();
      const TraceReader reader = MustOpen(out);
      EXPECT_TRUE(reader.VerifyPayload().has_value());
      EXPECT_EQ(reader.info().mode, TraceMode::kGenerated);
      EXPECT_EQ(reader.info().semantics, c.semantics);
      EXPECT_GT(reader.requests()[0].Number("latency_ms"), 0);
      std::vector<int32_t> tokens = {5, 17};  // the prompt of "a"
      TokenCursor cursor(reader);
      while (const TokenEvidence* row = cursor.Next().value()) {
        texts[run] += std::to_string(row->token) + " ";
        masked += row->masked;
        if (row->request != 0) continue;
        const double at = c.semantics == LogprobSemantics::kRaw ? 1.0 : sampling.temperature;
        const auto truth = ReferenceLogprobs(tokens, at);
        // llama.cpp keeps back the numbers of 61 to 63, fragments of characters.
        EXPECT_EQ(row->masked, c.dialect == "llamacpp" && row->token > 60);
        if (!row->masked) {
          EXPECT_NEAR(row->logprob, truth[static_cast<size_t>(row->token)], 1e-6);
        }
        tokens.push_back(row->token);
      }
      EXPECT_EQ(reader.requests()[0].Number("output_tokens"),
                static_cast<double>(tokens.size()) - 2);
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_NE(texts[0], "");
    EXPECT_EQ(masked > 0, c.dialect == "llamacpp");
  }
}

}  // namespace
}  // namespace kcc
