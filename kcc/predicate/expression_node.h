// The tree of an expression. Internal: expression_parser.cc makes it, expression.cc writes and
// evaluates it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/predicate/expression.h"
#include "kcc/predicate/fields.h"

namespace kcc {

struct Expression::Node {
  enum class Kind : uint8_t {
    kNumber,  // never negative: a sign is an operation
    kField,
    kNegate,  // one child
    kAbs,     // one child
    // Two children, the left one first.
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    // Two or more children.
    kMin,
    kMax,
  };
  Kind kind = Kind::kNumber;
  double number = 0;
  std::string text;  // kField: its name, with the token. prefix
  std::vector<Node> children;

  bool is_token_field() const {
    return kind == Kind::kField && text.starts_with(kTokenFieldPrefix);
  }
};

// Syntax, and that every known field has a type that counts.
Result<Expression::Node> ParseExpressionTree(std::string_view text);

// Columns are bytes and count from 1.
Error ExpressionError(size_t offset, std::string message);

}  // namespace kcc
