// A log of several files: it decides, restarts and is replayed as one of one file.
#include "kcc/monitorlog/log_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <random>

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

class LogFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("files_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    policy_.audit.session_filter_bits = 8 << 10;  // so that a state is small
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  SessionOptions Options(int64_t bytes = 60'000, size_t files = 0) const {
    SessionOptions options;
    options.log = Path("d.jsonl");
    options.state = Path("d.state");
    options.kcc_version = "test";
    options.save_every = 97;
    options.log_bytes_max = bytes;
    options.log_files_max = files;
    return options;
  }
  Result<MonitorSession> Open(const SessionOptions& options) {
    return MonitorSession::Open(contract_, policy_, options);
  }
  // Fine, then bad until it is guarded, then fine probes.
  static void Fold(MonitorSession& session, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      MonitorObservation observation = GoodOrBad(i, i >= 300 && i < 420 && i % 2 == 0);
      observation.probe = i >= 420;
      const auto decision = session.Observe(observation);
      ASSERT_TRUE(decision.has_value()) << decision.error().Format();
      ASSERT_EQ(decision->number, i + 1);
    }
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files = SetAsideFiles(Path("d.jsonl"));
    files.push_back(Path("d.jsonl"));
    return files;
  }
  // Decisions alone: what a log of one file holds after its first line, but for the chain.
  std::string Decisions(const std::vector<std::string>& files) const {
    std::string all;
    for (const std::string& file : files) {
      const std::string bytes = *ReadFile(file, 1 << 26);
      for (size_t at = bytes.find('\n') + 1; at < bytes.size();) {
        const size_t end = bytes.find('\n', at);
        const size_t number = bytes.find(",\"number\"", at);
        all += bytes.substr(number, end + 1 - number);
        at = end + 1;
      }
    }
    return all;
  }
  LogReplay Replay(const std::vector<std::string>& files) const {
    auto replay = ReplayLog(files, contract_, policy_);
    EXPECT_TRUE(replay.has_value()) << replay.error().Format();
    return std::move(*replay);
  }

  Contract contract_ = MonitorContract({SoftKl()});
  MonitorPolicy policy_ = TestPolicy();
  std::filesystem::path directory_;
};

constexpr int64_t kStory = 1200;

TEST_F(LogFilesTest, ALogOfSeveralFilesDecidesAsOneOfOne) {
  SessionOptions one = Options(0);
  one.log = Path("one.jsonl");
  one.state.clear();
  {
    auto session = Open(one);
    ASSERT_TRUE(session.has_value());
    Fold(*session, 0, kStory);
  }
  std::string state;
  {
    auto session = Open(Options());
    ASSERT_TRUE(session.has_value()) << session.error().Format();
    Fold(*session, 0, kStory);
    state = session->monitor().Save();
    ASSERT_TRUE(session->Close().has_value());
  }
  ASSERT_GT(Files().size(), 4u);
  EXPECT_EQ(Decisions(Files()), Decisions({one.log}));
  const LogReplay all = Replay(Files());
  EXPECT_FALSE(all.difference) << all.difference->Format();
  EXPECT_EQ(all.decisions, kStory);
  EXPECT_EQ(all.believed, 0);
  // Each by itself, from the state in its first line.
  int64_t before = 0;
  for (const std::string& file : Files()) {
    const LogReplay alone = Replay({file});
    EXPECT_FALSE(alone.difference) << alone.difference->Format();
    EXPECT_EQ(alone.believed, before);
    before += alone.decisions;
  }
  EXPECT_EQ(before, kStory);
  // The newest is enough to go on, with the state and without it.
  for (const bool with_state : {true, false}) {
    if (!with_state) std::filesystem::remove(Path("d.state"));
    for (const std::string& file : SetAsideFiles(Path("d.jsonl"))) std::filesystem::remove(file);
    auto again = Open(Options());
    ASSERT_TRUE(again.has_value()) << again.error().Format();
    EXPECT_EQ(again->resumed(), kStory);
    EXPECT_EQ(again->monitor().Save(), state);
  }
}

TEST_F(LogFilesTest, ARestartAnywhereGivesTheSameFiles) {
  {
    auto session = Open(Options());
    Fold(*session, 0, kStory);
  }
  const std::string whole = Decisions(Files());
  std::mt19937_64 random(23);
  for (int run = 0; run < 4; ++run) {
    for (const std::string& file : Files()) std::filesystem::remove(file);
    std::filesystem::remove(Path("d.state"));
    for (int64_t at = 0; at < kStory;) {
      auto session = Open(Options());
      ASSERT_TRUE(session.has_value()) << session.error().Format();
      ASSERT_EQ(session->resumed(), at);
      const int64_t next = std::min<int64_t>(kStory, at + 1 + static_cast<int64_t>(random() % 200));
      Fold(*session, at, next);
      at = next;
      ASSERT_TRUE(random() % 2 == 0 || session->Close().has_value());
      if (random() % 4 == 0) std::filesystem::remove(Path("d.state"));
    }
    EXPECT_EQ(Decisions(Files()), whole) << "run " << run;
    const LogReplay replay = Replay(Files());
    EXPECT_FALSE(replay.difference) << replay.difference->Format();
  }
}

