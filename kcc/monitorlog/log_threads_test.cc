// Decision logs in several threads at once: each with its own, all with the same, and one that
// others replay while it is written. Run by the thread sanitizer (make test-tsan).
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kcc/base/file.h"
#include "kcc/monitor/monitor_test_data.h"
#include "kcc/monitorlog/log_replay.h"
#include "kcc/monitorlog/monitor_session.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::MonitorContract;
using testing::SoftKl;
using testing::TestPolicy;

constexpr size_t kThreads = 4;
constexpr int64_t kStory = 200;

class LogThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("threads-") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  std::string Bytes(const std::string& name) const { return *ReadFile(Path(name), 1 << 24); }

  Result<MonitorSession> Open(const std::string& log) const {
    SessionOptions options;
    options.log = Path(log);
    options.state = Path(log + ".state");
    options.save_every = 70;
    options.kcc_version = "test";
    return MonitorSession::Open(contract_, policy_, options);
  }
  // Whether the story was folded from where the log stood to its end.
  bool FoldToTheEnd(const std::string& log) const {
    auto session = Open(log);
    if (!session.has_value()) return false;
    for (int64_t i = session->resumed(); i < kStory; ++i) {
      EXPECT_TRUE(session->Observe(GoodOrBad(i, i >= 80 && i < 130)).has_value());
    }
    EXPECT_TRUE(session->Close().has_value());
    return true;
  }
  template <class Work>
  static void InThreads(Work work) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }

  const Contract contract_ = MonitorContract({SoftKl()});
  const MonitorPolicy policy_ = TestPolicy();
  std::filesystem::path directory_;
};

TEST_F(LogThreadsTest, EachWritesItsOwn) {
  InThreads([&](size_t i) { EXPECT_TRUE(FoldToTheEnd("log" + std::to_string(i))); });
  EXPECT_NE(Bytes("log0").find("\"kind\":\"guard\""), std::string::npos);
  for (size_t i = 1; i < kThreads; ++i) {
    EXPECT_EQ(Bytes("log" + std::to_string(i)), Bytes("log0"));
    EXPECT_EQ(Bytes("log" + std::to_string(i) + ".state"), Bytes("log0.state"));
  }
}

// Who comes while another writes is refused; who comes after it finds the story folded.
TEST_F(LogThreadsTest, OneAtATimeWritesTheSame) {
  std::atomic<int> written = 0;
  InThreads([&](size_t) { written += FoldToTheEnd("log") ? 1 : 0; });
  EXPECT_GE(written, 1);
  ASSERT_TRUE(FoldToTheEnd("alone"));
  EXPECT_EQ(Bytes("log"), Bytes("alone"));
}

// A replay beside the writer sees a beginning of the log: equal decisions, and at most the last
// line cut.
TEST_F(LogThreadsTest, OthersReplayWhatOneWrites) {
  std::atomic<bool> begun = false;
  std::atomic<bool> done = false;
  InThreads([&](size_t i) {
    if (i == 0) {
      EXPECT_TRUE(Open("log").has_value());
      begun = true;
      EXPECT_TRUE(FoldToTheEnd("log"));
      done = true;
      return;
    }
    while (!begun) std::this_thread::yield();
    while (!done) {
      const auto replay = ReplayLog({Path("log")}, contract_, policy_);
      ASSERT_TRUE(replay.has_value()) << replay.error().Format();
      if (!replay->difference) continue;
      EXPECT_NE(replay->difference->message().find("is cut after"), std::string::npos)
          << replay->difference->Format();
    }
  });
  const auto replay = ReplayLog({Path("log")}, contract_, policy_);
  ASSERT_TRUE(replay.has_value());
  EXPECT_FALSE(replay->difference.has_value());
  EXPECT_EQ(replay->decisions, kStory);
}

}  // namespace
}  // namespace kcc
