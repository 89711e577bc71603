// Whole files, read with a limit and written so that a reader sees the old file or the new one,
// never a part.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"

namespace kcc {

// Fails with kInvalid if the file is larger than max_bytes, having read no more than that. A FIFO
// or a device that the user named is read to its end.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes);

// The same for a file that nobody named, such as a part of a trace: it must be a regular one. A
// FIFO there would make the reader wait for ever; the error (kInvalid) says what was found.
Result<std::string> ReadRegularFile(const std::string& path, size_t max_bytes);
Result<FileDescriptor> OpenRegularFile(const std::string& path);

// Writes an output by what stands under its name:
// - nothing, or a regular file: a temporary beside it is written and synced, takes its name in one
//   step, and keeps the mode of what it replaces. On failure `path` is untouched and the temporary
//   is gone; one that a killed writer left is removed by the next write into that directory.
// - a FIFO or a character device, or a link to one (/dev/stdout, /dev/fd/63): written through.
//   Opening a FIFO waits for its reader.
// - anything else, links to regular files included: refused with kInvalid.
Result<> WriteFileAtomically(const std::string& path, std::string_view bytes);

// The same for bytes that do not fit into memory: `fill` is called once and hands them on, piece by
// piece, to the function it is given. Where it fails, so does the writing, with its error.
using WritePiece = std::function<Result<>(std::string_view)>;
Result<> WriteFileInPieces(const std::string& path,
                           const std::function<Result<>(const WritePiece&)>& fill);

struct NamedBytes {
  std::string name;
  std::string_view bytes;
};

// Writes files that belong together into one directory, of which the last vouches for the others:
// it never stands beside files of another run, not even after a kill between two renames. On
// failure all of them are as they were. Of two writers at once one is last in all of them.
Result<> WriteFilesTogether(const std::string& directory, std::span<const NamedBytes> files);

// Writes a file in a directory that only this process reads: neither atomic nor synced.
Result<> WriteScratchFile(const std::string& path, std::string_view bytes);

}  // namespace kcc
