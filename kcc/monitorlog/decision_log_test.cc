#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "kcc/base/file.h"
#include "kcc/base/temporary.h"
#include "kcc/monitor/monitor_test_data.h"
#include "kcc/monitorlog/log_replay.h"
#include "kcc/monitorlog/monitor_session.h"
#include "kcc/monitorlog/saved_state.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::MonitorSlice;
using testing::SoftKl;
using testing::TestPolicy;

class DecisionLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  SessionOptions Options(const std::string& log, const std::string& state = "") const {
    SessionOptions options;
    if (!log.empty()) options.log = Path(log);
    if (!state.empty()) options.state = Path(state);
    options.kcc_version = "test";
    return options;
  }
  std::string Bytes(const std::string& name) const { return *ReadFile(Path(name), 1 << 26); }

  // Fine, then bad until it is guarded, then fine probes.
  static MonitorObservation Story(int64_t i) {
    MonitorObservation observation = GoodOrBad(i, i >= 300 && i < 420 && i % 2 == 0);
    observation.probe = i >= 420;
    return observation;
  }
  // Folds [from, to); true if all went well.
  void Fold(MonitorSession& session, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const auto decision = session.Observe(Story(i));
      ASSERT_TRUE(decision.has_value()) << decision.error().Format();
      ASSERT_EQ(decision->number, i + 1);
    }
  }
  Result<MonitorSession> Open(const SessionOptions& options) {
    return MonitorSession::Open(contract_, policy_, options);
  }
  std::string Whole(int64_t count) {
    auto session = Open(Options("whole"));
    EXPECT_TRUE(session.has_value()) << session.error().Format();
    Fold(*session, 0, count);
    EXPECT_TRUE(session->Close().has_value());
    return Bytes("whole");
  }

  Contract contract_ = MonitorContract({SoftKl()});
  MonitorPolicy policy_ = TestPolicy();
  std::filesystem::path directory_;
};

constexpr int64_t kStory = 1200;

TEST_F(DecisionLogTest, ALogDecidesAgainToTheByte) {
  const std::string bytes = Whole(kStory);
  EXPECT_NE(bytes.find("\"kind\":\"guard\""), std::string::npos);
  const auto replay = ReplayLog({Path("whole")}, contract_, policy_);
  ASSERT_TRUE(replay.has_value());
  EXPECT_FALSE(replay->difference.has_value()) << replay->difference->Format();
  EXPECT_EQ(replay->decisions, kStory);
  EXPECT_TRUE(ReplayLog({Path("whole")}, contract_, policy_, "sha256:0")->difference.has_value());
}

// One record vouches for the slice; a log that did not say so would decide otherwise.
TEST_F(DecisionLogTest, ObservationsOfArraysDecideAgainToTheByte) {
  contract_ = MonitorContract({SoftKl(0.05, {"code"})},
                              {MonitorSlice("all"), MonitorSlice("code", "kind == 'code'")});
  const auto verdict = [](const MonitorSession& session) {
    return session.monitor().Status().kernels[0].pairs[0].verdict;
  };
  {
    auto session = Open(Options("log"));
    ASSERT_TRUE(session.has_value()) << session.error().Format();
    for (int64_t i = 0; i < 200; ++i) {
      MonitorObservation observation = GoodOrBad(i, false);
      observation.train.reset();
      observation.one_record = true;
      observation.infer.fields["kind"] = std::string("code");
      ASSERT_TRUE(session->Observe(observation).has_value());
    }
    EXPECT_EQ(verdict(*session), Verdict::kSatisfied);
  }
  const auto replay = ReplayLog({Path("log")}, contract_, policy_);
  ASSERT_TRUE(replay.has_value());
  EXPECT_FALSE(replay->difference.has_value()) << replay->difference->Format();
  EXPECT_EQ(replay->decisions, 200);
  auto again = Open(Options("log"));
  ASSERT_TRUE(again.has_value()) << again.error().Format();
  EXPECT_EQ(verdict(*again), Verdict::kSatisfied);
}

