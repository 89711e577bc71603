// The tree of a predicate. Internal: predicate_parser.cc makes it, predicate_types.cc gives its
// fields their types, predicate.cc writes and evaluates it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/predicate/fields.h"
#include "kcc/predicate/predicate.h"

namespace kcc {

inline constexpr size_t kPredicateBytesMax = 4096;
inline constexpr int kPredicateDepthMax = 64;

enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

std::string_view Name(CompareOp op);  // "==", "not in"

struct Predicate::Node {
  enum class Kind : uint8_t {
    kNumber,
    kText,
    kBool,
    kNumberList,  // literal lists are sorted and without repetition
    kTextList,
    kField,
    kNot,      // one child
    kAnd,      // two or more children, none of them kAnd
    kOr,       // two or more children, none of them kOr
    kCompare,  // two children
  };
  Kind kind = Kind::kBool;
  size_t offset = 0;  // in the source, for errors
  double number = 0;
  bool boolean = false;
  CompareOp op = CompareOp::kEqual;
  std::string text;  // kText; kField: its name, with the token. prefix
  std::vector<double> numbers;
  std::vector<std::string> texts;
  std::vector<Node> children;

  // A condition: its value is true or false, never absent.
  bool is_condition() const { return kind >= Kind::kNot; }
  bool is_token_field() const {
    return kind == Kind::kField && text.starts_with(kTokenFieldPrefix);
  }
};

// Syntax only.
Result<Predicate::Node> ParsePredicateTree(std::string_view text);

// Every operand has the type its place asks for, and every field one type throughout.
Result<> CheckPredicateTypes(const Predicate::Node& root);

}  // namespace kcc
