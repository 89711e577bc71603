// Arithmetic over the fields of a request and of a token: what a metric of the user's own is
// computed from. It stands beside the predicate language and shares its lexer and field table.
//
//   sum     := product (("+" | "-") product)*         product := unary (("*" | "/") unary)*
//   unary   := "-" unary | atom
//   atom    := number | field | "(" sum ")" | "abs" "(" sum ")"
//              | ("min" | "max") "(" sum ("," sum)+ ")"
//
// Plain double arithmetic in the order written: a + b + c is (a + b) + c, and nothing is
// rearranged, so that one text gives one result on every machine. A bool field counts as 0 or 1.
// A field that is absent, not finite or not a number makes the result missing, and so does any
// step that is not finite: 1 / (x / 0) is missing, never 0. Thread-safe: an Expression is
// immutable.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/predicate/predicate.h"

namespace kcc {

inline constexpr size_t kExpressionBytesMax = 512;
inline constexpr int kExpressionDepthMax = 32;

class Expression {
 public:
  struct Node;

  // Parses and type-checks, within the limits above. A known field must be a number or a bool; one
  // that is not known is whatever a request holds. The error's place holds the column within `text`
  // (line 1), in bytes from 1.
  static Result<Expression> Parse(std::string_view text);

  bool reads_token() const;

  // Every field it reads, sorted, token fields with their prefix. Never empty.
  std::vector<std::string> Fields() const;

  // One spelling for one order of operations: one blank around operators, no redundant
  // parentheses, numbers in shortest form. Parse(Canonical()) gives the same expression.
  std::string Canonical() const;

  // None: missing. Never -0, never infinite.
  std::optional<double> Evaluate(const FieldSource& fields) const;

 private:
  explicit Expression(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
  // Shared because definitions are copied freely and the tree never changes.
  std::shared_ptr<const Node> root_;
};

}  // namespace kcc
