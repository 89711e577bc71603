// Where a register lies: events, blobs and the table of entries, in transactions. Private to this
// folder; SQLite (sqlite_store.h) and PostgreSQL (postgres_store.h) implement it, and one suite of
// tests holds both to it.
//
// A store knows nothing of what events mean. Errors are kIo for what the machine or the server did
// (locked, full, lost), kInvalid for what is not a register, kBrokenEvidence for a damaged one;
// they name the register without its password. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/event.h"
#include "kcc/register/event_kinds.h"
#include "kcc/register/fold.h"

namespace kcc {

inline constexpr size_t kBlobBytesMax = size_t{512} << 20;

struct EventRange {
  int64_t first = 1;
  int64_t last = std::numeric_limits<int64_t>::max();
  int64_t limit = std::numeric_limits<int64_t>::max();
  bool newest_first = false;
  std::string kind = {};  // empty: all
};

struct StoredEntry {
  EntryKey key;
  EntryState state;

  bool operator==(const StoredEntry&) const = default;
};

struct EntryRange {
  std::optional<EntryTable> table = {};                 // none: all
  std::string subject = {};                             // empty: all
  std::string id_prefix = {};                           // empty: all
  int64_t limit = std::numeric_limits<int64_t>::max();  // the last changed
};

struct BlobInfo {
  std::string digest;
  int64_t bytes = 0;
};

using EventVisitor = std::function<Result<>(const Event&)>;
using EntryVisitor = std::function<Result<>(const StoredEntry&)>;

class EventStore {
 public:
  enum class Access { kRead, kWrite };

  EventStore() = default;
  virtual ~EventStore() = default;
  EventStore(const EventStore&) = delete;
  EventStore& operator=(const EventStore&) = delete;

  // What people see of its URI: no password.
  virtual const std::string& name() const = 0;

  // Reads see one moment of the register. A writer keeps other writers out until its end; it waits
  // for them a while, and then fails with kIo.
  virtual Result<> Begin(Access access) = 0;
  virtual Result<> Commit() = 0;
  virtual void Rollback() noexcept = 0;

  // The version of the schema; none: this is an empty database. Fails on one that is not a
  // register.
  virtual Result<std::optional<int>> ReadVersion() = 0;
  virtual Result<> WriteVersion(int version) = 0;
  // The statements that lead from version - 1 to `version`; from nothing for version 0.
  virtual Result<> RunMigration(int version) = 0;

  virtual Result<Head> ReadHead() = 0;
  virtual Result<> ReadEvents(const EventRange& range, const EventVisitor& visit) = 0;
  virtual Result<> InsertEvent(const Event& event) = 0;

  virtual Result<bool> HasBlob(const std::string& digest) = 0;
  virtual Result<std::optional<std::string>> ReadBlob(const std::string& digest) = 0;
  virtual Result<> PutBlob(const std::string& digest, std::string_view bytes) = 0;  // may be there
  virtual Result<> RemoveBlob(const std::string& digest) = 0;
  virtual Result<std::vector<BlobInfo>> ListBlobs() = 0;  // by digest

  virtual Result<std::optional<EntryState>> FindEntry(const EntryKey& key) = 0;
  virtual Result<> PutEntry(const EntryKey& key, const EntryState& state) = 0;
  // The last changed first.
  virtual Result<> ReadEntries(const EntryRange& range, const EntryVisitor& visit) = 0;
  virtual Result<> ClearEntries() = 0;
};

// Undoes what was not committed.
class StoreTransaction {
 public:
  static Result<StoreTransaction> Begin(EventStore& store, EventStore::Access access) {
    KCC_TRY_VOID(store.Begin(access));
    return StoreTransaction(store);
  }
  StoreTransaction(StoreTransaction&& other) noexcept : store_(other.store_) {
    other.store_ = nullptr;
  }
  StoreTransaction& operator=(StoreTransaction&&) = delete;
  ~StoreTransaction() {
    if (store_ != nullptr) store_->Rollback();
  }

  Result<> Commit() {
    EventStore* store = store_;
    KCC_TRY_VOID(store->Commit());
    store_ = nullptr;
    return {};
  }

 private:
  explicit StoreTransaction(EventStore& store) : store_(&store) {}
  EventStore* store_;
};

}  // namespace kcc
