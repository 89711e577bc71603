// The invariant of every write: in one transaction the head is read, compared, and everything after
// it is written, by the same functions as the fold (fold.h). So the table of entries cannot differ
// from the fold of the log, and two writers cannot both follow one head.
#include "kcc/register/register.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "kcc/base/sha256.h"
#include "kcc/base/temporary.h"
#include "kcc/register/postgres_store.h"
#include "kcc/register/register_uri.h"
#include "kcc/register/sqlite_store.h"

namespace kcc {
namespace {

constexpr int kUpdatesMax = 1000;

Result<std::unique_ptr<EventStore>> OpenStore(const std::string& uri, bool create) {
  KCC_TRY(const RegisterUri parsed, ParseRegisterUri(uri));
  if (parsed.postgres) return OpenPostgresStore(parsed.target);
  return OpenSqliteStore(parsed.target, create);
}

Error NewerVersion(int version, const std::string& name) {
  return InvalidError("the register has version " + std::to_string(version) +
                          ", and this kcc knows up to " + std::to_string(kRegisterVersion) +
                          "; use a newer kcc",
                      Place{name});
}

Error NotThere(const Event& event, const std::string& what) {
  return InvalidError(event.kind + " names " + what + ", which is not in the register");
}

// One event of a batch: what the fold does to its state, done to the store. Nothing is written
// before every check has passed; a later event of the batch may still fail, and then the
// transaction undoes this one.
Result<> Write(EventStore& store, EventReader& reader, const Event& event) {
  KCC_TRY(const EventFacts facts, reader.Read(event));
  for (const EntryKey& reference : facts.references) {
    KCC_TRY(const auto found, store.FindEntry(reference));
    if (!found) return NotThere(event, KeyText(reference));
  }
  for (const std::string& blob : facts.blobs) {
    KCC_TRY(const bool stored, store.HasBlob(blob));
    if (!stored) return NotThere(event, "blob " + blob);
  }
  // The rules of adding, changing and closing are the fold's, so that they cannot differ from it.
  KCC_TRY(const auto before, store.FindEntry(facts.key));
  KCC_TRY(const EntryState next, NextEntry(event, facts, before ? &*before : nullptr));
  if (!facts.removed_blob.empty()) {
    KCC_TRY(const bool stored, store.HasBlob(facts.removed_blob));
    if (!stored) return NotThere(event, "blob " + facts.removed_blob);
    KCC_TRY_VOID(store.RemoveBlob(facts.removed_blob));
  }
  KCC_TRY_VOID(store.InsertEvent(event));
  return store.PutEntry(facts.key, next);
}

// The caller's transaction holds the lock, so the log does not grow between reading and writing.
Result<> RebuildEntries(EventStore& store, int64_t* entries) {
  RegisterState state;
  EventReader reader;
  const auto apply = [&](const Event& event) -> Result<> {
    const std::string where = "event " + std::to_string(event.sequence) + ": ";
    const auto facts = reader.Read(event);
    if (!facts.has_value()) return BrokenEvidenceError(where + facts.error().message());
    const Result<> applied = state.Apply(event, *facts);
    if (!applied.has_value()) return BrokenEvidenceError(where + applied.error().message());
    return {};
  };
  KCC_TRY_VOID(store.ReadEvents({}, apply));
  KCC_TRY_VOID(store.ClearEntries());
  for (const auto& [key, entry] : state.entries) KCC_TRY_VOID(store.PutEntry(key, entry));
  *entries = static_cast<int64_t>(state.entries.size());
  return {};
}

// Every new register goes through all migrations, so that the way from an old one is always in use.
Result<> Migrate(EventStore& store, std::optional<int> version) {
  for (int next = version ? *version + 1 : 0; next <= kRegisterVersion; ++next) {
    KCC_TRY_VOID(store.RunMigration(next));
  }
  // Entries came with version 1. What a later version changes in them is made anew too.
  int64_t entries = 0;
  KCC_TRY_VOID(RebuildEntries(store, &entries));
  return store.WriteVersion(kRegisterVersion);
}

Result<> MigrateAll(EventStore& store) {
  KCC_TRY(StoreTransaction transaction, StoreTransaction::Begin(store, EventStore::Access::kWrite));
  KCC_TRY_VOID(Migrate(store, std::nullopt));
  return transaction.Commit();
}

// A new file is made whole beside its place, and then gets its name: whatever ends the process on
// the way, there is no half register. False: another process has made one there in the meantime.
Result<bool> MakeSqliteFile(const std::string& path) {
  std::error_code ignored;
  const std::string parent = std::filesystem::absolute(path, ignored).parent_path().string();
  KCC_TRY(const Temporary folder, Temporary::Make(parent, Temporary::Kind::kDirectory, 0700));
  const std::string inside = folder.path() + "/register.db";
  // Before SQLite opens it: where it cannot make a file, it loses the reason.
  const FileDescriptor file(::open(inside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.get() < 0) {
    return IoError(std::string("cannot be made: ") + std::strerror(errno), Place{path});
  }
  {
    const auto store = OpenSqliteStore(inside, false);
    const Result<> made = store.has_value() ? MigrateAll(**store) : Result<>(store.error());
    if (!made.has_value()) return Error(made.error().code(), made.error().message(), Place{path});
  }
  // Closing brings SQLite's log into the file; it says nothing where it cannot.
  if (std::filesystem::exists(inside + "-wal", ignored)) {
    return IoError("cannot be made: there is no room or no memory to finish it", Place{path});
  }
  int failed = ::renameat2(AT_FDCWD, inside.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE);
  if (failed != 0 && errno == EINVAL) failed = ::link(inside.c_str(), path.c_str());
  if (failed != 0 && errno == EEXIST) return false;
  if (failed != 0) {
    return IoError(std::string("cannot be made: ") + std::strerror(errno), Place{path});
  }
  SyncDirectory(parent);
  return true;
}

}  // namespace

std::string BlobDigest(std::string_view bytes) { return Sha256Of(bytes); }

Result<Register> Register::Open(const std::string& uri) {
  KCC_TRY(std::unique_ptr<EventStore> store, OpenStore(uri, false));
  KCC_TRY(const std::optional<int> version, store->ReadVersion());
  const std::string make = "`kcc register init --register " + ShownUri(uri) + "`";
  if (!version) {
    return InvalidError("is not a register yet; make one with " + make, Place{store->name()});
  }
  if (*version > kRegisterVersion) return NewerVersion(*version, store->name());
  if (*version < kRegisterVersion) {
    return InvalidError("the register has version " + std::to_string(*version) +
                            ", and this kcc writes version " + std::to_string(kRegisterVersion) +
                            "; keep a copy, then bring it forward with " + make,
                        Place{store->name()});
  }
  return Register(std::move(store));
}

Result<Register> Register::Create(const std::string& uri, Created* created) {
  KCC_TRY(const RegisterUri parsed, ParseRegisterUri(uri));
  std::error_code ignored;
  if (!parsed.postgres && !std::filesystem::exists(parsed.target, ignored)) {
    KCC_TRY(const bool is_new, MakeSqliteFile(parsed.target));
    if (is_new && created != nullptr) *created = {true, kRegisterVersion};
    if (is_new) return Open(uri);
  }
  KCC_TRY(std::unique_ptr<EventStore> store, OpenStore(uri, true));
  // Looked at inside of the transaction, since two may create it at once.
  KCC_TRY(StoreTransaction transaction,
          StoreTransaction::Begin(*store, EventStore::Access::kWrite));
  KCC_TRY(const std::optional<int> version, store->ReadVersion());
  if (version && *version > kRegisterVersion) return NewerVersion(*version, store->name());
  if (created != nullptr) *created = {!version, version.value_or(kRegisterVersion)};
  if (!version || *version < kRegisterVersion) KCC_TRY_VOID(Migrate(*store, version));
  KCC_TRY_VOID(transaction.Commit());
  return Register(std::move(store));
}

Result<Appended> Register::Append(const Batch& batch, const Head& expected) {
  KCC_TRY(StoreTransaction transaction,
          StoreTransaction::Begin(*store_, EventStore::Access::kWrite));
  KCC_TRY(Head head, store_->ReadHead());
  // The number alone would not do: another log may be as long.
  if (head != expected) return Appended{true, head};
  for (const std::string& blob : batch.blobs) {
    if (blob.size() > kBlobBytesMax) {
      return InvalidError("a blob has " + std::to_string(blob.size()) + " bytes, more than " +
                          std::to_string(kBlobBytesMax));
    }
    KCC_TRY_VOID(store_->PutBlob(BlobDigest(blob), blob));
  }
  EventReader reader;
  for (const NewEvent& event : batch.events) {
    KCC_TRY(const Event sealed, SealEvent(head, event));
    KCC_TRY_VOID(Write(*store_, reader, sealed));
    head = {sealed.sequence, sealed.digest};
  }
  KCC_TRY_VOID(transaction.Commit());
  return Appended{false, head};
}

Result<Head> Register::Update(const MakeBatch& make) {
  // The head is read before `make` looks at anything: what it sees is of this head or a later one,
  // and Append refuses if it was a later one.
  for (int i = 0; i < kUpdatesMax; ++i) {
    KCC_TRY(const Head head, ReadHead());
    KCC_TRY(const Batch batch, make(*this));
    if (batch.events.empty() && batch.blobs.empty()) return head;
    KCC_TRY(Appended appended, Append(batch, head));
    if (!appended.head_moved) return std::move(appended.head);
  }
  return IoError("other writers were faster " + std::to_string(kUpdatesMax) +
                     " times in a row; nothing was written",
                 Place{name()});
}

Result<std::string> Register::PutBlob(std::string_view bytes) {
  std::string digest = BlobDigest(bytes);
  KCC_TRY(StoreTransaction transaction,
          StoreTransaction::Begin(*store_, EventStore::Access::kWrite));
  KCC_TRY_VOID(store_->PutBlob(digest, bytes));
  KCC_TRY_VOID(transaction.Commit());
  return digest;
}

Result<std::optional<std::string>> Register::ReadBlob(const std::string& digest) {
  KCC_TRY(std::optional<std::string> bytes, store_->ReadBlob(digest));
  if (bytes && BlobDigest(*bytes) != digest) {
    return BrokenEvidenceError("the bytes of blob " + digest + " do not have this digest",
                               Place{name()});
  }
  return bytes;
}

Result<std::vector<Event>> Register::ReadEvents(const EventRange& range) {
  std::vector<Event> events;
  KCC_TRY_VOID(store_->ReadEvents(range, [&](const Event& event) -> Result<> {
    events.push_back(event);
    return {};
  }));
  return events;
}

Result<std::optional<Entry>> Register::Find(const EntryKey& key) {
  KCC_TRY(StoreTransaction transaction,
          StoreTransaction::Begin(*store_, EventStore::Access::kRead));
  KCC_TRY(const auto state, store_->FindEntry(key));
  if (!state) return std::optional<Entry>();
  KCC_TRY(const auto events, ReadEvents({.first = state->changed, .last = state->changed}));
  if (events.empty()) {
    return BrokenEvidenceError(KeyText(key) + " is of event " + std::to_string(state->changed) +
                                   ", which is missing; look with `kcc register verify`",
                               Place{name()});
  }
  return std::optional<Entry>({key, *state, events[0]});
}

Result<std::vector<Entry>> Register::List(const EntryRange& range) {
  KCC_TRY(StoreTransaction transaction,
          StoreTransaction::Begin(*store_, EventStore::Access::kRead));
  std::vector<Entry> entries;
  KCC_TRY_VOID(store_->ReadEntries(range, [&](const StoredEntry& stored) -> Result<> {
    entries.push_back({stored.key, stored.state, {}});
    return {};
  }));
  for (Entry& entry : entries) {
    const int64_t at = entry.state.changed;
    KCC_TRY(const auto events, ReadEvents({.first = at, .last = at}));
    if (!events.empty()) entry.event = events[0];
  }
  return entries;
}

Result<int64_t> Register::Rebuild() {
  KCC_TRY(StoreTransaction transaction,
          StoreTransaction::Begin(*store_, EventStore::Access::kWrite));
  int64_t entries = 0;
  KCC_TRY_VOID(RebuildEntries(*store_, &entries));
  KCC_TRY_VOID(transaction.Commit());
  return entries;
}

}  // namespace kcc
