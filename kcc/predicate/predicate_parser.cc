// Recursive descent over the grammar of predicate.h; one function a rule. Depth is bounded, so
// that neither parsing nor evaluating can exhaust the stack.
#include <algorithm>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/predicate/predicate_lexer.h"
#include "kcc/predicate/predicate_node.h"

namespace kcc {
namespace {

using Node = Predicate::Node;
using Kind = Node::Kind;

std::optional<CompareOp> OperatorOf(LexemeKind kind) {
  switch (kind) {
    case LexemeKind::kEqual:
      return CompareOp::kEqual;
    case LexemeKind::kNotEqual:
      return CompareOp::kNotEqual;
    case LexemeKind::kLess:
      return CompareOp::kLess;
    case LexemeKind::kLessEqual:
      return CompareOp::kLessEqual;
    case LexemeKind::kGreater:
      return CompareOp::kGreater;
    case LexemeKind::kGreaterEqual:
      return CompareOp::kGreaterEqual;
    case LexemeKind::kIn:
      return CompareOp::kIn;
    default:
      return {};
  }
}

template <class T>
void SortUnique(std::vector<T>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

// Invariant: at_ is the first lexeme that is not consumed, and the last lexeme is kEnd, which no
// rule consumes. So Now() is always there, and a rule that fails leaves at_ at what it did not
// expect, which is the place of the message. Example, `not a < 1 or b in [2]`, one line a rule:
//
//     Or           And ("or" And)*
//     And          Not ("and" Not)*              not a < 1        b in [2]
//     Not          "not" Not or Comparison       a < 1
//     Comparison   Term (operator Term)?         a, <, 1          b, in, [2]
//
// So "not" binds looser than a comparison, as in Python.
class Parser {
 public:
  explicit Parser(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}

  Result<Node> Run() {
    if (Is(LexemeKind::kEnd)) {
      return PredicateError(0, "the predicate is empty; leave `where` out to select everything");
    }
    KCC_TRY(Node root, Or(0));
    if (!Is(LexemeKind::kEnd)) return Leftover();
    return root;
  }

 private:
  const Lexeme& Now() const { return lexemes_[at_]; }
  bool Is(LexemeKind kind) const { return Now().kind == kind; }
  bool NextIs(LexemeKind kind) const {
    return at_ + 1 < lexemes_.size() && lexemes_[at_ + 1].kind == kind;
  }
  bool Accept(LexemeKind kind) {
    if (!Is(kind)) return false;
    ++at_;
    return true;
  }
  std::string Written() const {
    return Is(LexemeKind::kEnd) ? "the end" : "'" + std::string(Now().source) + "'";
  }

  // A whole predicate was read and something follows it.
  Error Leftover() const {
    if (Is(LexemeKind::kCloseParen)) {
      return PredicateError(Now().offset, "')' without its '('");
    }
    return PredicateError(Now().offset,
                          "unexpected " + Written() + "; join conditions with 'and' or 'or'");
  }

  Result<> CheckDepth(int depth) const {
    if (depth <= kPredicateDepthMax) return {};
    return PredicateError(Now().offset, "nested deeper than " + std::to_string(kPredicateDepthMax) +
                                            " levels; split the slice");
  }

  using Rule = Result<Node> (Parser::*)(int depth);

  // rule (joiner rule)*, flattened: (a and b) and c is a and b and c.
  Result<Node> Chain(Kind kind, LexemeKind joiner, Rule rule, int depth) {
    KCC_TRY(Node first, (this->*rule)(depth));
    if (!Is(joiner)) return first;
    Node chain;
    chain.kind = kind;
    chain.offset = first.offset;
    const auto add = [&](Node node) {
      if (node.kind != kind) {
        chain.children.push_back(std::move(node));
        return;
      }
      std::move(node.children.begin(), node.children.end(), std::back_inserter(chain.children));
    };
    add(std::move(first));
    while (Accept(joiner)) {
      KCC_TRY(Node next, (this->*rule)(depth));
      add(std::move(next));
    }
    return chain;
  }

  Result<Node> Or(int depth) { return Chain(Kind::kOr, LexemeKind::kOr, &Parser::And, depth); }
  Result<Node> And(int depth) { return Chain(Kind::kAnd, LexemeKind::kAnd, &Parser::Not, depth); }

  // Each `not` and each parenthesis is one level; chains are flat and cost none.
  Result<Node> Not(int depth) {
    if (!Is(LexemeKind::kNot)) return Comparison(depth);
    KCC_TRY_VOID(CheckDepth(depth + 1));
    Node node;
    node.kind = Kind::kNot;
    node.offset = Now().offset;
    ++at_;
    KCC_TRY(Node operand, Not(depth + 1));
    node.children.push_back(std::move(operand));
    return node;
  }

  // "not" alone cannot follow a term, so `a not in` needs no more than one lexeme ahead.
  std::optional<CompareOp> AcceptOperator() {
    if (Is(LexemeKind::kNot) && NextIs(LexemeKind::kIn)) {
      at_ += 2;
      return CompareOp::kNotIn;
    }
    const std::optional<CompareOp> op = OperatorOf(Now().kind);
    if (op) ++at_;
    return op;
  }

  Result<Node> Comparison(int depth) {
    KCC_TRY(Node left, Term(depth));
    const std::optional<CompareOp> op = AcceptOperator();
    if (!op) return left;
    Node node;
    node.kind = Kind::kCompare;
    node.offset = left.offset;
    node.op = *op;
    KCC_TRY(Node right, Term(depth));
    node.children.push_back(std::move(left));
    node.children.push_back(std::move(right));
    if (OperatorOf(Now().kind)) {
      return PredicateError(Now().offset,
                            "comparisons do not chain; write 1 < x and x < 3, not 1 < x < 3");
    }
    return node;
  }

  // Types are not looked at here (predicate_types.cc): `1 < 'a'` is a tree with a fault in it, and
  // the message can then name both sides.
  Result<Node> Term(int depth) {
    Node node;
    node.offset = Now().offset;
    switch (Now().kind) {
      case LexemeKind::kNumber:
        node.kind = Kind::kNumber;
        node.number = Now().number;
        break;
      case LexemeKind::kText:
        node.kind = Kind::kText;
        node.text = Now().text;
        break;
      case LexemeKind::kTrue:
      case LexemeKind::kFalse:
        node.kind = Kind::kBool;
        node.boolean = Is(LexemeKind::kTrue);
        break;
      case LexemeKind::kField:
        return Field();
      case LexemeKind::kOpenBracket:
        return List();
      case LexemeKind::kOpenParen:
        return Parenthesis(depth);
      default:
        return PredicateError(Now().offset,
                              "expected a field, a number or a text, found " + Written());
    }
    ++at_;
    return node;
  }

  Result<Node> Field() {
    Node node;
    node.kind = Kind::kField;
    node.offset = Now().offset;
    node.text = Now().source;
    KCC_TRY_VOID(CheckFieldName(node.text, node.offset));
    ++at_;
    return node;
  }

  Result<Node> List() {
    Node node;
    node.offset = Now().offset;
    do {
      ++at_;  // '[' or ','
      if (Is(LexemeKind::kText)) {
        node.texts.push_back(Now().text);
      } else if (Is(LexemeKind::kNumber)) {
        node.numbers.push_back(Now().number);
      } else {
        return PredicateError(Now().offset,
                              "a list holds texts in quotes or numbers, found " + Written());
      }
      if (!node.texts.empty() && !node.numbers.empty()) {
        return PredicateError(Now().offset, "a list holds texts or numbers, not both");
      }
      ++at_;
    } while (Is(LexemeKind::kComma));
    if (!Accept(LexemeKind::kCloseBracket)) {
      return PredicateError(Now().offset, "expected ',' or ']' in the list, found " + Written());
    }
    node.kind = node.texts.empty() ? Kind::kNumberList : Kind::kTextList;
    // A list is a set: two spellings of one slice are to have one digest.
    SortUnique(&node.texts);
    SortUnique(&node.numbers);
    return node;
  }

  Result<Node> Parenthesis(int depth) {
    KCC_TRY_VOID(CheckDepth(depth + 1));
    const size_t open = Now().offset;
    ++at_;
    KCC_TRY(Node inside, Or(depth + 1));
    if (Accept(LexemeKind::kCloseParen)) return inside;
    if (Is(LexemeKind::kEnd)) return PredicateError(open, "'(' without its ')'");
    return PredicateError(Now().offset, "expected ')', found " + Written());
  }

  std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
};

}  // namespace

namespace {

Error UnknownTokenField(std::string_view name, size_t offset) {
  std::string message = "unknown token field '" + std::string(name) + "'; ";
  std::vector<std::string_view> names;
  for (const PredicateField& row : PredicateFields()) {
    if (row.name.starts_with(kTokenFieldPrefix)) names.push_back(row.name);
  }
  // Compared without the prefix, which would make any two names look alike.
  const std::string_view bare = name.substr(kTokenFieldPrefix.size());
  std::vector<std::string_view> bare_names(names);
  for (std::string_view& each : bare_names) each.remove_prefix(kTokenFieldPrefix.size());
  if (const auto nearest = NearestWord(bare, bare_names)) {
    message.append("did you mean '").append(kTokenFieldPrefix).append(*nearest).append("'?");
  } else {
    message += "a token has " + JoinWords(names);
  }
  return PredicateError(offset, std::move(message));
}

}  // namespace

Result<> CheckFieldName(std::string_view name, size_t offset) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  if (!name.starts_with(kTokenFieldPrefix)) {
    return PredicateError(offset, "only token fields have a prefix; write '" +
                                      std::string(name.substr(dot + 1)) + "' for '" +
                                      std::string(name) + "'");
  }
  if (FindPredicateField(name) == nullptr) return UnknownTokenField(name, offset);
  return {};
}

Result<Node> ParsePredicateTree(std::string_view text) {
  if (text.size() > kPredicateBytesMax) {
    return PredicateError(0, "a predicate of " + std::to_string(text.size()) +
                                 " bytes; the longest is " + std::to_string(kPredicateBytesMax));
  }
  KCC_TRY(std::vector<Lexeme> lexemes, LexPredicate(text));
  return Parser(std::move(lexemes)).Run();
}

}  // namespace kcc
