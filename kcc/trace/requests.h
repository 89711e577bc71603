// requests.jsonl: one JSON object a line, each a Request with an `id` unique in the file.
//
// Numbers become doubles; an integer that a double cannot hold (a 64-bit seed) is kept as its
// decimal text. null means absent. A list is kept as texts, an object as its JSON text, and what
// is in a list but no text as its JSON text. Blank lines are skipped. Lines are at most
// kRequestLineBytesMax long. The file is read in blocks; only the requests themselves are kept.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/format/line_reader.h"
#include "kcc/trace/trace.h"

namespace kcc {

inline constexpr size_t kRequestLineBytesMax = size_t{16} << 20;

// Reads a text file line by line in bounded memory and hands each non-blank line (without its
// line end) to `visit` with its number from 1. Stops at the first error and gives it the file and
// the line.
using LineVisitor = std::function<Result<>(std::string_view line, int number)>;
Result<> ForEachLine(const std::string& path, size_t line_bytes_max, const LineVisitor& visit);
Result<> ForEachLine(LineReader& reader, const LineVisitor& visit);

// A trace's requests.jsonl, which must be a regular file.
Result<std::vector<Request>> ReadRequests(const std::string& path);

// One line, without a line end: id first, then the fields in order of name. Parsing can leave
// fields out, such as token ids that the caller reads for itself.
Result<Request> ParseRequest(std::string_view line, std::span<const std::string_view> without = {});
std::string RequestJson(const Request& request);
// Its fields alone, as members of the object that the writer is in.
void WriteRequestFields(const Request& request, JsonWriter* writer);

// Puts the request down to the kernel that declared this fingerprint, marked as filled in by kcc,
// unless the request says itself who answered it.
void FillFingerprint(const std::string& fingerprint, Request* request);

// What reading holds a request to: an id, token counts that are counts, finite numbers.
Result<> CheckRequest(const Request& request);

}  // namespace kcc
