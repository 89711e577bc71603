// Write-ahead log, so that readers and the one writer do not wait for each other. A writer begins
// with BEGIN IMMEDIATE: the lock is taken before the head is read, so that between reading the head
// and writing after it nobody else can write. A killed writer leaves a log whose last commit is
// whole; SQLite drops what follows it.
#include "kcc/register/sqlite_store.h"

#include <array>
#include <filesystem>

#include "kcc/register/sqlite_database.h"

namespace kcc {
namespace {

// From nothing to version 0, and from each version to the next.
constexpr std::array<const char*, 2> kSqliteMigrations = {
    R"(CREATE TABLE kcc_register (version INTEGER NOT NULL);
INSERT INTO kcc_register VALUES (0);
CREATE TABLE kcc_event (
  sequence INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, actor TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE kcc_blob (digest TEXT PRIMARY KEY, bytes BLOB NOT NULL);)",
    R"(CREATE TABLE kcc_entry (
  tab TEXT NOT NULL, id TEXT NOT NULL, subject TEXT NOT NULL,
  added INTEGER NOT NULL, changed INTEGER NOT NULL, PRIMARY KEY (tab, id)) WITHOUT ROWID;
CREATE INDEX kcc_entry_changed ON kcc_entry (tab, changed);
CREATE INDEX kcc_entry_subject ON kcc_entry (tab, subject, changed);
CREATE TRIGGER kcc_event_keeps BEFORE UPDATE ON kcc_event
  BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END;
CREATE TRIGGER kcc_event_stays BEFORE DELETE ON kcc_event
  BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END;)",
};

// A row of SELECT sequence, time_ms, actor, kind, body, digest.
Event EventOf(const SqliteStatement& row) {
  return {.sequence = row.Integer(0),
          .time_ms = row.Integer(1),
          .actor = std::string(row.Text(2)),
          .kind = std::string(row.Text(3)),
          .body = std::string(row.Text(4)),
          .digest = std::string(row.Text(5))};
}

class SqliteStore final : public EventStore {
 public:
  explicit SqliteStore(SqliteDatabase database) : database_(std::move(database)) {}

  const std::string& name() const override { return database_.path(); }

  // A plain BEGIN takes its snapshot with the first read, and no lock that a writer would wait for.
  Result<> Begin(Access access) override {
    return database_.Execute(access == Access::kWrite ? "BEGIN IMMEDIATE" : "BEGIN");
  }
  Result<> Commit() override { return database_.Execute("COMMIT"); }
  void Rollback() noexcept override { database_.RollbackQuietly(); }

  Result<std::optional<int>> ReadVersion() override;
  Result<> WriteVersion(int version) override;
  Result<> RunMigration(int version) override {
    return database_.Execute(kSqliteMigrations[static_cast<size_t>(version)]);
  }

  Result<Head> ReadHead() override;
  Result<> ReadEvents(const EventRange& range, const EventVisitor& visit) override;
  Result<> InsertEvent(const Event& event) override;
  Result<bool> HasBlob(const std::string& digest) override;
  Result<std::optional<std::string>> ReadBlob(const std::string& digest) override;
  Result<> PutBlob(const std::string& digest, std::string_view bytes) override;
  Result<> RemoveBlob(const std::string& digest) override;
  Result<std::vector<BlobInfo>> ListBlobs() override;
  Result<std::optional<EntryState>> FindEntry(const EntryKey& key) override;
  Result<> PutEntry(const EntryKey& key, const EntryState& state) override;
  Result<> ReadEntries(const EntryRange& range, const EntryVisitor& visit) override;
  Result<> ClearEntries() override { return database_.Execute("DELETE FROM kcc_entry"); }

 private:
  SqliteDatabase database_;
};

// An empty file is an empty database to SQLite; one with tables of others must be left alone.
Result<std::optional<int>> SqliteStore::ReadVersion() {
  bool others = false;
  bool ours = false;
  {
    KCC_TRY(SqliteStatement tables,
            database_.Prepare("SELECT name = 'kcc_register' FROM sqlite_schema"));
    while (true) {  // the block ends the reading before the next statement
      KCC_TRY(const bool row, tables.Step());
      if (!row) break;
      (tables.Integer(0) != 0 ? ours : others) = true;
    }
  }
  if (!ours && others) {
    return InvalidError("is not a register: an SQLite database of something else", Place{name()});
  }
  if (!ours) return std::optional<int>();
  KCC_TRY(SqliteStatement version, database_.Prepare("SELECT max(version) FROM kcc_register"));
  KCC_TRY(const bool row, version.Step());
  return std::optional<int>(row ? static_cast<int>(version.Integer(0)) : 0);
}