TEST_F(DecisionLogTest, ARestartAnywhereGivesTheSameLog) {
  const std::string whole = Whole(kStory);
  std::mt19937_64 random(17);
  for (int run = 0; run < 6; ++run) {
    // With a state, and from the log alone.
    const bool with_state = run % 2 == 0;
    const std::string log = "log" + std::to_string(run);
    SessionOptions options = Options(log, with_state ? "state" + std::to_string(run) : "");
    options.save_every = 97;  // so that a state lies behind its log
    int64_t at = 0;
    while (at < kStory) {
      auto session = Open(options);
      ASSERT_TRUE(session.has_value()) << session.error().Format();
      ASSERT_EQ(session->resumed(), at);
      const int64_t next = std::min<int64_t>(kStory, at + 1 + static_cast<int64_t>(random() % 500));
      Fold(*session, at, next);
      at = next;
      const bool killed = random() % 2 == 0;
      ASSERT_TRUE(killed || session->Close().has_value());
    }
    EXPECT_EQ(Bytes(log), whole) << "run " << run;
  }
}

TEST_F(DecisionLogTest, ACutLastLineIsDroppedAndSaid) {
  const std::string whole = Whole(40);
  const size_t first = whole.find('\n') + 1;
  for (const size_t cut : {size_t{3}, first - 1, first + 10, whole.size() - 1, whole.size() - 60}) {
    ASSERT_TRUE(WriteScratchFile(Path("cut"), whole.substr(0, cut)).has_value());
    const auto replay = ReplayLog({Path("cut")}, contract_, policy_);
    ASSERT_TRUE(replay.has_value());
    ASSERT_TRUE(replay->difference.has_value());
    EXPECT_NE(replay->difference->message().find("is cut after"), std::string::npos);
    auto session = Open(Options("cut"));
    ASSERT_TRUE(session.has_value()) << session.error().Format();
    EXPECT_GT(session->dropped_bytes(), 0);
    Fold(*session, session->resumed(), 40);
    EXPECT_EQ(Bytes("cut"), whole) << "cut at " << cut;
  }
}

TEST_F(DecisionLogTest, LinesThatCouldNotBeReadAreLoggedAndDecideAgain) {
  contract_ = MonitorContract({SoftKl(), MonitorClause("events", "event_conformance", 0.9)});
  UnreadLine named;
  named.kernel = "fast";
  named.reason = "unknown key 'audted'; did you mean \"audited\"?";
  named.column = 43;
  named.bytes = 57;
  named.digest = "sha256:" + std::string(64, 'a');
  UnreadLine nobodys;
  nobodys.reason = "not JSON";
  const auto fold = [&](MonitorSession& session, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const auto decision = i % 5 == 2   ? session.ObserveUnread(named)
                            : i % 5 == 4 ? session.ObserveUnread(nobodys)
                                         : session.Observe(Story(i));
      ASSERT_TRUE(decision.has_value()) << decision.error().Format();
      ASSERT_EQ(decision->number, i + 1);
    }
  };
  {
    auto session = Open(Options("whole"));
    ASSERT_TRUE(session.has_value());
    fold(*session, 0, 300);
  }
  const std::string whole = Bytes("whole");
  EXPECT_NE(whole.find(R"("handling":"unread")"), std::string::npos);
  EXPECT_NE(whole.find(R"("kind":"guard")"), std::string::npos) << "the lines are events";
  const auto replay = ReplayLog({Path("whole")}, contract_, policy_);
  ASSERT_TRUE(replay.has_value());
  EXPECT_FALSE(replay->difference.has_value()) << replay->difference->Format();
  EXPECT_EQ(replay->decisions, 300);
  EXPECT_EQ(replay->status->unread, 120);
  // From the log alone and from a state, it goes on as if it was never interrupted.
  for (const char* state : {"", "state"}) {
    const std::string log = std::string("log") + state;
    for (int64_t at = 0; at < 300; at += 60) {
      auto session = Open(Options(log, state));
      ASSERT_TRUE(session.has_value()) << session.error().Format();
      ASSERT_EQ(session->resumed(), at);
      fold(*session, at, at + 60);
      ASSERT_TRUE(session->Close().has_value());
    }
    EXPECT_EQ(Bytes(log), whole) << state;
  }
}

