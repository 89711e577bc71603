// The summary file, .kccs (docs/summary.md): self-describing, versioned, deterministic.
//
// "KCCSUM2\n" ("KCCSUM3\n" where a device measured), then the plan as JSON, the names of the series
// that the plan keeps, the sources, the request manifest and the statistics, then SHA-256 of
// everything before as 64 hexadecimal digits. The same summary gives the same bytes. Reading trusts
// nothing: a damaged or hostile file is an error, and memory stays within a small multiple of its
// size.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/summary/summary.h"

namespace kcc {

inline constexpr size_t kSummaryBytesMax = size_t{1} << 30;

// Format 1 is for tests that old files are read, and that statistics are what they were.
std::string EncodeSummary(const Summary& summary, int format = Summary::kFormat);
Result<Summary> DecodeSummary(std::string_view bytes);
// Without magic and checksum: what a fuzzer should reach.
Result<Summary> DecodeSummaryBody(std::string_view body, int format = Summary::kFormat);

// Atomically: a reader sees the old file or the new one.
Result<> WriteSummaryFile(const std::string& path, const Summary& summary);
Result<Summary> ReadSummaryFile(const std::string& path);

}  // namespace kcc
