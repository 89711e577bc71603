#include "kcc/control/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/control/control_test_data.h"
#include "kcc/control/line_log.h"

namespace kcc {
namespace {

using testing::ControlTest;
using ::testing::HasSubstr;

class HistoryTest : public ControlTest {};

TEST_F(HistoryTest, SaysWhyAKernelServedAtATime) {
  const auto live = Open();
  const int64_t start = clock_.NowMs();
  clock_.AdvanceMs(60'000);
  Break(*live);
  const int64_t moved = clock_.NowMs();
  clock_.AdvanceMs(60'000);

  const WhyAnswer before = history_.WhyAt(moved - 1);
  ASSERT_TRUE(before.found);
  EXPECT_THAT(before.text, HasSubstr("fast served"));
  EXPECT_EQ(before.change->at_ms, start);

  const WhyAnswer after = history_.WhyAt(moved + 30'000);
  ASSERT_TRUE(after.found);
  EXPECT_THAT(after.text, HasSubstr("careful served"));
  EXPECT_THAT(after.text, HasSubstr("fast is guarded"));
  EXPECT_THAT(after.text, HasSubstr("clause 'soft-kl'"));
  EXPECT_EQ(after.because.size(), 2u) << "the alarm and the guard";
  EXPECT_EQ(after.change->number, number_);

  EXPECT_FALSE(history_.WhyAt(start - 1).found);
}

TEST_F(HistoryTest, SaysWhoAnsweredARequest) {
  const auto live = Open();
  Fold(*live, false);
  const WhyAnswer known = history_.WhyRequest("r0");
  ASSERT_TRUE(known.found);
  EXPECT_THAT(known.text, HasSubstr("Request r0 was answered by fast"));
  EXPECT_THAT(known.text, HasSubstr("observation 1"));
  const WhyAnswer unknown = history_.WhyRequest("nobody");
  EXPECT_FALSE(unknown.found);
  EXPECT_THAT(unknown.text, HasSubstr("not sampled"));
}

TEST_F(HistoryTest, FindsARequestByTheIdThatItsClientSent) {
  history_.Add(DecidedRequest{"mine~req-1", "fast", 0, 1, "counted", false});
  history_.Add(DecidedRequest{"mine~req-2", "careful", 0, 2, "counted", false});
  EXPECT_EQ(history_.WhyRequest("mine").request->kernel, "careful") << "the latest";
  EXPECT_EQ(history_.WhyRequest("mine~req-1").request->kernel, "fast");
  EXPECT_FALSE(history_.WhyRequest("min").found);
}

TEST_F(HistoryTest, AClientsIdLeadsToItsLatestRequestWhenOlderOnesAreForgotten) {
  const std::string client(40, 'c');
  history_.Add(DecidedRequest{client + "~a", "fast", 0, 1, "counted", false});
  for (size_t i = 0; i + 1 < History::kRequestsMax; ++i) {
    history_.Add(DecidedRequest{"r" + std::to_string(i), "fast", 0, 1, "counted", false});
  }
  history_.Add(DecidedRequest{client + "~b", "careful", 0, 2, "counted", true});
  EXPECT_FALSE(history_.WhyRequest(client + "~a").found);
  EXPECT_EQ(history_.WhyRequest(client).request->id, client + "~b");
  history_.Add(DecidedRequest{client + "~b", "fast", 0, 3, "counted", false});
  EXPECT_EQ(history_.WhyRequest(client).request->number, 3) << "who answered it, after the probe";
  for (size_t i = 0; i < History::kRequestsMax; ++i) {
    history_.Add(DecidedRequest{"s" + std::to_string(i), "fast", 0, 1, "counted", false});
  }
  EXPECT_FALSE(history_.WhyRequest(client).found);
}

TEST_F(HistoryTest, RemembersNoMoreThanItsBound) {
  for (size_t i = 0; i < History::kRequestsMax + 10; ++i) {
    history_.Add(DecidedRequest{"r" + std::to_string(i), "fast", 0, 1, "counted", false});
  }
  EXPECT_FALSE(history_.WhyRequest("r5").found);
  EXPECT_TRUE(history_.WhyRequest("r10").found);
  for (size_t i = 0; i < History::kEntriesMax + 10; ++i) {
    HistoryEntry entry;
    entry.kind = "start";
    history_.Add(entry);
  }
  EXPECT_EQ(history_.Latest(History::kEntriesMax * 2).size(), History::kEntriesMax);
}

TEST_F(HistoryTest, AnEntryComesBackFromItsText) {
  const auto live = Open();
  Break(*live);
  ASSERT_GE(told_.size(), 4u);
  for (const HistoryEntry& entry : told_) {
    JsonWriter json(JsonWriter::Style::kCompact);
    WriteEntry(entry, &json);
    const auto read = ReadEntry(json.Take());
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(*read, entry);
  }
  EXPECT_FALSE(ReadEntry("[]").has_value());
  EXPECT_FALSE(ReadEntry("{}").has_value());
  EXPECT_FALSE(ReadEntry("{\"kind\":").has_value());
}

TEST_F(HistoryTest, LinesAreKeptOverAFileThatHasGrown) {
  LineLog log(Path("events.jsonl"), 100);
  for (int i = 0; i < 20; ++i) log.Write("line " + std::to_string(i) + " of the events");
  EXPECT_EQ(log.errors(), 0u);
  const std::vector<std::string> last = log.ReadLast(3);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last.back(), "line 19 of the events");
  EXPECT_LT(std::filesystem::file_size(Path("events.jsonl")), 200u);
}

TEST_F(HistoryTest, ALineThatCannotBeWrittenIsCountedAndTheNextIsTried) {
  std::filesystem::create_directories(Path("taken"));
  LineLog log(Path("taken"), 100);
  log.Write("x");
  EXPECT_EQ(log.errors(), 1u);
  std::filesystem::remove_all(Path("taken"));
  log.Write("y");
  EXPECT_EQ(log.errors(), 1u);
  EXPECT_EQ(log.ReadLast(5), std::vector<std::string>{"y"});
}

}  // namespace
}  // namespace kcc
