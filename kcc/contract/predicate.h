// The slice predicate language: a small typed expression over request fields and token fields.
//
//   or    := and ("or" and)*            and := not ("and" not)*          not := "not" not | cmp
//   cmp   := term (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in") term)?
//   term  := number | 'string' | "string" | true | false | field | "[" term ("," term)* "]" | "("
//   or ")"
//
// No functions, no loops, no assignment; every predicate ends. A field that a request lacks makes
// the comparison it stands in false (and `!=` too): an absent tag never selects anything.
// Thread-safe: a Predicate is immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

// What a field may hold at evaluation time. Text views must outlive the evaluation.
using FieldValue = std::variant<std::monostate,  // absent
                                double, bool, std::string_view,
                                const std::vector<std::string>*>;  // a list of texts, e.g. tags

// Gives the predicate its fields. `request` fields are named as in requests.jsonl; token fields
// without their "token." prefix.
class FieldSource {
 public:
  virtual ~FieldSource() = default;
  virtual FieldValue RequestField(std::string_view name) const = 0;
  virtual FieldValue TokenField(std::string_view name) const = 0;
};

class Predicate {
 public:
  struct Node;

  // Parses and type-checks. The error's place holds the column within `text` (line 1).
  static Result<Predicate> Parse(std::string_view text);

  // True if the predicate reads a token.* field, so that it selects tokens, not requests.
  bool reads_token() const;

  // Every field it reads, sorted, token fields with their prefix.
  std::vector<std::string> Fields() const;

  // One spelling per meaning of the syntax: single quotes, one blank around operators, no
  // redundant parentheses, numbers in shortest form. Parse(Canonical()) gives the same predicate.
  std::string Canonical() const;

  bool Evaluate(const FieldSource& fields) const;

 private:
  explicit Predicate(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
  // Shared because a Contract is copied freely and the tree never changes.
  std::shared_ptr<const Node> root_;
};

}  // namespace kcc
