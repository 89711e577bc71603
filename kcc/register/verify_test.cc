// Changes behind the register's back, each of which verify must name. How many of the random ones:
// KCC_REGISTER_MUTATIONS.
#include "kcc/register/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/register/verify_test_data.h"

namespace kcc {
namespace {

using testing::HasSubstr;

TEST_P(MutationTest, EveryChangeIsNamed) {
  const int mutations = MutationsAsked();
  Register target = Filled();
  const std::vector<Event> log = LogOf(target);
  const RegisterState state = FoldOf(log);
  ASSERT_TRUE(Checked(target).ok());
  MutationDraw draw(20261118);
  for (int i = 0; i < mutations; ++i) {
    const Mutation mutation =
        draw.Below(2) == 0 ? OfEvent(draw, log) : OfTheRest(draw, target, state);
    Run(mutation.sql);
    const RegisterCheck check = Checked(target);
    ASSERT_FALSE(check.ok()) << mutation.what << ": " << mutation.sql;
    EXPECT_EQ(check.first_break->place, mutation.place) << check.first_break->what;
    if (mutation.sequence > 0) {
      EXPECT_EQ(check.first_break->sequence, mutation.sequence) << check.first_break->what;
    }
    if (!mutation.id.empty()) {
      EXPECT_EQ(check.first_break->id, mutation.id);
    }
    Restore();
  }
  EXPECT_TRUE(Checked(target).ok());
}

TEST_P(VerifyTest, EventsCutOffAreFoundWithAKeptHead) {
  Register target = Create();
  const Story story;
  ASSERT_TRUE(target.Append(story.Begin(), {}).has_value());
  ASSERT_TRUE(target.Append(story.Evaluation("violated", "r"), *target.ReadHead()).has_value());
  const Head kept = *target.ReadHead();
  Unguard();
  Run("DELETE FROM kcc_event WHERE sequence = 6");
  EXPECT_EQ(Checked(target).first_break->place, BreakPlace::kEntry);  // the table still knows it
  // With the table made anew to fit, no trace is left inside.
  ASSERT_TRUE(target.Rebuild().has_value());
  const RegisterCheck without = Checked(target);
  EXPECT_TRUE(without.ok());
  EXPECT_THAT(without.unseen[0], HasSubstr("events cut off at the end"));
  const RegisterCheck check = Checked(target, {.kept = kept});
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.first_break->place, BreakPlace::kHead);
  EXPECT_THAT(check.first_break->what, HasSubstr("events were cut off"));
}

// All digests recomputed from event 50 on: consistent in itself, and not what was kept.
TEST_P(VerifyTest, ALogWrittenAnewIsFoundWithAKeptHead) {
  Register target = Filled();
  std::vector<Event> log = LogOf(target);
  const Head kept{60, log[59].digest};
  Head head{49, log[48].digest};
  for (size_t i = 49; i < log.size(); ++i) {
    if (i == 49) log[i].actor = "mallory";
    log[i].digest = EventDigest(head.digest, log[i]);
    head = {log[i].sequence, log[i].digest};
    Run("UPDATE kcc_event SET actor = " + TextOf(log[i].actor) + ", digest = " +
        TextOf(log[i].digest) + " WHERE sequence = " + std::to_string(log[i].sequence));
  }
  EXPECT_TRUE(Checked(target).ok());
  const RegisterCheck check = Checked(target, {.kept = kept});
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.first_break->place, BreakPlace::kHead);
  EXPECT_EQ(check.first_break->sequence, 60);
  // A head from before the change cannot know of it.
  EXPECT_TRUE(Checked(target, {.kept = Head{30, log[29].digest}}).ok());
}

TEST_P(VerifyTest, AKeptHeadOfASoundLogIsFound) {
  Register target = Filled();
  const std::vector<Event> log = LogOf(target);
  for (const size_t at : {size_t{0}, size_t{50}, log.size() - 1}) {
    const Head kept{log[at].sequence, log[at].digest};
    EXPECT_TRUE(Checked(target, {.kept = kept}).ok());
  }
  EXPECT_TRUE(Checked(target, {.kept = Head{}}).ok());
}

TEST_P(VerifyTest, BytesThatEventsRemovedMustBeGone) {
  Register target = Create();
  const Story story;
  ASSERT_TRUE(target.Append(story.Begin(), {}).has_value());
  ASSERT_TRUE(target.Append(story.Evaluation("satisfied", "r"), *target.ReadHead()).has_value());
  const auto removal =
      EventOf("blob.removed", BodyOf({{"blob", BlobDigest("r")}, {"why", "redaction"}}));
  ASSERT_TRUE(target.Append({{removal}, {}}, *target.ReadHead()).has_value());
  ASSERT_TRUE(target.PutBlob("r").has_value());
  const RegisterCheck check = Checked(target);
  ASSERT_FALSE(check.ok());
  EXPECT_THAT(check.first_break->what, HasSubstr("is stored, although event 7 removed it"));
}

TEST_P(VerifyTest, SaysWhereTimeGoesBack) {
  Register target = Create();
  const auto at = [](int64_t time_ms, const char* id) {
    return EventOf("model.added", BodyOf({{"model", id}}), time_ms);
  };
  ASSERT_TRUE(
      target.Append({{at(5, "a"), at(7, "b"), at(6, "c"), at(1, "d")}, {}}, {}).has_value());
  EXPECT_EQ(Checked(target).time_goes_back, 3);
  EXPECT_TRUE(Checked(target).ok());
}

TEST_P(VerifyTest, TheStoreRefusesToChangeEvents) {
  Register target = Create();
  ASSERT_TRUE(target.Append(Story().Begin(), {}).has_value());
  if (GetParam() == Backend::kSqlite) {
    sqlite3* database = nullptr;
    sqlite3_open(uri_.c_str(), &database);
    EXPECT_EQ(sqlite3_exec(database, "DELETE FROM kcc_event", nullptr, nullptr, nullptr),
              SQLITE_CONSTRAINT);
    EXPECT_EQ(sqlite3_exec(database, "UPDATE kcc_event SET actor='x'", nullptr, nullptr, nullptr),
              SQLITE_CONSTRAINT);
    sqlite3_close(database);
  }
  EXPECT_EQ(LogOf(target).size(), 5u);
}

const auto kBoth = testing::Values(Backend::kSqlite, Backend::kPostgres);
INSTANTIATE_TEST_SUITE_P(On, VerifyTest, kBoth, BackendName);
INSTANTIATE_TEST_SUITE_P(On, MutationTest, kBoth, BackendName);

}  // namespace
}  // namespace kcc
