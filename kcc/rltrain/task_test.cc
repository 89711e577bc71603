#include "kcc/rltrain/task.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "kcc/rltrain/task_problems.h"

namespace kcc {
namespace {

std::vector<int32_t> Tokens(std::string_view text, bool ended = true) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  if (ended) tokens.push_back(kEndToken);
  return tokens;
}

TEST(RlTask, ProductsAreAllOfThreeDigitsTimesOneAndOneInSixteenIsHeldOut) {
  const auto task = RlTask::Make("products");
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->train().size() + task->held_out().size(), 7200u);
  EXPECT_NEAR(static_cast<double>(task->held_out().size()), 450, 30);
  for (const TaskProblem& problem : task->train()) EXPECT_EQ(problem.prompt.size(), 8u);
  // zlib.crc32(b"101*4") % 16 == 0: Python's corpus holds it out.
  std::set<std::string> held_out;
  for (const TaskProblem& problem : task->held_out()) held_out.insert(problem.id);
  EXPECT_TRUE(held_out.contains("101*4"));
}

TEST(RlTask, AProductIsRewardedForItsLastWordAndItsEnd) {
  const auto task = RlTask::Make("products");
  ASSERT_TRUE(task.has_value());
  TaskProblem problem;
  problem.wanted = "488";
  const auto reward = [&](std::string_view text, bool ended = true) {
    return task->Reward(problem, Tokens(text, ended));
  };
  EXPECT_EQ(reward("1*8+0=8 6*8+0=48 so 488"), 1);
  EXPECT_EQ(reward("488"), 1);
  EXPECT_EQ(reward("1*8+0=8 6*8+0=48 so 489"), 0);
  EXPECT_EQ(reward("so 4488"), 0);
  EXPECT_EQ(reward("so 488 "), 0);
  EXPECT_EQ(reward("so 488", false), 0) << "it has not ended";
  EXPECT_EQ(task->Reward(problem, {}), 0);
  EXPECT_EQ(task->Reward(problem, std::vector<int32_t>{300, kEndToken}), 0);
}

TEST(RlTask, ACallIsRewardedForItsFieldsAndTheirValues) {
  const auto task = RlTask::Make("json");
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->train().size() + task->held_out().size(), 4096u);
  TaskProblem problem;
  problem.wanted = R"({"tool":"get_rain","args":{"city":"abc","days":12,"mode":true}})";
  const auto reward = [&](std::string_view text) { return task->Reward(problem, Tokens(text)); };
  EXPECT_EQ(reward(problem.wanted), 1);
  EXPECT_EQ(reward(R"({ "args": {"mode": true, "days": 12, "city": "abc"}, "tool": "get_rain"})"),
            1);
  EXPECT_EQ(reward(R"({"tool":"get_rain","args":{"city":"abc","days":"12","mode":true}})"), 0);
  EXPECT_EQ(reward(R"({"tool":"get_rain","args":{"city":"abc","days":12}})"), 0);
  EXPECT_EQ(reward(R"({"tool":"get_rain","args":{"city":"abc","days":12,"mode":true,"x":1}})"), 0);
  EXPECT_EQ(reward(R"({"tool":"get_song","args":{"city":"abc","days":12,"mode":true}})"), 0);
  EXPECT_EQ(reward(R"({"tool":"get_rain","args":{"city":"abc","days":12,"mode":true})"), 0);
  EXPECT_EQ(reward(""), 0);
  for (const TaskProblem& each : task->held_out()) {
    EXPECT_EQ(task->Reward(each, Tokens(each.wanted)), 1) << each.id;
    EXPECT_LT(each.wanted.size() + 1, static_cast<size_t>(task->output_tokens_max()));
  }
}

TEST(RlTask, OfAFileTheOutputIsTheAnswer) {
  const std::string path = ::testing::TempDir() + "kcc-rltrain-r.jsonl";
  std::ofstream out(path);
  for (int i = 0; i < 64; ++i)
    out << R"({"id": "p)" << i << R"(", "prompt": [50, )" << i << R"(], "output": [7, 51]})"
        << '\n';
  out.close();
  const auto task = RlTask::Make(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(task.has_value()) << task.error().Format();
  EXPECT_EQ(task->name(), "kcc-rltrain-r.jsonl");
  EXPECT_EQ(task->train().size() + task->held_out().size(), 64u);
  EXPECT_FALSE(task->held_out().empty());
  EXPECT_EQ(task->output_tokens_max(), 2);
  EXPECT_EQ(std::vector<int32_t>(task->stop().begin(), task->stop().end()),
            std::vector<int32_t>{51});
  const TaskProblem& problem = task->train()[0];
  EXPECT_EQ(task->Reward(problem, std::vector<int32_t>{7, 51}), 1);
  EXPECT_EQ(task->Reward(problem, std::vector<int32_t>{7}), 0);
  EXPECT_EQ(task->Reward(problem, std::vector<int32_t>{7, 51, 51}), 0);
}

TEST(RlTask, WhatIsNoTaskIsNamed) {
  const auto task = RlTask::Make("product");
  ASSERT_FALSE(task.has_value());
  EXPECT_NE(task.error().message().find("no task 'product'"), std::string::npos);
}

}  // namespace
}  // namespace kcc
