// Servers that nobody here wrote, on weights whose log-probs are known: vLLM's CPU build and
// llama.cpp's server score the model of tiny_llama.py, and must agree with its float64 forward
// pass. Slow: vLLM takes half a minute to start. Needs tools/servers.sh.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "kcc/kernel/reference_test_server.h"
#include "kcc/trace/pairing.h"
#include "kcc/trace/reader.h"

namespace kcc {
namespace {

using ::kcc::testing::MakeRequest;
using ::kcc::testing::MustOpen;
using ::kcc::testing::OpenServer;
using ::kcc::testing::ScratchDir;
using ::kcc::testing::TestServer;
using ::testing::HasSubstr;

constexpr int kVocab = 512;

struct Truth {
  std::vector<KernelRequest> requests;
  std::vector<double> logprobs;  // of all scored tokens, in order
};

Truth ReadTruth(const std::string& path) {
  Truth truth;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    int32_t prompt_tokens = 0;
    size_t count = 0;
    words >> prompt_tokens >> count;
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) words >> token;
    double logprob = 0;
    while (words >> logprob) truth.logprobs.push_back(logprob);
    truth.requests.push_back(
        MakeRequest("r" + std::to_string(truth.requests.size()), tokens, prompt_tokens));
  }
  return truth;
}

class RealServers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { scratch_ = new ScratchDir(); }
  static void TearDownTestSuite() {
    delete scratch_;
    scratch_ = nullptr;
  }

  static TestServer Start(const std::string& kind) {
    return TestServer({"python3", "tests/kernel/real_server.py", kind, *scratch_ / "model"});
  }

  // Scores all sequences and gives the largest distance from the truth.
  static double Distance(Kernel& kernel, const std::string& name) {
    const Truth truth = ReadTruth(*scratch_ / "model/truth.txt");
    EXPECT_EQ(truth.requests.size(), 80u);
    const std::string out = *scratch_ / name;
    const auto scored = kernel.Score(truth.requests, out);
    EXPECT_TRUE(scored.has_value()) << scored.error().Format();
    if (!scored.has_value()) return INFINITY;
    const TraceReader reader = MustOpen(out);
    EXPECT_TRUE(reader.VerifyPayload().has_value());
    EXPECT_EQ(reader.info().evidence, EvidenceLevel::kTopK);
    TokenCursor cursor(reader);
    double worst = 0;
    for (const double logprob : truth.logprobs) {
      const TokenEvidence* row = cursor.Next().value();
      if (row == nullptr) return INFINITY;
      EXPECT_EQ(row->top_k, 20);
      worst = std::max(worst, std::abs(row->logprob - logprob));
    }
    EXPECT_EQ(cursor.Next().value(), nullptr);
    return worst;
  }

  static void ExpectGenerates(Kernel& kernel, const std::string& name) {
    Sampling sampling;
    sampling.temperature = 0.9;
    sampling.output_tokens_max = 6;
    sampling.seed = 5;
    const std::vector<KernelRequest> batch = {MakeRequest("g", {300, 301, 302}, 3)};
    const auto generated = kernel.Generate(batch, sampling, *scratch_ / name);
    ASSERT_TRUE(generated.has_value()) << generated.error().Format();
    EXPECT_EQ(MustOpen(*scratch_ / name).info().semantics, LogprobSemantics::kRaw);
  }

  static std::unique_ptr<Kernel> MustOpenServer(const std::string& uri) {
    auto kernel = OpenServer(uri);
    EXPECT_TRUE(kernel.has_value()) << kernel.error().Format();
    return kernel.has_value() ? std::move(*kernel) : nullptr;
  }

  static ScratchDir* scratch_;
};
ScratchDir* RealServers::scratch_ = nullptr;

TEST_F(RealServers, LlamacppAgreesWithTheFormulaOnBothPaths) {
  const TestServer server = Start("llamacpp");
  for (const std::string path : {"decode", "prefill"}) {
    SCOPED_TRACE(path);
    const auto kernel =
        MustOpenServer("openai+http://" + server.address() + "?server=llamacpp&path=" + path);
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->info().vocab_size, kVocab);
    const double distance = Distance(*kernel, "llamacpp-" + path);
    RecordProperty("distance_" + path, std::to_string(distance));
    EXPECT_LT(distance, 2e-4);
    EXPECT_GT(distance, 0);
  }
  const auto kernel = MustOpenServer("openai+http://" + server.address() + "?server=llamacpp");
  ASSERT_NE(kernel, nullptr);
  // 200 is the byte 0xC5, half of a character, 3 the byte 0, and 2 ends a generation: no grammar
  // takes them.
  const std::vector<KernelRequest> apart = {MakeRequest("f", {300, 301, 200, 302, 3, 2, 303}, 2)};
  const auto prefill =
      MustOpenServer("openai+http://" + server.address() + "?server=llamacpp&path=prefill");
  ASSERT_NE(prefill, nullptr);
  ASSERT_TRUE(kernel->Score(apart, *scratch_ / "apart-decode").has_value());
  ASSERT_TRUE(prefill->Score(apart, *scratch_ / "apart-prefill").has_value());
  const TraceReader readers[] = {MustOpen(*scratch_ / "apart-decode"),
                                 MustOpen(*scratch_ / "apart-prefill")};
  TokenCursor decode(readers[0]);
  TokenCursor by_token(readers[1]);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(decode.Next().value()->logprob, by_token.Next().value()->logprob, 2e-4) << i;
  }
}

TEST_F(RealServers, VllmAgreesWithTheFormulaOnThePrefillPath) {
  const TestServer server = Start("vllm");
  const std::string uri = "openai+http://" + server.address() + "?server=vllm";
  const auto kernel = MustOpenServer(uri + "&vocab_size=512");
  ASSERT_NE(kernel, nullptr);
  EXPECT_THAT(kernel->info().fingerprint, HasSubstr("vllm 0.32.0, tiny, prefill"));
  const double distance = Distance(*kernel, "vllm");
  RecordProperty("distance", std::to_string(distance));
  EXPECT_LT(distance, 2e-4);
  EXPECT_GT(distance, 0);
  ExpectGenerates(*kernel, "vllm-generated");
  // One call at a time and 64 at once are other batches of the same kernel.
  const auto alone = MustOpenServer(uri + "&vocab_size=512&in_flight=1");
  ASSERT_NE(alone, nullptr);
  EXPECT_LT(Distance(*alone, "vllm-alone"), 2e-4);
  // What it says when the decode path is not switched on.
  const auto decode = OpenServer(uri + "&vocab_size=512&path=decode");
  ASSERT_FALSE(decode.has_value());
  EXPECT_THAT(decode.error().message(), HasSubstr("--enable-scale-out"));
  const auto too_many = OpenServer(uri + "&vocab_size=512&top=30");
  ASSERT_TRUE(too_many.has_value());
  const auto scored =
      (*too_many)->Score(std::vector{MakeRequest("k", {300, 301}, 1)}, *scratch_ / "k");
  ASSERT_FALSE(scored.has_value());
  EXPECT_THAT(scored.error().message(), HasSubstr("greater than max allowed: 20"));
}

}  // namespace
}  // namespace kcc
