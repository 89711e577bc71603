#include "kcc/predicate/predicate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"
#include "kcc/predicate/predicate_lexer.h"
#include "kcc/predicate/predicate_node.h"

namespace kcc {
namespace {

using Node = Predicate::Node;
using Kind = Node::Kind;

constexpr std::array<std::string_view, 8> kOperators = {
    "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

void CollectFields(const Node& node, std::set<std::string>* fields) {
  if (node.kind == Kind::kField) fields->insert(node.text);
  for (const Node& child : node.children) CollectFields(child, fields);
}

bool ReadsToken(const Node& node) {
  return node.is_token_field() ||
         std::any_of(node.children.begin(), node.children.end(), ReadsToken);
}

// --- Writing.

void AppendQuoted(std::string_view text, std::string* out) {
  constexpr std::string_view kSpecial = "\\'\n\r\t";
  constexpr std::string_view kLetters = "\\'nrt";
  *out += '\'';
  for (const char c : text) {
    const size_t special = kSpecial.find(c);
    if (special == kSpecial.npos) {
      *out += c;
    } else {
      (*out += '\\') += kLetters[special];
    }
  }
  *out += '\'';
}

template <class Values, class Append>
void AppendList(const Values& values, Append append, std::string* out) {
  *out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) *out += ", ";
    append(values[i]);
  }
  *out += ']';
}

void AppendNode(const Node& node, std::string* out);

void AppendParenthesised(const Node& node, bool parentheses, std::string* out) {
  if (parentheses) *out += '(';
  AppendNode(node, out);
  if (parentheses) *out += ')';
}

void AppendNode(const Node& node, std::string* out) {
  switch (node.kind) {
    case Kind::kNumber:
      *out += ShortestNumber(node.number);
      break;
    case Kind::kText:
      AppendQuoted(node.text, out);
      break;
    case Kind::kBool:
      *out += node.boolean ? "true" : "false";
      break;
    case Kind::kNumberList:
      AppendList(
          node.numbers, [&](double value) { *out += ShortestNumber(value); }, out);
      break;
    case Kind::kTextList:
      AppendList(
          node.texts, [&](std::string_view text) { AppendQuoted(text, out); }, out);
      break;
    case Kind::kField:
      *out += node.text;
      break;
    case Kind::kNot: {
      const Kind inner = node.children[0].kind;
      *out += "not ";
      AppendParenthesised(node.children[0], inner == Kind::kAnd || inner == Kind::kOr, out);
      break;
    }
    case Kind::kAnd:
    case Kind::kOr:
      for (size_t i = 0; i < node.children.size(); ++i) {
        if (i > 0) *out += node.kind == Kind::kAnd ? " and " : " or ";
        AppendParenthesised(node.children[i], node.children[i].kind == Kind::kOr, out);
      }
      break;
    case Kind::kCompare:
      AppendParenthesised(node.children[0], node.children[0].is_condition(), out);
      out->append(" ").append(Name(node.op)).append(" ");
      AppendParenthesised(node.children[1], node.children[1].is_condition(), out);
      break;
  }
}

// --- Evaluating.

bool Holds(const Node& node, const FieldSource& fields);

FieldValue ValueOf(const Node& node, const FieldSource& fields) {
  switch (node.kind) {
    case Kind::kNumber:
      return node.number;
    case Kind::kText:
      return std::string_view(node.text);
    case Kind::kBool:
      return node.boolean;
    case Kind::kTextList:
      return &node.texts;
    case Kind::kNumberList:
      break;  // read from the node where it stands
    case Kind::kField: {
      const std::string_view name = node.text;
      FieldValue value = node.is_token_field()
                             ? fields.TokenField(name.substr(kTokenFieldPrefix.size()))
                             : fields.RequestField(name);
      const double* number = std::get_if<double>(&value);
      if (number != nullptr && std::isnan(*number)) return {};
      return value;
    }
    default:
      return Holds(node, fields);
  }
  return {};
}

bool IsMember(const Node& comparison, const FieldValue& item, const FieldSource& fields,
              bool negated) {
  const Node& list = comparison.children[1];
  if (list.kind == Kind::kNumberList) {
    const double* number = std::get_if<double>(&item);
    if (number == nullptr) return false;
    return std::binary_search(list.numbers.begin(), list.numbers.end(), *number) != negated;
  }
  const FieldValue value = ValueOf(list, fields);
  const auto* texts = std::get_if<const std::vector<std::string>*>(&value);
  const auto* text = std::get_if<std::string_view>(&item);
  if (texts == nullptr || *texts == nullptr || text == nullptr) return false;
  return (std::find((*texts)->begin(), (*texts)->end(), *text) != (*texts)->end()) != negated;
}

// False whenever an operand is absent or, in the evidence, not of the type the predicate reads.
bool Compares(const Node& node, const FieldSource& fields) {
  const FieldValue left = ValueOf(node.children[0], fields);
  if (left.index() == 0) return false;
  if (node.op == CompareOp::kIn || node.op == CompareOp::kNotIn) {
    return IsMember(node, left, fields, node.op == CompareOp::kNotIn);
  }
  const FieldValue right = ValueOf(node.children[1], fields);
  if (left.index() != right.index()) return false;
  if (std::holds_alternative<const std::vector<std::string>*>(left)) return false;
  if (node.op == CompareOp::kEqual) return left == right;
  if (node.op == CompareOp::kNotEqual) return left != right;
  const double* a = std::get_if<double>(&left);
  const double* b = std::get_if<double>(&right);
  if (a == nullptr || b == nullptr) return false;
  switch (node.op) {
    case CompareOp::kLess:
      return *a < *b;
    case CompareOp::kLessEqual:
      return *a <= *b;
    case CompareOp::kGreater:
      return *a > *b;
    default:
      return *a >= *b;
  }
}

bool Holds(const Node& node, const FieldSource& fields) {
  const auto holds = [&](const Node& child) { return Holds(child, fields); };
  switch (node.kind) {
    case Kind::kBool:
      return node.boolean;
    case Kind::kNot:
      return !holds(node.children[0]);
    case Kind::kAnd:
      return std::all_of(node.children.begin(), node.children.end(), holds);
    case Kind::kOr:
      return std::any_of(node.children.begin(), node.children.end(), holds);
    case Kind::kCompare:
      return Compares(node, fields);
    case Kind::kField: {
      const FieldValue value = ValueOf(node, fields);
      const bool* boolean = std::get_if<bool>(&value);
      return boolean != nullptr && *boolean;
    }
    default:
      KCC_CHECK(false);  // the type check leaves no other condition
      return false;
  }
}

}  // namespace

std::string_view Name(CompareOp op) { return kOperators[static_cast<size_t>(op)]; }

Result<Predicate> Predicate::Parse(std::string_view text) {
  KCC_TRY(Node root, ParsePredicateTree(text));
  KCC_TRY_VOID(CheckPredicateTypes(root));
  Predicate predicate(std::make_shared<const Node>(std::move(root)));
  // The canonical form can be longer than what was written, and must itself be readable.
  const size_t size = predicate.Canonical().size();
  if (size > kPredicateBytesMax) {
    return PredicateError(0, "a predicate of " + std::to_string(size) +
                                 " bytes in canonical form; the longest is " +
                                 std::to_string(kPredicateBytesMax));
  }
  return predicate;
}

bool Predicate::reads_token() const { return ReadsToken(*root_); }

std::vector<std::string> Predicate::Fields() const {
  std::set<std::string> fields;
  CollectFields(*root_, &fields);
  return {fields.begin(), fields.end()};
}

std::string Predicate::Canonical() const {
  std::string text;
  AppendNode(*root_, &text);
  return text;
}

bool Predicate::Evaluate(const FieldSource& fields) const { return Holds(*root_, fields); }

}  // namespace kcc
