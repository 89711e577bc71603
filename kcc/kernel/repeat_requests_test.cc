#include "kcc/kernel/repeat_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::kcc::testing::ScratchDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<RequestSource> Open(const ScratchDir& scratch, const std::string& lines,
                                    int64_t times) {
  std::ofstream(scratch / "r.jsonl") << lines;
  auto source = OpenRequestFile(scratch / "r.jsonl", RequestUse::kScore);
  EXPECT_TRUE(source.has_value()) << source.error().Format();
  return RepeatRequests(std::move(*source), times);
}

TEST(RepeatRequests, AsksRoundByRoundUnderIdsOfTheirOwn) {
  const ScratchDir scratch;
  const auto source = Open(scratch,
                           "{\"id\":\"a\",\"prompt\":[1],\"output\":[2,3]}\n"
                           "{\"id\":\"b\",\"prompt\":[4],\"output\":[5],\"replay_group\":\"g\"}\n",
                           3);
  EXPECT_EQ(source->totals().requests, 6);
  EXPECT_EQ(source->totals().output_tokens, 9);
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::string> ids, groups;
    KernelRequest request;
    while (source->Next(&request).value()) {
      ids.push_back(request.request.id);
      groups.push_back(*request.request.Text("replay_group"));
      EXPECT_EQ(request.tokens.size(), groups.back() == "g" ? 2u : 3u);
    }
    EXPECT_THAT(ids, ElementsAre("a", "b", "a#2", "b#2", "a#3", "b#3"));
    EXPECT_THAT(groups, ElementsAre("a", "g", "a", "g", "a", "g"));
    EXPECT_FALSE(source->Next(&request).value());
    ASSERT_TRUE(source->Rewind().has_value());
  }
}

TEST(RepeatRequests, OnceIsTheSourceItself) {
  const ScratchDir scratch;
  const auto source = Open(scratch, "{\"id\":\"a#2\",\"prompt\":[1],\"output\":[2]}\n", 1);
  KernelRequest request;
  ASSERT_TRUE(source->Next(&request).value());
  EXPECT_EQ(request.request.id, "a#2");
  EXPECT_EQ(request.request.Text("replay_group"), nullptr);
}

TEST(RepeatRequests, AnIdThatLooksLikeThatOfARepeatIsRefused) {
  const ScratchDir scratch;
  const auto source = Open(scratch,
                           "{\"id\":\"c#\",\"prompt\":[1],\"output\":[2]}\n"
                           "{\"id\":\"a#2\",\"prompt\":[1],\"output\":[2]}\n",
                           2);
  KernelRequest request;
  ASSERT_TRUE(source->Next(&request).value());
  const auto next = source->Next(&request);
  ASSERT_FALSE(next.has_value());
  EXPECT_THAT(next.error().Format(),
              HasSubstr("r.jsonl:2: the id 'a#2' ends as the ids of repeats"));
}

}  // namespace
}  // namespace kcc