TEST_F(DecisionLogTest, ALineThatStandsForSeveralDecidesAsTheyDo) {
  contract_ = MonitorContract({SoftKl(), MonitorClause("events", "event_conformance", 0.9)});
  UnreadLine lost;
  lost.kernel = "fast";
  lost.reason = "there was no room for its evidence";
  std::vector<MonitorChange> one_by_one, at_once;
  std::string saved;
  {
    auto session = Open(Options("single"));
    for (int64_t i = 0; i < 40; ++i) ASSERT_TRUE(session->Observe(Story(i)).has_value());
    for (int i = 0; i < 60; ++i) {
      const auto decision = session->ObserveUnread(lost);
      ASSERT_TRUE(decision.has_value());
      one_by_one.insert(one_by_one.end(), decision->changes.begin(), decision->changes.end());
    }
    saved = session->monitor().Save();
  }
  lost.lines = 60;
  for (const char* state : {"", "state"}) {
    const std::string log = std::string("together") + state;
    {
      auto session = Open(Options(log, state));
      for (int64_t i = 0; i < 40; ++i) ASSERT_TRUE(session->Observe(Story(i)).has_value());
      const auto decision = session->ObserveUnread(lost);
      ASSERT_TRUE(decision.has_value());
      EXPECT_EQ(decision->number, 100);
      at_once = decision->changes;
      EXPECT_EQ(session->monitor().Save(), saved);
      ASSERT_TRUE(session->Close().has_value());
    }
    const auto again = Open(Options(log, state));
    ASSERT_TRUE(again.has_value()) << again.error().Format();
    EXPECT_EQ(again->resumed(), 41);
    EXPECT_EQ(again->monitor().Save(), saved) << "it goes on as if it was never interrupted";
    const auto replay = ReplayLog({Path(log)}, contract_, policy_);
    EXPECT_FALSE(replay->difference.has_value()) << replay->difference->Format();
    EXPECT_EQ(replay->status->unread, 60);
  }
  EXPECT_FALSE(at_once.empty());
  EXPECT_EQ(at_once, one_by_one);
}

TEST(UnreadLineText, IsReadBackAsItWasWritten) {
  const Error error(ErrorCode::kInvalid, std::string(400, 'x') + "…", Place{"", 0, 7});
  const MonitorPolicy policy = TestPolicy();
  const std::string line = R"({"kernel":"careful","odd":1})";
  const UnreadLine made = UnreadLineOf(line, error, policy);
  EXPECT_EQ(made.kernel, "careful");
  EXPECT_EQ(made.column, 7);
  EXPECT_EQ(made.bytes, static_cast<int64_t>(line.size()));
  EXPECT_EQ(made.reason, std::string(kUnreadReasonBytesMax, 'x') + "…");
  JsonWriter writer(JsonWriter::Style::kCompact);
  WriteUnread(made, &writer);
  const auto read = ReadUnread(writer.Take());
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->kernel, made.kernel);
  EXPECT_EQ(read->reason, made.reason);
  EXPECT_EQ(read->digest, made.digest);
  UnreadLine several;
  several.reason = "lost";
  several.lines = kUnreadLinesMax;
  JsonWriter again(JsonWriter::Style::kCompact);
  WriteUnread(several, &again);
  EXPECT_EQ(ReadUnread(again.Take())->lines, kUnreadLinesMax);
  EXPECT_EQ(ReadUnread(R"({"reason":"lost"})")->lines, 1);
  for (const char* wrong : {"[]", "{}", R"({"reason":"x","bytes":-1})",
                            R"({"reason":"x","lines":1})", R"({"reason":"x","lines":100001})",
                            R"({"reason":"x","lines":-3})", R"({"reason":"x","digest":"sha256:1"})",
                            R"({"reason":"x","column":"7"})", R"({"reason":)"}) {
    EXPECT_FALSE(ReadUnread(wrong).has_value()) << wrong;
  }
}

