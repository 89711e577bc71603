// A register as a directory, for a place that no network reaches (docs/register.md "Export"):
//
//   register.json   format, head, how many events and blobs
//   events.jsonl    one event a line, with its digest
//   blobs/HEX       each blob under the 64 digits of its digest
//
// Import continues the log of a register that is empty or holds a beginning of the exported log;
// the events keep their numbers and digests, so that both registers have one head. Everything is
// verified before anything of it can be seen: it is one transaction, which ends with the exported
// head or not at all. Two logs that went different ways are not merged.
#pragma once

#include <cstdint>
#include <string>

#include "kcc/base/result.h"
#include "kcc/register/register.h"

namespace kcc {

struct Transfer {
  Head head;
  int64_t events = 0;  // written
  int64_t blobs = 0;
};

// `directory` must not exist, or be empty. It appears whole or not at all.
Result<Transfer> ExportRegister(Register& source, const std::string& directory);

Result<Transfer> ImportRegister(Register& target, const std::string& directory);

}  // namespace kcc