Result<> SqliteStore::WriteVersion(int version) {
  KCC_TRY(SqliteStatement update, database_.Prepare("UPDATE kcc_register SET version = ?"));
  KCC_TRY_VOID(update.Bind(1, version));
  return update.Run();
}

// There is no table of heads that could differ from the log: the last event is the head.
Result<Head> SqliteStore::ReadHead() {
  KCC_TRY(
      SqliteStatement last,
      database_.Prepare("SELECT sequence, digest FROM kcc_event ORDER BY sequence DESC LIMIT 1"));
  KCC_TRY(const bool row, last.Step());
  if (!row) return Head{};
  return Head{last.Integer(0), std::string(last.Text(1))};
}

// Rows are visited while the statement is open, so a long log needs little memory; the visitor must
// not read events itself (SqliteDatabase::Prepare).
Result<> SqliteStore::ReadEvents(const EventRange& range, const EventVisitor& visit) {
  const std::string sql =
      "SELECT sequence, time_ms, actor, kind, body, digest FROM kcc_event WHERE sequence BETWEEN ? "
      "AND ?" +
      std::string(range.kind.empty() ? "" : " AND kind = ?") + " ORDER BY sequence" +
      (range.newest_first ? " DESC" : "") + " LIMIT ?";
  KCC_TRY(SqliteStatement rows, database_.Prepare(sql));
  KCC_TRY_VOID(rows.Bind(1, range.first));
  KCC_TRY_VOID(rows.Bind(2, range.last));
  if (!range.kind.empty()) KCC_TRY_VOID(rows.Bind(3, std::string_view(range.kind)));
  KCC_TRY_VOID(rows.Bind(range.kind.empty() ? 3 : 4, range.limit));
  while (true) {
    KCC_TRY(const bool row, rows.Step());
    if (!row) return {};
    KCC_TRY_VOID(visit(EventOf(rows)));
  }
}

Result<> SqliteStore::InsertEvent(const Event& event) {
  KCC_TRY(SqliteStatement insert, database_.Prepare("INSERT INTO kcc_event VALUES (?,?,?,?,?,?)"));
  KCC_TRY_VOID(insert.Bind(1, event.sequence));
  KCC_TRY_VOID(insert.Bind(2, event.time_ms));
  KCC_TRY_VOID(insert.Bind(3, std::string_view(event.actor)));
  KCC_TRY_VOID(insert.Bind(4, std::string_view(event.kind)));
  KCC_TRY_VOID(insert.Bind(5, std::string_view(event.body)));
  KCC_TRY_VOID(insert.Bind(6, std::string_view(event.digest)));
  return insert.Run();
}

Result<bool> SqliteStore::HasBlob(const std::string& digest) {
  KCC_TRY(SqliteStatement find, database_.Prepare("SELECT 1 FROM kcc_blob WHERE digest = ?"));
  KCC_TRY_VOID(find.Bind(1, std::string_view(digest)));
  return find.Step();
}

Result<std::optional<std::string>> SqliteStore::ReadBlob(const std::string& digest) {
  KCC_TRY(SqliteStatement find, database_.Prepare("SELECT bytes FROM kcc_blob WHERE digest = ?"));
  KCC_TRY_VOID(find.Bind(1, std::string_view(digest)));
  KCC_TRY(const bool row, find.Step());
  if (!row) return std::optional<std::string>();
  return std::optional<std::string>(find.Text(0));
}

// The same digest is the same bytes: what is there stays. If it was damaged, verify says so;
// writing over it here would hide that.
Result<> SqliteStore::PutBlob(const std::string& digest, std::string_view bytes) {
  KCC_TRY(SqliteStatement insert,
          database_.Prepare("INSERT INTO kcc_blob VALUES (?,?) ON CONFLICT DO NOTHING"));
  KCC_TRY_VOID(insert.Bind(1, std::string_view(digest)));
  KCC_TRY_VOID(insert.BindBytes(2, bytes));
  return insert.Run();
}