TEST(UnreadLineText, AKernelIsBelievedWhereTheLineNamesOneOfThePolicyOnce) {
  const Error error = InvalidError("why");
  const MonitorPolicy policy = TestPolicy();
  const auto kernel = [&](std::string_view line) {
    return UnreadLineOf(line, error, policy).kernel;
  };
  EXPECT_EQ(kernel(R"({"time_ms":"x","kernel":"fast"})"), "fast");
  EXPECT_EQ(kernel(R"({"kernel":"faster"})"), "");
  EXPECT_EQ(kernel(R"({"kernel":"fast","kernel":"careful"})"), "");
  EXPECT_EQ(kernel(R"({"kernel":["fast"]})"), "");
  EXPECT_EQ(kernel(R"({"tokens":{"kernel":"fast"}})"), "");
  EXPECT_EQ(kernel(R"(["kernel","fast"])"), "");
  EXPECT_EQ(kernel(R"({"kernel":"fast")"), "");
  EXPECT_EQ(kernel("\xff\xfe"), "");
  const UnreadLine too_long = UnreadLineOf(std::nullopt, error, policy);
  EXPECT_EQ(too_long.bytes, 0);
  EXPECT_TRUE(too_long.digest.empty());
}

TEST_F(DecisionLogTest, AKernelsNewBeginningIsLoggedAndDecidedAgain) {
  const auto renew = [](MonitorSession& session, const std::string& kernel, std::string reason) {
    return session.Renew({kernel, 3000, std::move(reason)});
  };
  {
    auto session = Open(Options("log"));
    ASSERT_TRUE(session.has_value());
    Fold(*session, 0, 100);
    const auto renewed = renew(*session, "fast", "it is another build");
    ASSERT_TRUE(renewed.has_value()) << renewed.error().Format();
    EXPECT_EQ(renewed->number, 101);
    const std::string before = Bytes("log");
    EXPECT_FALSE(renew(*session, "nobody", "why").has_value());
    EXPECT_FALSE(renew(*session, "fast", std::string(301, 'x')).has_value());
    EXPECT_FALSE(renew(*session, "fast", "").has_value());
    EXPECT_EQ(Bytes("log"), before);
  }
  EXPECT_NE(Bytes("log").find(R"("renewed":{"kernel":"fast","time_ms":3000,)"), std::string::npos);
  const auto replay = ReplayLog({Path("log")}, contract_, policy_);
  ASSERT_TRUE(replay.has_value());
  EXPECT_FALSE(replay->difference.has_value()) << replay->difference->Format();
  EXPECT_EQ(replay->status->unread, 0);
  EXPECT_EQ(Open(Options("log"))->resumed(), 101);
}

