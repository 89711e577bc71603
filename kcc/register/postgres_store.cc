// A writer takes an advisory lock of the register's schema before it reads the head. Its
// transaction is READ COMMITTED on purpose: the statements after the lock then see what the writer
// before it committed. Readers take one snapshot, REPEATABLE READ.
#include "kcc/register/postgres_store.h"

#include <algorithm>
#include <array>

#include "kcc/register/postgres_connection.h"

namespace kcc {
namespace {

constexpr int64_t kPageRows = 1000;

// From nothing to version 0, and from each version to the next. Ids sort by their bytes.
constexpr std::array<const char*, 2> kPostgresMigrations = {
    R"(CREATE TABLE kcc_register (version BIGINT NOT NULL);
INSERT INTO kcc_register VALUES (0);
CREATE TABLE kcc_event (
  sequence BIGINT PRIMARY KEY, time_ms BIGINT NOT NULL, actor TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE kcc_blob (digest TEXT COLLATE "C" PRIMARY KEY, bytes BYTEA NOT NULL);)",
    R"(CREATE TABLE kcc_entry (
  tab TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, subject TEXT COLLATE "C" NOT NULL,
  added BIGINT NOT NULL, changed BIGINT NOT NULL, PRIMARY KEY (tab, id));
CREATE INDEX kcc_entry_all ON kcc_entry (changed, tab, id);
CREATE INDEX kcc_entry_changed ON kcc_entry (tab, changed);
CREATE INDEX kcc_entry_subject ON kcc_entry (tab, subject, changed);
CREATE FUNCTION kcc_event_refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'events are only ever added'; END $$;
CREATE TRIGGER kcc_event_keeps BEFORE UPDATE OR DELETE OR TRUNCATE ON kcc_event
  FOR EACH STATEMENT EXECUTE FUNCTION kcc_event_refuse();)",
};

class PostgresStore final : public EventStore {
 public:
  explicit PostgresStore(PostgresConnection connection) : connection_(std::move(connection)) {}

  const std::string& name() const override { return connection_.name(); }

  Result<> Begin(Access access) override {
    if (access == Access::kRead) {
      return connection_.Script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    }
    // The number is "kccr"; a schema has a lock of its own. Readers do not take it.
    Result<> begun = connection_.Script(
        "BEGIN ISOLATION LEVEL READ COMMITTED;"
        "SELECT pg_advisory_xact_lock(1801675634, hashtext(current_schema()))");
    if (!begun.has_value()) Rollback();  // BEGIN itself may have been done
    return begun;
  }
  Result<> Commit() override { return connection_.Script("COMMIT"); }
  void Rollback() noexcept override { connection_.RollbackQuietly(); }

  Result<std::optional<int>> ReadVersion() override;
  Result<> WriteVersion(int version) override {
    return connection_.Execute("UPDATE kcc_register SET version = $1", {int64_t{version}});
  }
  Result<> RunMigration(int version) override {
    return connection_.Script(kPostgresMigrations[static_cast<size_t>(version)]);
  }

  Result<Head> ReadHead() override;
  Result<> ReadEvents(const EventRange& range, const EventVisitor& visit) override;
  Result<> InsertEvent(const Event& event) override;
  Result<bool> HasBlob(const std::string& digest) override;
  Result<std::optional<std::string>> ReadBlob(const std::string& digest) override;
  Result<> PutBlob(const std::string& digest, std::string_view bytes) override;
  Result<> RemoveBlob(const std::string& digest) override {
    return connection_.Execute("DELETE FROM kcc_blob WHERE digest = $1", {digest});
  }
  Result<std::vector<BlobInfo>> ListBlobs() override;
  Result<std::optional<EntryState>> FindEntry(const EntryKey& key) override;
  Result<> PutEntry(const EntryKey& key, const EntryState& state) override;
  Result<> ReadEntries(const EntryRange& range, const EntryVisitor& visit) override;
  Result<> ClearEntries() override { return connection_.Execute("DELETE FROM kcc_entry"); }

