// Whether a register is what its log says: every digest recomputed, the chain, the blobs, the table
// of entries, and, where one was kept outside, an earlier head.
//
// What it finds: any change of an event, a blob or an entry that did not also recompute every
// digest after it; an event or a blob that is missing. What it cannot find without a head that was
// kept outside: a log whose last events were cut off, and one that was written anew from some event
// on. Who can write to the store can do both, and the report says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/register.h"
#include "kcc/statement/keyring.h"

namespace kcc {

enum class BreakPlace : uint8_t { kEvent, kBlob, kEntry, kHead, kStatement };
std::string_view Name(BreakPlace place);  // "event"

// The first thing that is not as it must be.
struct RegisterBreak {
  BreakPlace place = BreakPlace::kEvent;
  int64_t sequence = 0;  // of the event, where there is one; else 0
  std::string id;        // the blob's digest, or the entry
  std::string what;      // a sentence
};

struct RegisterCheck {
  Head head;
  int64_t events = 0;
  int64_t blobs = 0;
  int64_t blob_bytes = 0;
  int64_t blobs_unnamed = 0;  // no event names them: gc removes them
  int64_t blobs_removed = 0;  // named, then removed by a later event
  int64_t entries = 0;
  int64_t statements = 0;      // signed, looked at and found to hold
  int64_t time_goes_back = 0;  // the first event that is older than the one before it; 0: none
  std::optional<RegisterBreak> first_break;
  std::vector<std::string> seen;  // what a kept head and a keyring let it find beside, as sentences
  std::vector<std::string> unseen;  // what this check cannot find

  bool ok() const { return !first_break.has_value(); }
};

struct RegisterVerifyOptions {
  // A head that was kept outside of the register.
  std::optional<Head> kept = {};
  // Or one that was signed: a DSSE envelope; empty: none. It is believed only with a keyring, if
  // `threshold` keys of the role `head` signed it.
  std::string signed_head = {};
  // Whose signatures count. Null: no statement is looked at, and `unseen` says so.
  const Keyring* keyring = nullptr;
  size_t threshold = 1;
};

// One reading transaction. An Error where the register cannot be read; a break is not an Error.
Result<RegisterCheck> Verify(Register& source, const RegisterVerifyOptions& options = {});

}  // namespace kcc
