// The register: what was allowed, where, on what evidence, by whom, and what happened since
// (docs/register.md). An append-only log of events, blobs by their digest, and a table of entries
// that is the fold of the log.
//
// One object is one connection, for one thread. Several processes may use one register: Append
// takes the head that the writer has seen, and writes nothing if another writer was faster.
// Everything it writes is there as a whole or not at all, whatever ends the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/event.h"
#include "kcc/register/event_kinds.h"
#include "kcc/register/event_store.h"
#include "kcc/register/fold.h"

namespace kcc {

// Of the schema. A register of an older one is brought to it by Register::Create.
inline constexpr int kRegisterVersion = 1;

struct Batch {
  std::vector<NewEvent> events;
  std::vector<std::string> blobs;  // bytes that the events name by their digest
};

struct Appended {
  bool head_moved = false;  // another writer was faster: nothing was written; read again
  Head head;                // after this call
};

// An entry with the event it holds.
struct Entry {
  EntryKey key;
  EntryState state;
  Event event;  // the last one that changed it
};

class Register {
 public:
  // `uri`: a path or sqlite:PATH, or postgresql://… . Fails on a register of another version, and
  // says what to do.
  static Result<Register> Open(const std::string& uri);

  struct Created {
    bool is_new = false;
    int version_before = kRegisterVersion;
  };
  // Makes a register where there is none, and brings an older one to kRegisterVersion, in one
  // transaction. One of this version is left as it is.
  static Result<Register> Create(const std::string& uri, Created* created = nullptr);

  Register(Register&&) noexcept = default;
  Register& operator=(Register&&) noexcept = default;

  // Without a password.
  const std::string& name() const { return store_->name(); }

  Result<Head> ReadHead() { return store_->ReadHead(); }

  // Adds the events after `expected`, with the blobs they name. Fails with kInvalid where an event
  // is not one of event_kinds.h, names what is not there or adds what is: nothing is written then.
  Result<Appended> Append(const Batch& batch, const Head& expected);

  // Append for writers that look before they write: `make` reads the register and says what to add
  // (nothing: done). It is called again if another writer was faster.
  using MakeBatch = std::function<Result<Batch>(Register&)>;
  Result<Head> Update(const MakeBatch& make);

  // Stores bytes before an event names them; gc removes what none ever named. Gives their digest.
  Result<std::string> PutBlob(std::string_view bytes);
  // Fails with kBrokenEvidence where the bytes do not have the digest; none: not stored.
  Result<std::optional<std::string>> ReadBlob(const std::string& digest);

  Result<std::vector<Event>> ReadEvents(const EventRange& range);
  Result<std::optional<Entry>> Find(const EntryKey& key);
  Result<std::vector<Entry>> List(const EntryRange& range);

  // Makes the table of entries anew from the log. Gives the number of entries.
  Result<int64_t> Rebuild();

  // For the rest of this folder.
  EventStore& store() { return *store_; }

 private:
  explicit Register(std::unique_ptr<EventStore> store) : store_(std::move(store)) {}
  std::unique_ptr<EventStore> store_;
};

// The digest a blob is stored under.
std::string BlobDigest(std::string_view bytes);

}  // namespace kcc