 private:
  Result<StoredEntry> EntryOf(const PostgresRows& rows, int row) const;

  PostgresConnection connection_;
};

// By the search path of the connection: only tables that this connection would use count.
Result<std::optional<int>> PostgresStore::ReadVersion() {
  KCC_TRY(const PostgresRows known, connection_.Query("SELECT to_regclass('kcc_register') IS NULL, "
                                                      "to_regclass('kcc_event') IS NULL"));
  const bool ours = known.Text(0, 0)[0] == 0;  // a boolean is one byte
  if (!ours && known.Text(0, 1)[0] == 0) {
    return InvalidError("is not a register: it has a table kcc_event and no kcc_register",
                        Place{name()});
  }
  if (!ours) return std::optional<int>();
  KCC_TRY(const PostgresRows version,
          connection_.Query("SELECT coalesce(max(version), 0) FROM kcc_register"));
  return std::optional<int>(static_cast<int>(version.Integer(0, 0)));
}

// There is no table of heads that could differ from the log: the last event is the head.
Result<Head> PostgresStore::ReadHead() {
  KCC_TRY(
      const PostgresRows last,
      connection_.Query("SELECT sequence, digest FROM kcc_event ORDER BY sequence DESC LIMIT 1"));
  if (last.count() == 0) return Head{};
  return Head{last.Integer(0, 0), std::string(last.Text(0, 1))};
}

// In pages: libpq holds a whole result in memory. A page begins after the last number seen, so that
// it costs the same wherever it is in the log.
Result<> PostgresStore::ReadEvents(const EventRange& range, const EventVisitor& visit) {
  const std::string sql =
      "SELECT sequence, time_ms, actor, kind, body, digest FROM kcc_event WHERE sequence BETWEEN "
      "$1 AND $2 AND ($3 = '' OR kind = $3) ORDER BY sequence" +
      std::string(range.newest_first ? " DESC" : "") + " LIMIT $4";
  int64_t first = range.first;
  int64_t last = range.last;
  for (int64_t left = range.limit; left > 0 && first <= last;) {
    const int64_t wanted = std::min(left, kPageRows);
    KCC_TRY(const PostgresRows rows, connection_.Query(sql, {first, last, range.kind, wanted}));
    for (int row = 0; row < rows.count(); ++row) {
      const Event event{.sequence = rows.Integer(row, 0),
                        .time_ms = rows.Integer(row, 1),
                        .actor = std::string(rows.Text(row, 2)),
                        .kind = std::string(rows.Text(row, 3)),
                        .body = std::string(rows.Text(row, 4)),
                        .digest = std::string(rows.Text(row, 5))};
      KCC_TRY_VOID(visit(event));
      if (range.newest_first) {
        last = event.sequence - 1;
      } else {
        first = event.sequence + 1;
      }
    }
    if (rows.count() < wanted) return {};  // the last page
    left -= rows.count();
  }
  return {};
}

// The primary key refuses a second event of a number, even from a writer that took no lock.
Result<> PostgresStore::InsertEvent(const Event& event) {
  return connection_.Execute(
      "INSERT INTO kcc_event VALUES ($1,$2,$3,$4,$5,$6)",
      {event.sequence, event.time_ms, event.actor, event.kind, event.body, event.digest});
}

Result<bool> PostgresStore::HasBlob(const std::string& digest) {
  KCC_TRY(const PostgresRows rows,
          connection_.Query("SELECT 1::bigint FROM kcc_blob WHERE digest = $1", {digest}));
  return rows.count() > 0;
}

Result<std::optional<std::string>> PostgresStore::ReadBlob(const std::string& digest) {
  KCC_TRY(const PostgresRows rows,
          connection_.Query("SELECT bytes FROM kcc_blob WHERE digest = $1", {digest}));
  if (rows.count() == 0) return std::optional<std::string>();
  return std::optional<std::string>(rows.Text(0, 0));
}

Result<> PostgresStore::PutBlob(const std::string& digest, std::string_view bytes) {
  return connection_.Execute("INSERT INTO kcc_blob VALUES ($1,$2) ON CONFLICT DO NOTHING",
                             {digest, PostgresParameter::Bytes(bytes)});
}

