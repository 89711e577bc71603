// What the writers of predicates share.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/statement/in_toto.h"

namespace kcc {

// {"sha256": "…"} of "sha256:…".
void WriteDigestSet(std::string_view digest, JsonWriter* json);
// A resource descriptor: {"name": …, "digest": {"sha256": …}}.
void WriteNamedDigest(const NamedDigest& named, JsonWriter* json);
void WriteNamedDigests(std::string_view key, const std::vector<NamedDigest>& list,
                       JsonWriter* json);

// Fails (kInvalid) unless it is "sha256:" and 64 digits.
Result<> CheckDigest(std::string_view digest, const std::string& what);
// Fails (kInvalid) for a time that no timestamp can write.
Result<> CheckTime(int64_t time_ms);

// The finished document, without its line feed.
std::string TakePredicate(JsonWriter* json);

}  // namespace kcc
