// For tests: a register and somebody who can write to its file or its server, and random changes
// that such a person makes. How many of them: KCC_REGISTER_MUTATIONS.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"
#include "kcc/register/verify.h"

namespace kcc {

inline int MutationsAsked() {
  const char* asked = std::getenv("KCC_REGISTER_MUTATIONS");
  return asked != nullptr ? std::atoi(asked) : 60;
}

inline std::string HexOf(std::string_view bytes) {
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

}  // namespace kcc