Result<std::vector<BlobInfo>> PostgresStore::ListBlobs() {
  KCC_TRY(const PostgresRows rows,
          connection_.Query(
              "SELECT digest, octet_length(bytes)::bigint FROM kcc_blob ORDER BY digest"));
  std::vector<BlobInfo> blobs;
  blobs.reserve(static_cast<size_t>(rows.count()));
  for (int row = 0; row < rows.count(); ++row) {
    blobs.push_back({std::string(rows.Text(row, 0)), rows.Integer(row, 1)});
  }
  return blobs;
}

Result<std::optional<EntryState>> PostgresStore::FindEntry(const EntryKey& key) {
  KCC_TRY(
      const PostgresRows rows,
      connection_.Query("SELECT subject, added, changed FROM kcc_entry WHERE tab = $1 AND id = $2",
                        {Name(key.table), key.id}));
  if (rows.count() == 0) return std::optional<EntryState>();
  return std::optional<EntryState>(
      {std::string(rows.Text(0, 0)), rows.Integer(0, 1), rows.Integer(0, 2)});
}

Result<> PostgresStore::PutEntry(const EntryKey& key, const EntryState& state) {
  return connection_.Execute(
      "INSERT INTO kcc_entry VALUES ($1,$2,$3,$4,$5) ON CONFLICT (tab, id) DO UPDATE SET subject = "
      "excluded.subject, added = excluded.added, changed = excluded.changed",
      {Name(key.table), key.id, state.subject, state.added, state.changed});
}

Result<StoredEntry> PostgresStore::EntryOf(const PostgresRows& rows, int row) const {
  const EntryTable* table = FindTable(rows.Text(row, 0));
  if (table == nullptr) {
    return BrokenEvidenceError("the table of entries names '" + std::string(rows.Text(row, 0)) +
                                   "', which is none; make it anew with `kcc register rebuild`",
                               Place{name()});
  }
  return StoredEntry{{*table, std::string(rows.Text(row, 1))},
                     {std::string(rows.Text(row, 2)), rows.Integer(row, 3), rows.Integer(row, 4)}};
}

// Pages by the whole key: `changed` alone is unique in a sound table, but verify must also see
// every row of one that is not.
Result<> PostgresStore::ReadEntries(const EntryRange& range, const EntryVisitor& visit) {
  // Numbered so that every parameter is used, with a type that the server knows.
  const std::string sql = std::string("SELECT tab, id, subject, added, changed FROM kcc_entry ") +
                          (range.table ? "WHERE tab = $1" : "WHERE $1 = ''") +
                          (range.subject.empty() ? " AND $2 = ''" : " AND subject = $2") +
                          " AND starts_with(id, $3) AND (changed, tab, id) < ($4, $5, $6) ORDER BY "
                          "changed DESC, tab DESC, id DESC LIMIT $7";
  int64_t changed = std::numeric_limits<int64_t>::max();
  std::string tab;
  std::string id;
  for (int64_t left = range.limit; left > 0;) {
    const int64_t wanted = std::min(left, kPageRows);
    KCC_TRY(const PostgresRows rows,
            connection_.Query(sql, {range.table ? Name(*range.table) : std::string_view(),
                                    range.subject, range.id_prefix, changed, tab, id, wanted}));
    for (int row = 0; row < rows.count(); ++row) {
      KCC_TRY(const StoredEntry entry, EntryOf(rows, row));
      changed = entry.state.changed;
      tab = Name(entry.key.table);
      id = entry.key.id;
      KCC_TRY_VOID(visit(entry));
    }
    if (rows.count() < wanted) return {};
    left -= rows.count();
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<EventStore>> OpenPostgresStore(const std::string& uri) {
  KCC_TRY(PostgresConnection connection, PostgresConnection::Open(uri));
  return std::unique_ptr<EventStore>(std::make_unique<PostgresStore>(std::move(connection)));
}

}  // namespace kcc