Result<> SqliteStore::RemoveBlob(const std::string& digest) {
  KCC_TRY(SqliteStatement remove, database_.Prepare("DELETE FROM kcc_blob WHERE digest = ?"));
  KCC_TRY_VOID(remove.Bind(1, std::string_view(digest)));
  return remove.Run();
}

Result<std::vector<BlobInfo>> SqliteStore::ListBlobs() {
  KCC_TRY(SqliteStatement rows,
          database_.Prepare("SELECT digest, length(bytes) FROM kcc_blob ORDER BY digest"));
  std::vector<BlobInfo> blobs;
  while (true) {
    KCC_TRY(const bool row, rows.Step());
    if (!row) return blobs;
    blobs.push_back({std::string(rows.Text(0)), rows.Integer(1)});
  }
}

Result<std::optional<EntryState>> SqliteStore::FindEntry(const EntryKey& key) {
  KCC_TRY(
      SqliteStatement find,
      database_.Prepare("SELECT subject, added, changed FROM kcc_entry WHERE tab = ? AND id = ?"));
  KCC_TRY_VOID(find.Bind(1, Name(key.table)));
  KCC_TRY_VOID(find.Bind(2, std::string_view(key.id)));
  KCC_TRY(const bool row, find.Step());
  if (!row) return std::optional<EntryState>();
  return std::optional<EntryState>({std::string(find.Text(0)), find.Integer(1), find.Integer(2)});
}

Result<> SqliteStore::PutEntry(const EntryKey& key, const EntryState& state) {
  KCC_TRY(SqliteStatement put,
          database_.Prepare("INSERT OR REPLACE INTO kcc_entry VALUES (?,?,?,?,?)"));
  KCC_TRY_VOID(put.Bind(1, Name(key.table)));
  KCC_TRY_VOID(put.Bind(2, std::string_view(key.id)));
  KCC_TRY_VOID(put.Bind(3, std::string_view(state.subject)));
  KCC_TRY_VOID(put.Bind(4, state.added));
  KCC_TRY_VOID(put.Bind(5, state.changed));
  return put.Run();
}

// The conditions are part of the text, so that each combination gets its own plan and index; values
// are bound. A prefix is compared as text: LIKE would take "%" in an id for a pattern.
Result<> SqliteStore::ReadEntries(const EntryRange& range, const EntryVisitor& visit) {
  std::string sql = "SELECT tab, id, subject, added, changed FROM kcc_entry WHERE 1=1";
  if (range.table) sql += " AND tab = ?1";
  if (!range.subject.empty()) sql += " AND subject = ?2";
  if (!range.id_prefix.empty()) sql += " AND substr(id, 1, length(?3)) = ?3";
  sql += " ORDER BY changed DESC LIMIT ?4";
  KCC_TRY(SqliteStatement rows, database_.Prepare(sql));
  if (range.table) KCC_TRY_VOID(rows.Bind(1, Name(*range.table)));
  if (!range.subject.empty()) KCC_TRY_VOID(rows.Bind(2, std::string_view(range.subject)));
  if (!range.id_prefix.empty()) KCC_TRY_VOID(rows.Bind(3, std::string_view(range.id_prefix)));
  KCC_TRY_VOID(rows.Bind(4, range.limit));
  while (true) {
    KCC_TRY(const bool row, rows.Step());
    if (!row) return {};
    const EntryTable* table = FindTable(rows.Text(0));
    if (table == nullptr) {
      return BrokenEvidenceError("the table of entries names '" + std::string(rows.Text(0)) +
                                     "', which is none; make it anew with `kcc register rebuild`",
                                 Place{name()});
    }
    KCC_TRY_VOID(visit({{*table, std::string(rows.Text(1))},
                        {std::string(rows.Text(2)), rows.Integer(3), rows.Integer(4)}}));
  }
}

}  // namespace

Result<std::unique_ptr<EventStore>> OpenSqliteStore(const std::string& path, bool create) {
  std::error_code failed;
  const bool fresh =
      !std::filesystem::exists(path, failed) || std::filesystem::file_size(path, failed) == 0;
  KCC_TRY(SqliteDatabase database, SqliteDatabase::Open(path, create));
  // A property of the file, which keeps it. Not of a file that is there: it may be another's.
  if (fresh) KCC_TRY_VOID(database.Execute("PRAGMA journal_mode=WAL"));
  return std::unique_ptr<EventStore>(std::make_unique<SqliteStore>(std::move(database)));
}

}  // namespace kcc
