// Recursive descent over the grammar of expression.h; one function a rule. Depth is bounded, so
// that neither parsing nor evaluating can exhaust the stack.
#include <algorithm>
#include <array>
#include <utility>

#include "kcc/predicate/expression_node.h"
#include "kcc/predicate/predicate_lexer.h"

namespace kcc {
namespace {

using Node = Expression::Node;
using Kind = Node::Kind;

struct Function {
  std::string_view name;
  Kind kind;
  size_t arguments_min;
  size_t arguments_max;
};

constexpr std::array kFunctions = {
    Function{"abs", Kind::kAbs, 1, 1},
    Function{"min", Kind::kMin, 2, kExpressionBytesMax},
    Function{"max", Kind::kMax, 2, kExpressionBytesMax},
};

// Words of the predicate language, which select and do not count.
constexpr std::array<std::string_view, 6> kConditionWords = {"and", "or",   "not",
                                                             "in",  "true", "false"};

class Parser {
 public:
  explicit Parser(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}

  Result<Node> Run() {
    if (Is(LexemeKind::kEnd)) return ExpressionError(0, "the expression is empty; name a field");
    KCC_TRY(Node root, Sum(0));
    if (Is(LexemeKind::kEnd)) return root;
    if (Is(LexemeKind::kCloseParen)) return ExpressionError(Now().offset, "')' without its '('");
    if (Is(LexemeKind::kComma)) {
      return ExpressionError(Now().offset, "a comma separates what min() and max() are given");
    }
    return ExpressionError(Now().offset, "unexpected " + Written() + "; join values with + - * /");
  }

 private:
  const Lexeme& Now() const { return lexemes_[at_]; }
  bool Is(LexemeKind kind) const { return Now().kind == kind; }
  bool Accept(LexemeKind kind) {
    if (!Is(kind)) return false;
    ++at_;
    return true;
  }
  std::string Written() const {
    return Is(LexemeKind::kEnd) ? "the end" : "'" + std::string(Now().source) + "'";
  }

  Result<> CheckDepth(int depth) const {
    if (depth <= kExpressionDepthMax) return {};
    return ExpressionError(Now().offset,
                           "nested deeper than " + std::to_string(kExpressionDepthMax) + " levels");
  }

  static Node Join(Kind kind, Node left, Node right) {
    Node node;
    node.kind = kind;
    node.children.push_back(std::move(left));
    node.children.push_back(std::move(right));
    return node;
  }

  // A chain of one strength is a tree that leans to the left. Its length is bounded by that of the
  // text, and writing it without its parentheses must not make it deeper, so it is no depth here.
  Result<Node> Sum(int depth) {
    KCC_TRY(Node left, Product(depth));
    while (Is(LexemeKind::kPlus) || Is(LexemeKind::kMinus)) {
      const Kind kind = Is(LexemeKind::kPlus) ? Kind::kAdd : Kind::kSubtract;
      ++at_;
      KCC_TRY(Node right, Product(depth));
      left = Join(kind, std::move(left), std::move(right));
    }
    return left;
  }

  Result<Node> Product(int depth) {
    KCC_TRY(Node left, Unary(depth));
    while (Is(LexemeKind::kTimes) || Is(LexemeKind::kDivide)) {
      const Kind kind = Is(LexemeKind::kTimes) ? Kind::kMultiply : Kind::kDivide;
      ++at_;
      KCC_TRY(Node right, Unary(depth));
      left = Join(kind, std::move(left), std::move(right));
    }
    return left;
  }

  Result<Node> Unary(int depth) {
    if (!Is(LexemeKind::kMinus)) return Atom(depth);
    KCC_TRY_VOID(CheckDepth(depth + 1));
    ++at_;
    Node node;
    node.kind = Kind::kNegate;
    KCC_TRY(Node operand, Unary(depth + 1));
    node.children.push_back(std::move(operand));
    return node;
  }

  Result<Node> Atom(int depth) {
    Node node;
    switch (Now().kind) {
      case LexemeKind::kNumber:
        node.kind = Kind::kNumber;
        node.number = Now().number;
        ++at_;
        return node;
      case LexemeKind::kField:
        return FieldOrCall(depth);
      case LexemeKind::kOpenParen: {
        const size_t open = Now().offset;
        ++at_;
        KCC_TRY_VOID(CheckDepth(depth + 1));
        KCC_TRY(Node inside, Sum(depth + 1));
        KCC_TRY_VOID(Close(open));
        return inside;
      }
      default:
        return ExpressionError(Now().offset, "expected a field or a number, found " + Written());
    }
  }

  Result<> Close(size_t open) {
    if (Accept(LexemeKind::kCloseParen)) return {};
    if (Is(LexemeKind::kEnd)) return ExpressionError(open, "'(' without its ')'");
    return ExpressionError(Now().offset, "expected ')', found " + Written());
  }

  Result<Node> FieldOrCall(int depth) {
    const Lexeme& name = Now();
    if (at_ + 1 < lexemes_.size() && lexemes_[at_ + 1].kind == LexemeKind::kOpenParen) {
      const auto* function =
          std::find_if(kFunctions.begin(), kFunctions.end(),
                       [&](const Function& row) { return row.name == name.source; });
      if (function == kFunctions.end()) {
        return ExpressionError(name.offset, "unknown function '" + std::string(name.source) +
                                                "'; there are abs(), min() and max()");
      }
      return Call(*function, depth);
    }
    const auto* word = std::find(kConditionWords.begin(), kConditionWords.end(), name.source);
    if (word != kConditionWords.end()) {
      return ExpressionError(name.offset, "'" + std::string(name.source) +
                                              "' belongs to conditions; a metric is a number");
    }
    KCC_TRY_VOID(CheckFieldName(name.source, name.offset));
    const PredicateField* known = FindPredicateField(name.source);
    if (known != nullptr && known->type != FieldType::kNumber && known->type != FieldType::kBool) {
      return ExpressionError(name.offset, "'" + std::string(name.source) + "' is a " +
                                              std::string(Name(known->type)) +
                                              "; arithmetic needs numbers, or bools as 0 and 1");
    }
    Node node;
    node.kind = Kind::kField;
    node.text = name.source;
    ++at_;
    return node;
  }

  Result<Node> Call(const Function& function, int depth) {
    KCC_TRY_VOID(CheckDepth(depth + 1));
    const size_t start = Now().offset;
    const size_t open = lexemes_[at_ + 1].offset;
    at_ += 2;
    Node node;
    node.kind = function.kind;
    do {
      KCC_TRY(Node argument, Sum(depth + 1));
      node.children.push_back(std::move(argument));
    } while (Accept(LexemeKind::kComma));
    KCC_TRY_VOID(Close(open));
    const size_t count = node.children.size();
    if (count < function.arguments_min || count > function.arguments_max) {
      return ExpressionError(
          start, std::string(function.name) + "() takes " +
                     (function.arguments_max == 1 ? "one value" : "two values or more") + ", not " +
                     std::to_string(count));
    }
    return node;
  }

  std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
};

}  // namespace

Error ExpressionError(size_t offset, std::string message) {
  return PredicateError(offset, std::move(message));
}

Result<Node> ParseExpressionTree(std::string_view text) {
  if (text.size() > kExpressionBytesMax) {
    return ExpressionError(0, "an expression of " + std::to_string(text.size()) +
                                  " bytes; the longest is " + std::to_string(kExpressionBytesMax));
  }
  KCC_TRY(std::vector<Lexeme> lexemes, LexArithmetic(text));
  return Parser(std::move(lexemes)).Run();
}

}  // namespace kcc
