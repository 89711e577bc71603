// The state of the register as a fold of its log: a pure function, used by the stores when they
// write, by rebuild, by verify and by the tests that compare the two.
//
// An entry says where the log speaks of it: the event that added it and the last one that changed
// it. What it holds is the body of that last event, so the state repeats nothing of the log.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kcc/base/result.h"
#include "kcc/register/event.h"
#include "kcc/register/event_kinds.h"

namespace kcc {

struct EntryState {
  std::string subject;  // the id of what the entry is about; of the event that added it
  int64_t added = 0;
  int64_t changed = 0;

  bool operator==(const EntryState&) const = default;
};

// The entry after an event, given the one before (null: there is none). Fails where the event must
// find none, or one: nothing is added twice, and nothing is closed that was not opened.
Result<EntryState> NextEntry(const Event& event, const EventFacts& facts, const EntryState* before);

// What the log says of a blob. It must be stored if an event named it after it was last removed.
struct BlobState {
  int64_t named = 0;    // the last event that names it; 0: none
  int64_t removed = 0;  // the last event that removed it; 0: none

  bool Expected() const { return named > removed; }
  bool operator==(const BlobState&) const = default;
};

struct RegisterState {
  std::map<EntryKey, EntryState> entries;
  std::map<std::string, BlobState> blobs;

  // On failure the state is as it was.
  Result<> Apply(const Event& event, const EventFacts& facts);
};

}  // namespace kcc
