// What the commands of kcc register share: who writes when, and entries in words.
#pragma once

#include <string>
#include <string_view>

#include "apps/kcc/commands.h"
#include "kcc/register/register.h"

namespace kcc::cli {

struct Stamp {
  std::string actor;
  int64_t time_ms = 0;
};
// Of the flags, or the user and the clock of the console.
Result<Stamp> StampOf(const RegisterFlags& flags, const Console& console);

// Adds what is wanted and prints it; gives the exit code.
int AddEvents(const RegisterFlags& flags, const Batch& batch, Console& console);

// "sha256:1a2b3c4d5e6f…" where it is a digest, for lines that people read.
std::string ShortId(std::string_view id);

// What an entry says, in one line.
std::string EntryWords(const Entry& entry);

// What --json prints: an object whose first key says so, {"kccRegister": 1, …
JsonWriter RegisterJson();
// … and its end.
void PrintRegisterJson(JsonWriter& json, Console& console);

// {"sequence", "time", "actor", "kind", "body", "digest"}
void WriteEvent(const Event& event, JsonWriter* json);

// A table by its name, "triples" or "triple"; the error lists them.
Result<EntryTable> TableOf(const std::string& name);

// The entry with this id, or the only one whose id begins so (with or without "sha256:").
Result<Entry> FindEntry(Register& source, EntryTable table, const std::string& id);

}  // namespace kcc::cli
