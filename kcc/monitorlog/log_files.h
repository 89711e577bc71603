// The files of one decision log, under their names.
//
// The log is written to PATH. Once that is large it is set aside, and a new file takes its name:
// the one that was there is then PATH with the number of its last decision before the extension, of
// twelve digits, so that names sort as the files follow one another: decisions-000000004821.jsonl.
// Nothing is moved while it has no other name, and the new file is whole and synced before it takes
// the log's: whatever ends the process on the way, under PATH stands the old file or the new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"

namespace kcc {

std::string SetAsideName(const std::string& path, int64_t decisions);
// Those that are there, in the order of their names.
std::vector<std::string> SetAsideFiles(const std::string& path);
// Removes the first of them until `keep` are left; what cannot be removed stays.
void RemoveOldestSetAside(const std::string& path, size_t keep);
// Undoes half a step: a second name of the file that stands under `path`, and a new one that never
// got its name. For whoever holds the lock on `path`.
void TidySetAside(const std::string& path, int descriptor, int64_t decisions);

// Opens the log to append to it, or makes an empty one, and keeps other writers out. Fails with
// kInvalid where another process has it.
Result<FileDescriptor> OpenLogForAppend(const std::string& path);

// Puts a new file with this first line under `path`, locked, and the one that is there, whose lock
// the caller has, aside. Where nothing is there (`decisions` < 0) nothing is set aside. On failure
// nothing has changed. The folder is not synced yet: SyncFolderOf.
Result<FileDescriptor> ReplaceLogFile(const std::string& path, int64_t decisions,
                                      std::string_view first_line);

// The name of a new file must outlast the machine too.
Result<> SyncFolderOf(const std::string& path);
// All of it, or an error; `what` is said then.
Result<> WriteWholly(int descriptor, std::string_view bytes, const std::string& path);
Error LogError(const std::string& what, const std::string& path);  // with errno

}  // namespace kcc
