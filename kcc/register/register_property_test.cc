// For random events the store's table is the fold of the log, after every way of reading it. How
// many: KCC_REGISTER_EVENTS (SQLite) and a tenth of it (PostgreSQL).
#include <gtest/gtest.h>

#include <cstdlib>

#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"
#include "kcc/register/verify.h"

namespace kcc {
namespace {

class RegisterProperty : public OnEachBackend {};

int64_t EventsOf(Backend backend) {
  const char* asked = std::getenv("KCC_REGISTER_EVENTS");
  const int64_t events = asked != nullptr ? std::atoll(asked) : 4000;
  return backend == Backend::kSqlite ? events : events / 10;
}

TEST_P(RegisterProperty, TheTableIsTheFoldOfTheLog) {
  const int64_t wanted = EventsOf(GetParam());
  constexpr uint64_t kSeed = 20261118;
  RandomLog random(kSeed);
  Register target = Create();
  RegisterState expected;
  EventReader reader;
  Head head;
  int64_t refused = 0;
  for (int64_t checks = 1; checks <= 5; ++checks) {
    while (head.sequence < wanted * checks / 5) {
      const RandomLog::Draw draw = random.Next(12);
      const auto appended = target.Append(draw.batch, head);
      ASSERT_EQ(appended.has_value(), draw.valid)
          << (draw.valid ? appended.error().Format() : draw.batch.events[0].kind);
      if (!draw.valid) {
        ++refused;
        continue;
      }
      ASSERT_FALSE(appended->head_moved);
      // The fold of what was handed in, without looking at the store.
      for (const NewEvent& event : draw.batch.events) {
        const Event sealed = *SealEvent(head, event);
        ASSERT_TRUE(expected.Apply(sealed, *reader.Read(sealed)).has_value());
        head = {sealed.sequence, sealed.digest};
      }
      ASSERT_EQ(appended->head, head);
    }
    ASSERT_TRUE(StoredState(target).entries == expected.entries) << "at " << head.sequence;
    ASSERT_TRUE(FoldOf(LogOf(target)).entries == expected.entries);
    ASSERT_TRUE(target.Rebuild().has_value());
    ASSERT_TRUE(StoredState(target).entries == expected.entries) << "rebuilt at " << head.sequence;
  }
  EXPECT_GT(refused, 0);
  const auto check = Verify(target, {.kept = head});
  ASSERT_TRUE(check.has_value());
  EXPECT_TRUE(check->ok()) << check->first_break->what;
  EXPECT_EQ(check->events, head.sequence);
  EXPECT_GT(check->blobs_removed, 0);
}

INSTANTIATE_TEST_SUITE_P(On, RegisterProperty,
                         testing::Values(Backend::kSqlite, Backend::kPostgres), BackendName);

}  // namespace
}  // namespace kcc
