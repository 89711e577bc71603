#include "kcc/replay/stored_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/base/sha256.h"
#include "kcc/replay/choose_requests.h"
#include "kcc/replay/run_log.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KernelRequest Asked() {
  KernelRequest request;
  request.request.id = "a \"quoted\" id";
  request.tokens = {5, 6, 7, 8};
  request.prompt_tokens = 3;
  auto& fields = request.request.fields;
  fields["prompt_tokens"] = 3.0;
  fields["tags"] = std::vector<std::string>{"safety"};
  fields["difficulty"] = 2.5;
  fields["streamed"] = true;
  fields["user"] = std::string("somebody");
  fields["top_p"] = 0.9;
  fields["latency_ms"] = 12.0;  // of a run, not of the request
  return request;
}

StoredRequest Stored(StoreRequests store, bool text = false) {
  StoredRequest stored;
  stored.id = Asked().request.id;
  stored.store = store;
  stored.flags = {{"N-1", "all", "kl", 0.25, 0.1, 3, 8},
                  {"R-1", "long", "latency_ms", 9, 5, -1, -1}};
  stored.model = "tiny";
  stored.contract = Sha256Of("c");
  stored.triple = Sha256Of("t");
  stored.sampling_temperature = 0.7;
  stored.seed = "18446744073709551615";
  stored.batch = {1, {{4, 2}, {3, 1}}};
  stored.train = {"train-1", "sha256:w", {{"engine", "toy"}}, "s1"};
  stored.infer = {"infer-1", "", {}, ""};
  RequestStorage storage;
  storage.store = store;
  storage.text = text;
  SetContent(Asked(), storage, &stored);
  return stored;
}

TEST(StoredRequest, ReadsBackAsItWasWritten) {
  for (const StoreRequests store : {StoreRequests::kHashes, StoreRequests::kFull}) {
    const std::string json = StoredRequestJson(Stored(store));
    const auto read = ParseStoredRequest(json);
    ASSERT_TRUE(read.has_value()) << read.error().Format() << json;
    EXPECT_EQ(StoredRequestJson(*read), json);
    EXPECT_EQ(read->flags, Stored(store).flags);
    EXPECT_EQ(read->flags[0].token, store == StoreRequests::kFull ? 8 : -1);
    EXPECT_EQ(read->batch, Stored(store).batch);
    EXPECT_EQ(read->train, Stored(store).train);
    EXPECT_EQ(read->seed, "18446744073709551615");
    EXPECT_FALSE(read->train_batch);
    EXPECT_EQ(&TrainBatch(*read), &read->batch);
  }
}

TEST(StoredRequest, TellsTheBatchOfTrainWhereItIsAnother) {
  for (const BatchShape& of_train : {BatchShape{0, {{3, 1}}}, BatchShape{}}) {
    StoredRequest stored = Stored(StoreRequests::kHashes);
    stored.train_batch = of_train;
    const std::string json = StoredRequestJson(stored);
    const auto read = ParseStoredRequest(json);
    ASSERT_TRUE(read.has_value()) << read.error().Format() << json;
    EXPECT_EQ(StoredRequestJson(*read), json);
    EXPECT_EQ(read->train_batch, of_train);
    EXPECT_EQ(TrainBatch(*read), of_train);
  }
}

