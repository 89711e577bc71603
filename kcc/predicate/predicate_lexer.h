// Words of the predicate language. Internal to the predicate's parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

enum class LexemeKind : uint8_t {
  kEnd,
  kNumber,
  kText,
  kField,
  kTrue,
  kFalse,
  kAnd,
  kOr,
  kNot,
  kIn,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kOpenBracket,
  kCloseBracket,
  kOpenParen,
  kCloseParen,
  kComma,
};

struct Lexeme {
  LexemeKind kind = LexemeKind::kEnd;
  size_t offset = 0;        // of its first byte
  std::string_view source;  // as written
  std::string text;         // kText: unescaped
  double number = 0;        // kNumber
};

// An error of the predicate language: columns are bytes and count from 1.
Error PredicateError(size_t offset, std::string message);

// The whole text; the last lexeme is kEnd. Views are into `text`.
Result<std::vector<Lexeme>> LexPredicate(std::string_view text);

}  // namespace kcc
