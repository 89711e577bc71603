// What a document's bytes must be before any parser sees them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kcc/contract/diagnostic.h"

namespace kcc {

// UTF-8 of at most kContractBytesMax bytes; no control characters but tab, line feed and CR LF; no
// byte order mark but the first; no bidirectional overrides, which make a line read as what it is
// not. Linear, and stops at the first problem.
std::optional<Diagnostic> CheckText(std::string_view text);

// Characters of two and three bytes that no document needs: C1 controls, the separators that are
// line breaks in one version of YAML and not in the next, embeddings, overrides and isolates of
// bidirectional text, U+FEFF, U+FFFE and U+FFFF. What is printed escapes the same ones.
bool IsForbiddenPoint(uint32_t point);

}  // namespace kcc
