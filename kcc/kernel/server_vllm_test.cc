// What vLLM tells of itself by other ways than its pages: the vocabulary and the KV cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/kernel/reference_test_server.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

using ::kcc::testing::kReferenceVocab;
using ::kcc::testing::MakeRequest;
using ::kcc::testing::MustOpen;
using ::kcc::testing::OpenServer;
using ::kcc::testing::ReferenceServer;
using ::kcc::testing::ScratchDir;
using ::testing::HasSubstr;

std::string Uri(ReferenceServer& server, const std::string& faults) {
  return "openai+http://" + server.Base("vllm", faults) + "?server=vllm&retry_wait_ms=1";
}

TEST(ServerVllm, TellsItsVocabularyWhereItIsNotGiven) {
  ReferenceServer server;
  const auto kernel = OpenServer(Uri(server, "none"));
  ASSERT_TRUE(kernel.has_value()) << kernel.error().Format();
  EXPECT_EQ((*kernel)->info().vocab_size, kReferenceVocab);
  const auto silent = OpenServer(Uri(server, "silent-vocabulary"));
  ASSERT_FALSE(silent.has_value());
  EXPECT_THAT(silent.error().Format(), HasSubstr("give vocab_size=N"));
}

TEST(ServerVllm, RecordsWhatItsCacheTakesWhereItSaysSo) {
  ReferenceServer server;
  for (const auto& [faults, expected] :
       {std::pair<std::string, std::optional<double>>{"none", 2 * 268.435456},
        {"gpu-cache", std::nullopt},
        {"no-metrics", std::nullopt}}) {
    SCOPED_TRACE(faults);
    const ScratchDir scratch;
    const auto kernel = OpenServer(Uri(server, faults));
    ASSERT_TRUE(kernel.has_value()) << kernel.error().Format();
    const std::vector<KernelRequest> batch = {MakeRequest("a", {5, 17, 40}, 2)};
    ASSERT_TRUE((*kernel)->Score(batch, scratch / "out").has_value());
    EXPECT_EQ(MustOpen(scratch / "out").requests()[0].Number("kv_cache_mb"), expected);
  }
}

TEST(ServerVllm, MetricsThatDoNotTellAreNotGuessed) {
  const auto read = kVllmServer.kv_cache_mb;
  EXPECT_EQ(read(""), std::nullopt);
  EXPECT_EQ(read("vllm:cache_config_info{block_size=\"16\"} 1.0\n"), std::nullopt);
  EXPECT_EQ(read("vllm:cache_config_info{kv_cache_memory_bytes=\"1e9\"} 1.0\n"), std::nullopt);
  EXPECT_EQ(read("vllm:cache_config_info{kv_cache_memory_bytes=\"-5\"} 1.0\n"), std::nullopt);
  EXPECT_EQ(read("vllm:cache_config_info{kv_cache_memory_bytes=\"7"), std::nullopt);
  EXPECT_EQ(read("vllm:cache_config_info{kv_cache_memory_bytes=\"2000000\"} 1.0"), 2.0);
  // One engine of two does not tell: the sum is not known.
  EXPECT_EQ(read("vllm:cache_config_info{kv_cache_memory_bytes=\"2000000\"} 1.0\n"
                 "vllm:cache_config_info{kv_cache_memory_bytes=\"None\"} 1.0\n"),
            std::nullopt);
}

}  // namespace
}  // namespace kcc