TEST(StoredRequest, HashesHoldNothingOfTheRequestButDigests) {
  const StoredRequest stored = Stored(StoreRequests::kHashes);
  EXPECT_TRUE(stored.tokens.empty() && stored.tags.empty() && stored.fields.empty());
  const std::string json = StoredRequestJson(stored);
  for (const char* word : {"somebody", "safety", "difficulty", "\"prompt\":", "[5,6,7]"}) {
    EXPECT_EQ(json.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(stored.prompt_digest, TokensDigest(std::vector<int32_t>{5, 6, 7}));
}

TEST(StoredRequest, FullKeepsTextsOnlyWhereTheyAreAskedFor) {
  const StoredRequest without = Stored(StoreRequests::kFull);
  EXPECT_THAT(without.tokens, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(without.tags, ElementsAre("safety"));
  EXPECT_THAT(without.left_out, ElementsAre("user"));
  EXPECT_EQ(StoredRequestJson(without).find("somebody"), std::string::npos);
  EXPECT_TRUE(without.fields.contains("difficulty") && without.fields.contains("streamed"));
  EXPECT_FALSE(without.fields.contains("latency_ms"));
  EXPECT_EQ(without.sampling.at("top_p"), 0.9);
  const StoredRequest with = Stored(StoreRequests::kFull, true);
  EXPECT_TRUE(with.left_out.empty());
  EXPECT_NE(StoredRequestJson(with).find("somebody"), std::string::npos);
}

TEST(StoredRequest, IsAskedAgainAsItWas) {
  const KernelRequest request = RequestToRun(Stored(StoreRequests::kFull));
  EXPECT_EQ(request.tokens, Asked().tokens);
  EXPECT_EQ(request.prompt_tokens, 3);
  EXPECT_EQ(request.request.id, Asked().request.id);
  const StoredRequest hashes = Stored(StoreRequests::kHashes);
  EXPECT_TRUE(CheckSuppliedRequest(hashes, Asked()).has_value());
  KernelRequest other = Asked();
  other.tokens[3] = 9;
  EXPECT_FALSE(CheckSuppliedRequest(hashes, other).has_value());
  other = Asked();
  other.prompt_tokens = 2;
  EXPECT_FALSE(CheckSuppliedRequest(hashes, other).has_value());
}

TEST(StoredRequest, RefusesWhatIsNotOne) {
  const std::string good = StoredRequestJson(Stored(StoreRequests::kFull));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    const auto read = ParseStoredRequest(text.replace(at, from.size(), to));
    return read.has_value() ? std::string("taken") : read.error().message();
  };
  EXPECT_THAT(ParseStoredRequest("{").error().message(), HasSubstr("not a stored request"));
  EXPECT_THAT(ParseStoredRequest("[]").error().message(), HasSubstr("must be an object"));
  EXPECT_THAT(ParseStoredRequest("{}").error().message(), HasSubstr("no kccStoredRequest"));
  EXPECT_THAT(changed("\"kccStoredRequest\":1", "\"kccStoredRequest\":2"), HasSubstr("version 2"));
  EXPECT_THAT(changed("\"store\":\"full\"", "\"store\":\"none\""), HasSubstr("hashes or full"));
  EXPECT_THAT(changed("[5,6,7]", "[5,6,9]"), HasSubstr("digests are not those"));
  EXPECT_THAT(changed("[5,6,7]", "[5,6]"), HasSubstr("promptTokens"));
  EXPECT_THAT(changed("[5,6,7]", "[5,6,-7]"), HasSubstr("token ids"));
  EXPECT_THAT(changed("\"place\":1", "\"place\":2"), HasSubstr("outside its batch"));
  EXPECT_THAT(changed("[[4,2],", "[[4],"), HasSubstr("prompt tokens, output tokens"));
  EXPECT_THAT(changed("\"sampled\":false", "\"sampled\":0"), HasSubstr("true or false"));
  // A second spelling would be a second digest of one record.
  EXPECT_THAT(changed("\"store\":\"full\"", "\"store\": \"full\""), HasSubstr("canonical"));
  EXPECT_THAT(changed("\"sampled\":false", "\"sampled\":false,\"more\":1"), HasSubstr("canonical"));
}

TEST(InSample, IsAShareThatDependsOnTheIdAlone) {
  int in = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string id = "request-" + std::to_string(i);
    in += InSample(id, 0.1);
    EXPECT_TRUE(InSample(id, 1));
    EXPECT_FALSE(InSample(id, 0));
    // A larger sample holds the smaller one.
    EXPECT_TRUE(InSample(id, 0.2) || !InSample(id, 0.1));
  }
  EXPECT_NEAR(in, 1000, 150);
}

}  // namespace
}  // namespace kcc
