// What is noticed of answers that pass unread: signs in their bytes, found without a parser. Keys
// are looked for with their quotes, which inside of a string would be escaped, so that no text of a
// model is taken for one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kcc {

// The chunk says something: text, a call of a tool, a refusal, or why it ended.
bool HasContent(std::string_view chunk);
// The status that an event tells which is an error; nothing: it is none. 500 where it tells none.
std::optional<int> ErrorStatusOf(std::string_view chunk);
// "system_fingerprint" of an answer or a chunk; empty: it has none.
std::string FingerprintOf(std::string_view answer);
// It may be a JSON object: of one, the first and the last character.
bool LooksLikeObject(std::string_view text);

}  // namespace kcc