TEST_F(LogFilesTest, TheNewestFilesAreKeptAndReplayedFromWhereTheyBegin) {
  {
    auto session = Open(Options(60'000, 2));
    Fold(*session, 0, kStory);
  }
  EXPECT_EQ(SetAsideFiles(Path("d.jsonl")).size(), 2u);
  const LogReplay replay = Replay(Files());
  EXPECT_FALSE(replay.difference) << replay.difference->Format();
  EXPECT_GT(replay.believed, 0);
  EXPECT_EQ(replay.believed + replay.decisions, kStory);
}

TEST_F(LogFilesTest, FilesThatDoNotFollowOneAnotherAreNamed) {
  {
    auto session = Open(Options());
    Fold(*session, 0, kStory);
  }
  const std::vector<std::string> files = Files();
  ASSERT_GT(files.size(), 3u);
  const auto difference = [&](const std::vector<std::string>& given) {
    const LogReplay replay = Replay(given);
    EXPECT_TRUE(replay.difference.has_value());
    return replay.difference ? replay.difference->Format() : std::string();
  };
  EXPECT_NE(difference({files[0], files[2]}).find("it goes on after decision"), std::string::npos);
  EXPECT_NE(difference({files[1], files[0]}).find("a log begins here"), std::string::npos);
  // The state in between, changed: the file's own lines decide by it.
  std::string bytes = *ReadFile(files[1], 1 << 26);
  const size_t at = bytes.find("\"state\":\"") + 60;
  bytes[at] = bytes[at] == 'A' ? 'B' : 'A';
  ASSERT_TRUE(WriteScratchFile(Path("changed"), bytes).has_value());
  EXPECT_NE(difference({files[0], Path("changed")}).find("the state that it goes on from"),
            std::string::npos);
  EXPECT_NE(difference({Path("changed")}).find("digest"), std::string::npos);
}

// What is left behind where the process was killed between two steps.
TEST_F(LogFilesTest, HalfASetAsideIsUndone) {
  {
    auto session = Open(Options(0));
    Fold(*session, 0, 40);
  }
  const std::string log = Path("d.jsonl");
  std::filesystem::create_hard_link(log, SetAsideName(log, 40));
  ASSERT_TRUE(WriteScratchFile(log + ".next", "{\"kccMonitorLog\":1,\"con").has_value());
  auto session = Open(Options(0));
  ASSERT_TRUE(session.has_value()) << session.error().Format();
  EXPECT_TRUE(SetAsideFiles(log).empty());
  EXPECT_FALSE(std::filesystem::exists(log + ".next"));
  Fold(*session, 40, 60);
  EXPECT_EQ(Replay({log}).decisions, 60);
}

// A file that was set aside under the same number, by a log that began anew, is left alone.
TEST_F(LogFilesTest, NoFileIsWrittenOver) {
  const std::string taken = SetAsideName(Path("d.jsonl"), 5);
  ASSERT_TRUE(WriteScratchFile(taken, "mine").has_value());
  auto session = Open(Options(1));
  ASSERT_TRUE(session.has_value());
  Fold(*session, 0, 8);
  EXPECT_EQ(*ReadFile(taken, 100), "mine");
  EXPECT_TRUE(std::filesystem::exists(Path("d-000000000005-2.jsonl")));
  EXPECT_EQ(SetAsideFiles(Path("d.jsonl")).size(), 9u);
}

TEST_F(LogFilesTest, WhereNoNewFileCanBeMadeTheOldOneGoesOn) {
  const std::string log = Path("d.jsonl");
  std::filesystem::create_directories(log + ".next/x");  // cannot be unlinked, nor opened
  {
    auto session = Open(Options(5000));
    ASSERT_TRUE(session.has_value()) << session.error().Format();
    Fold(*session, 0, 40);
    EXPECT_NE(session->file_fault().find("cannot begin a new file"), std::string::npos);
    EXPECT_TRUE(SetAsideFiles(log).empty());
    std::filesystem::remove_all(log + ".next");
    Fold(*session, 40, 80);
    EXPECT_EQ(session->file_fault(), "");
  }
  EXPECT_FALSE(SetAsideFiles(log).empty());
  EXPECT_EQ(Replay(Files()).decisions, 80);
}

TEST_F(LogFilesTest, ALogGoesOnFromWhatAnotherRecorded) {
  LogBefore before;
  std::string later;
  {
    auto session = Open(Options());
    Fold(*session, 0, 400);
    before = {session->head(), session->observations(), session->monitor().Save()};
    Fold(*session, 400, 700);
    later = session->monitor().Save();
  }
  SessionOptions other = Options(0);
  other.log = Path("other.jsonl");
  other.state = Path("other.state");
  {
    auto mine = Open(other);  // decisions of its own, which are set aside
    Fold(*mine, 0, 30);
    EXPECT_NE(MonitorSession::BeginFrom(contract_, policy_, other, before)
                  .error()
                  .message()
                  .find("another monitor"),
              std::string::npos);
    ASSERT_TRUE(mine->Close().has_value());
  }
  ASSERT_TRUE(MonitorSession::BeginFrom(contract_, policy_, other, before).has_value());
  auto session = Open(other);
  ASSERT_TRUE(session.has_value()) << session.error().Format();
  EXPECT_EQ(session->resumed(), 400);
  Fold(*session, 400, 700);
  EXPECT_EQ(session->monitor().Save(), later);
  EXPECT_TRUE(std::filesystem::exists(Path("other-000000000030.jsonl")));
  const LogReplay replay = Replay({other.log});
  EXPECT_FALSE(replay.difference) << replay.difference->Format();
  EXPECT_EQ(replay.believed, 400);
}

TEST_F(LogFilesTest, AForeignStateBeginsNothing) {
  auto session = Open(Options());
  Fold(*session, 0, 10);
  ASSERT_TRUE(session->Close().has_value());
  LogBefore before{session->head(), 10, session->monitor().Save()};
  before.state[before.state.size() / 2] ^= 1;
  { const MonitorSession gone = std::move(*session); }
  EXPECT_FALSE(MonitorSession::BeginFrom(contract_, policy_, Options(), before).has_value());
  EXPECT_EQ(Open(Options())->resumed(), 10);
}

}  // namespace
}  // namespace kcc
