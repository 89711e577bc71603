// Directories where memory may run out.
//
// libstdc++ walks a directory in functions that must not throw and yet allocate, and
// std::filesystem::remove_all allocates and is called by destructors: both end the process where
// there is no memory.
#pragma once

#include <string>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

// The names of what is in a directory, sorted, without "." and "..".
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// Removes a directory and what is in it, for destructors: allocates nothing, does what it can and
// says nothing. Symbolic links are removed, not followed. Goes at most 16 directories deep: what
// kcc makes has three.
void RemoveTreeQuietly(const char* path) noexcept;

}  // namespace kcc
