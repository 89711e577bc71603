// The slice predicate language: a small typed expression over request fields and token fields.
//
//   or    := and ("or" and)*            and := not ("and" not)*          not := "not" not | cmp
//   cmp   := term (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in") term)?
//   term  := number | 'string' | "string" | true | false | field | "[" term ("," term)* "]" | "("
//   or ")"
//
// No functions, no loops, no assignment; every predicate ends. Texts know the escapes \\ \' \" \n
// \r \t. Types are number, text, bool and list of text (predicate/fields.h); a list literal holds
// texts or numbers. `<` orders numbers only, == wants one type on both sides.
//
// A field that a request lacks, that is NaN or that is not of the type the predicate reads makes
// the comparison it stands in false, also `!=` and `not in`: an absent tag never selects anything.
// `not` is plain negation: `not (x == 1)` selects a request without x, `x != 1` does not.
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

  // Parses and type-checks; at most 4 KiB, nested at most 64 deep. The error's place holds the
  // column within `text` (line 1), in bytes from 1.
  static Result<Predicate> Parse(std::string_view text);

  // True if the predicate reads a token.* field, so that it selects tokens, not requests.
  bool reads_token() const;

  // Every field it reads, sorted, token fields with their prefix.
  std::vector<std::string> Fields() const;

  // One spelling per meaning of the syntax: single quotes, one blank around operators, no
  // redundant parentheses, numbers in shortest form, list literals sorted and without repetition.
  // Parse(Canonical()) gives the same predicate.
  std::string Canonical() const;

  bool Evaluate(const FieldSource& fields) const;

 private:
  explicit Predicate(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
  // Shared because a Contract is copied freely and the tree never changes.
  std::shared_ptr<const Node> root_;
};

}  // namespace kcc
