// The few text functions that more than one module needs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kcc {

// The shortest decimal that reads back as the same double; "inf", "-inf" and "nan" for the rest.
// Integers up to 2^53 are written without an exponent or point. The same bytes on every platform.
std::string ShortestNumber(double value);

// At most four significant digits, for sentences and tables: "0.01234", "1.2e-13", "400".
std::string ReadableNumber(double value);

// The whole text as a finite double ("1e-3", "-0.5", "+4", ".5"); hexadecimal, "inf", "nan",
// blanks and trailing text are refused.
std::optional<double> ParseNumber(std::string_view text);

// The candidate nearest to `word` (Damerau-Levenshtein), if it is near enough to be a slip of the
// keyboard: at most a third of the longer word's length, and at least one edit, or another case of
// its letters.
std::optional<std::string_view> NearestWord(std::string_view word,
                                            std::span<const std::string_view> candidates);

// "a, b and c".
std::string JoinWords(std::span<const std::string_view> words, std::string_view last = "and");

// True if the bytes are well-formed UTF-8; else `bad_offset` is the first byte that is not.
bool IsUtf8(std::string_view bytes, size_t* bad_offset);

}  // namespace kcc
