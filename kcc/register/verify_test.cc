// Changes behind the register's back, each of which verify must name. How many of the random ones:
// KCC_REGISTER_MUTATIONS.
#include "kcc/register/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>

#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"

namespace kcc {
namespace {

using testing::HasSubstr;

std::string HexOf(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

class VerifyTest : public OnEachBackend {
 protected:
  // SQL as somebody with access to the file or the server would run it.
  void Run(const std::string& sql) {
    if (GetParam() == Backend::kPostgres) {
      PGconn* connection = PQconnectdb(uri_.c_str());
      PGresult* done = PQexec(connection, sql.c_str());
      EXPECT_EQ(PQresultStatus(done), PGRES_COMMAND_OK) << sql << PQerrorMessage(connection);
      PQclear(done);
      PQfinish(connection);
      return;
    }
    sqlite3* database = nullptr;
    sqlite3_open(uri_.c_str(), &database);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sql << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  std::string TextOf(std::string_view text) const {
    return GetParam() == Backend::kPostgres
               ? "convert_from(decode('" + HexOf(text) + "','hex'),'UTF8')"
               : "CAST(x'" + HexOf(text) + "' AS TEXT)";
  }
  std::string BytesOf(std::string_view bytes) const {
    return GetParam() == Backend::kPostgres ? "decode('" + HexOf(bytes) + "','hex')"
                                            : "x'" + HexOf(bytes) + "'";
  }

  // Takes the store's own guard against changes off.
  void Unguard() {
    Run(GetParam() == Backend::kPostgres
            ? "DROP TRIGGER kcc_event_keeps ON kcc_event"
            : "DROP TRIGGER kcc_event_keeps; DROP TRIGGER kcc_event_stays");
  }

  // A register with a hundred events or so, unguarded.
  Register Filled() {
    Register target = Create();
    RandomLog random(7);
    while (target.ReadHead()->sequence < 100) {
      const RandomLog::Draw draw = random.Next(10);
      EXPECT_EQ(target.Append(draw.batch, *target.ReadHead()).has_value(), draw.valid);
    }
    Unguard();
    for (const char* table : {"event", "blob", "entry"}) {
      const std::string name(table);
      Run("CREATE TABLE saved_" + name + " AS SELECT * FROM kcc_" + name);
    }
    return target;
  }
  void Restore() {
    std::string sql = "BEGIN;";
    for (const char* table : {"event", "blob", "entry"}) {
      const std::string name(table);
      sql += "DELETE FROM kcc_" + name + ";INSERT INTO kcc_" + name + " SELECT * FROM saved_" +
             name + ";";
    }
    Run(sql + "COMMIT");
  }

  static RegisterCheck Checked(Register& target, const RegisterVerifyOptions& options = {}) {
    const auto check = Verify(target, options);
    EXPECT_TRUE(check.has_value()) << check.error().Format();
    return check.has_value() ? *check : RegisterCheck{};
  }
};

// What was done, and what verify must name.
struct Mutation {
  std::string what;
  std::string sql;
  BreakPlace place = BreakPlace::kEvent;
  int64_t sequence = 0;  // 0: any
  std::string id;        // empty: any
};

class MutationDraw {
 public:
  explicit MutationDraw(uint64_t seed) : random_(seed) {}
  size_t Below(size_t limit) { return static_cast<size_t>(random_() % limit); }
  // One byte replaced by another one; printable, so that PostgreSQL takes it as text.
  std::string OtherText(std::string text) {
    size_t at = Below(text.size());
    while (static_cast<unsigned char>(text[at]) >= 0x80) at = Below(text.size());
    char other = text[at];
    while (other == text[at]) other = static_cast<char>('0' + Below(70));
    text[at] = other;
    return text;
  }
  std::string OtherBytes(std::string bytes) {
    char& byte = bytes[Below(bytes.size())];
    byte = static_cast<char>(byte ^ (1 << Below(8)));
    return bytes;
  }

 private:
  std::mt19937_64 random_;
};

class MutationTest : public VerifyTest {
 protected:
  Mutation OfEvent(MutationDraw& draw, const std::vector<Event>& log) {
    const Event& event = log[draw.Below(log.size())];
    const std::string where = " WHERE sequence = " + std::to_string(event.sequence);
    const auto set = [&](const char* column, const std::string& value) {
      return Mutation{std::string("changed ") + column,
                      std::string("UPDATE kcc_event SET ") + column + " = " + value + where,
                      BreakPlace::kEvent, event.sequence, ""};
    };
    switch (draw.Below(7)) {
      case 0:
        return set("actor", TextOf(draw.OtherText(event.actor)));
      case 1:
        return set("kind", TextOf(draw.OtherText(event.kind)));
      case 2:
        return set("digest", TextOf(draw.OtherText(event.digest)));
      case 3:
        return set("time_ms", "time_ms + 1");
      case 4: {  // the last one is another test's: CutsOff
        const int64_t at = 1 + static_cast<int64_t>(draw.Below(log.size() - 1));
        return {"removed", "DELETE FROM kcc_event WHERE sequence = " + std::to_string(at),
                BreakPlace::kEvent, at, ""};
      }
      case 5: {
        const int64_t at = 1 + static_cast<int64_t>(draw.Below(log.size() - 1));
        const std::string one = std::to_string(at);
        const std::string next = std::to_string(at + 1);
        return {"reordered",
                "UPDATE kcc_event SET sequence = -1 WHERE sequence = " + one +
                    "; UPDATE kcc_event SET sequence = " + one + " WHERE sequence = " + next +
                    "; UPDATE kcc_event SET sequence = " + next + " WHERE sequence = -1",
                BreakPlace::kEvent, at, ""};
      }
      default:
        return set("body", TextOf(draw.OtherText(event.body)));
    }
  }

  Mutation OfTheRest(MutationDraw& draw, Register& target, const RegisterState& state) {
    if (draw.Below(3) == 0) {
      auto entry = state.entries.begin();
      std::advance(entry, static_cast<std::ptrdiff_t>(draw.Below(state.entries.size())));
      const std::string where = " WHERE tab = " + TextOf(Name(entry->first.table)) +
                                " AND id = " + TextOf(entry->first.id);
      const std::array changes = {"UPDATE kcc_entry SET changed = changed + 1" + where,
                                  "UPDATE kcc_entry SET added = added - 1" + where,
                                  "UPDATE kcc_entry SET subject = 'x'" + where,
                                  "UPDATE kcc_entry SET tab = 'nothing'" + where,
                                  "DELETE FROM kcc_entry" + where,
                                  "UPDATE kcc_entry SET id = 'forged'" + where};
      return {"entry", changes[draw.Below(changes.size())], BreakPlace::kEntry, 0, ""};
    }
    const auto blobs = target.store().ListBlobs();
    const BlobInfo& blob = (*blobs)[draw.Below(blobs->size())];
    const std::string where = " WHERE digest = '" + blob.digest + "'";
    if (draw.Below(4) == 0) {
      return {"lost", "DELETE FROM kcc_blob" + where, BreakPlace::kBlob, 0, blob.digest};
    }
    const std::string bytes = **target.ReadBlob(blob.digest);
    return {"flipped", "UPDATE kcc_blob SET bytes = " + BytesOf(draw.OtherBytes(bytes)) + where,
            BreakPlace::kBlob, 0, blob.digest};
  }
};

TEST_P(MutationTest, EveryChangeIsNamed) {
  const char* asked = std::getenv("KCC_REGISTER_MUTATIONS");
  const int mutations = asked != nullptr ? std::atoi(asked) : 60;
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
  const RegisterCheck check = Checked(target, {.kept = kept, .check_statement = {}});
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
  const RegisterCheck check = Checked(target, {.kept = kept, .check_statement = {}});
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.first_break->place, BreakPlace::kHead);
  EXPECT_EQ(check.first_break->sequence, 60);
  // A head from before the change cannot know of it.
  EXPECT_TRUE(Checked(target, {.kept = Head{30, log[29].digest}, .check_statement = {}}).ok());
}

TEST_P(VerifyTest, AKeptHeadOfASoundLogIsFound) {
  Register target = Filled();
  const std::vector<Event> log = LogOf(target);
  for (const size_t at : {size_t{0}, size_t{50}, log.size() - 1}) {
    const Head kept{log[at].sequence, log[at].digest};
    EXPECT_TRUE(Checked(target, {.kept = kept, .check_statement = {}}).ok());
  }
  EXPECT_TRUE(Checked(target, {.kept = Head{}, .check_statement = {}}).ok());
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

TEST_P(VerifyTest, StatementsAreLookedAtWhereSomebodyCan) {
  Register target = Create();
  const std::string bytes = "{\"payload\":\"\"}";
  ASSERT_TRUE(target
                  .Append({{EventOf("statement.added", BodyOf({{"statement", BlobDigest(bytes)},
                                                               {"about", "evaluation 1"}}))},
                           {bytes}},
                          {})
                  .has_value());
  EXPECT_THAT(Checked(target).unseen.back(), HasSubstr("signatures"));
  std::string seen;
  const auto refuse = [&](const Event&, const std::string& given) -> Result<std::string> {
    seen = given;
    return std::string("the signature does not hold");
  };
  const RegisterCheck check = Checked(target, {.kept = {}, .check_statement = refuse});
  EXPECT_EQ(seen, bytes);
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.first_break->place, BreakPlace::kStatement);
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
