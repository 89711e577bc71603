// Whole files, read with a limit and written so that a reader sees the old file or the new one,
// never a part.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

// Fails with kInvalid if the file is larger than max_bytes, having read no more than that.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes);

// Writes a neighbour, fsyncs it, renames it over `path`, and fsyncs the directory. On failure
// `path` is untouched and the neighbour is gone. Keeps the mode of an existing file.
//
// The neighbour's name is its prefix (if empty, "." and the file's own name), a dot and six letters
// or digits: a process that is killed leaves it behind, and a caller may want to know it again.
Result<> WriteFileAtomically(const std::string& path, std::string_view bytes,
                             std::string_view neighbour_prefix = "");

}  // namespace kcc
