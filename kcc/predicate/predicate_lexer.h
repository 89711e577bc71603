// Words of the predicate language and of arithmetic over the same fields (expression.h). Internal
// to their parsers.
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
  // Arithmetic only.
  kPlus,
  kMinus,
  kTimes,
  kDivide,
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
// The same for arithmetic: + - * / are words of their own, so that a number has no sign, and
// nothing compares.
Result<std::vector<Lexeme>> LexArithmetic(std::string_view text);

// A field's name as written: a prefix is that of a token field, and such a field exists.
Result<> CheckFieldName(std::string_view name, size_t offset);

}  // namespace kcc