TEST_F(DecisionLogTest, AChangeOfALogIsNamed) {
  const std::string whole = Whole(60);
  std::vector<std::string> lines;
  for (size_t at = 0; at < whole.size();) {
    const size_t end = whole.find('\n', at);
    lines.push_back(whole.substr(at, end - at + 1));
    at = end + 1;
  }
  const auto difference = [&](const std::vector<std::string>& changed) {
    std::string bytes;
    for (const std::string& line : changed) bytes += line;
    EXPECT_TRUE(WriteScratchFile(Path("changed"), bytes).has_value());
    const auto replay = ReplayLog({Path("changed")}, contract_, policy_);
    EXPECT_TRUE(replay.has_value() && replay->difference.has_value());
    return replay->difference ? replay->difference->Format() : std::string();
  };
  auto value = lines;
  value[20].replace(value[20].find("0.25"), 4, "0.35");
  EXPECT_NE(difference(value).find("changed:22: the chain is broken"), std::string::npos);
  auto gone = lines;
  gone.erase(gone.begin() + 30);
  EXPECT_NE(difference(gone).find("changed:31: the chain is broken"), std::string::npos);
  auto decision = lines;  // the last, which no later line speaks for
  decision.back().replace(decision.back().find("\"serves\":\"fast\""), 15, "\"serves\":\"evil\"");
  EXPECT_NE(difference(decision).find("changed:61:"), std::string::npos);
  auto blank = lines;
  blank[5] = " " + blank[5];
  EXPECT_NE(difference(blank).find("changed:6:"), std::string::npos);
  auto first = lines;
  first[0].replace(first[0].find("full"), 4, "wide");
  EXPECT_NE(difference(first).find("changed:1:"), std::string::npos);
  EXPECT_NE(difference({}).find("the log is empty"), std::string::npos);
}

TEST_F(DecisionLogTest, AnotherFileIsLeftAlone) {
  ASSERT_TRUE(WriteScratchFile(Path("notes"), "my notes").has_value());
  EXPECT_FALSE(Open(Options("notes")).has_value());
  EXPECT_EQ(Bytes("notes"), "my notes");
  ASSERT_TRUE(WriteScratchFile(Path("lines"), "my\nnotes\n").has_value());
  EXPECT_FALSE(Open(Options("lines")).has_value());
  EXPECT_EQ(Bytes("lines"), "my\nnotes\n");
}

TEST_F(DecisionLogTest, ALogBelongsToItsContractAndPolicyAndToOneWriter) {
  auto first = Open(Options("log"));
  ASSERT_TRUE(first.has_value());
  Fold(*first, 0, 5);
  EXPECT_NE(Open(Options("log")).error().message().find("another monitor"), std::string::npos);
  { const MonitorSession gone = std::move(*first); }
  MonitorPolicy other = policy_;
  other.name = "other";
  const auto opened = MonitorSession::Open(contract_, other, Options("log"));
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().message().find("policy"), std::string::npos);
  EXPECT_TRUE(ReplayLog({Path("log")}, contract_, other)->difference.has_value());
}

TEST_F(DecisionLogTest, AStateAndALogThatDoNotFitAreRefused) {
  SessionOptions options = Options("log", "state");
  auto session = Open(options);
  ASSERT_TRUE(session.has_value());
  Fold(*session, 0, 50);
  ASSERT_TRUE(session->Close().has_value());
  { const MonitorSession gone = std::move(*session); }
  EXPECT_FALSE(Open(Options("", "state")).has_value());         // its log is not named
  EXPECT_FALSE(Open(Options("another", "state")).has_value());  // a log without its lines
  std::string bytes = Bytes("state");
  bytes.back() ^= 1;
  ASSERT_TRUE(WriteScratchFile(Path("state"), bytes).has_value());
  const auto broken = Open(options);
  ASSERT_FALSE(broken.has_value());
  EXPECT_NE(broken.error().message().find("cut or changed"), std::string::npos);
  // Without it, the log is enough.
  std::filesystem::remove(Path("state"));
  EXPECT_EQ(Open(options)->resumed(), 50);
}

TEST_F(DecisionLogTest, AnObservationThatIsRefusedIsNotLogged) {
  auto session = Open(Options("log"));
  ASSERT_TRUE(session.has_value());
  Fold(*session, 0, 3);
  const std::string before = Bytes("log");
  MonitorObservation unknown = Story(3);
  unknown.kernel = "nobody";
  EXPECT_EQ(session->Observe(unknown).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(Bytes("log"), before);
  Fold(*session, 3, 6);
}

}  // namespace
}  // namespace kcc
