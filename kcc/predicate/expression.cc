#include "kcc/predicate/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "kcc/base/strings.h"
#include "kcc/predicate/expression_node.h"
#include "kcc/predicate/fields.h"

namespace kcc {
namespace {

using Node = Expression::Node;
using Kind = Node::Kind;

void CollectFields(const Node& node, std::set<std::string>* fields) {
  if (node.kind == Kind::kField) fields->insert(node.text);
  for (const Node& child : node.children) CollectFields(child, fields);
}

// --- Writing.

// How strongly a node holds its parts together.
int Strength(Kind kind) {
  switch (kind) {
    case Kind::kAdd:
    case Kind::kSubtract:
      return 1;
    case Kind::kMultiply:
    case Kind::kDivide:
      return 2;
    case Kind::kNegate:
      return 3;
    default:
      return 4;
  }
}

void AppendNode(const Node& node, std::string* out);

void AppendWithin(const Node& node, bool parentheses, std::string* out) {
  if (parentheses) *out += '(';
  AppendNode(node, out);
  if (parentheses) *out += ')';
}

void AppendCall(const Node& node, std::string_view name, std::string* out) {
  out->append(name).append("(");
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0) *out += ", ";
    AppendNode(node.children[i], out);
  }
  *out += ')';
}

void AppendNode(const Node& node, std::string* out) {
  switch (node.kind) {
    case Kind::kNumber:
      *out += ShortestNumber(node.number);
      return;
    case Kind::kField:
      *out += node.text;
      return;
    case Kind::kNegate:
      *out += '-';
      AppendWithin(node.children[0], Strength(node.children[0].kind) < Strength(Kind::kNegate),
                   out);
      return;
    case Kind::kAbs:
      return AppendCall(node, "abs", out);
    case Kind::kMin:
      return AppendCall(node, "min", out);
    case Kind::kMax:
      return AppendCall(node, "max", out);
    case Kind::kAdd:
    case Kind::kSubtract:
    case Kind::kMultiply:
    case Kind::kDivide: {
      constexpr std::array<std::string_view, 4> kSigns = {" + ", " - ", " * ", " / "};
      const int strength = Strength(node.kind);
      // Operations of one strength are done from the left, so only the right side needs to say.
      AppendWithin(node.children[0], Strength(node.children[0].kind) < strength, out);
      *out += kSigns[static_cast<size_t>(node.kind) - static_cast<size_t>(Kind::kAdd)];
      AppendWithin(node.children[1], Strength(node.children[1].kind) <= strength, out);
      return;
    }
  }
}

// --- Evaluating.

std::optional<double> IfFinite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> FieldNumber(const Node& node, const FieldSource& fields) {
  const std::string_view name = node.text;
  const FieldValue value = node.is_token_field()
                               ? fields.TokenField(name.substr(kTokenFieldPrefix.size()))
                               : fields.RequestField(name);
  if (const double* number = std::get_if<double>(&value)) return IfFinite(*number);
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<double> ValueOf(const Node& node, const FieldSource& fields) {
  if (node.kind == Kind::kNumber) return node.number;
  if (node.kind == Kind::kField) return FieldNumber(node, fields);
  std::optional<double> value = ValueOf(node.children[0], fields);
  if (!value) return std::nullopt;
  if (node.kind == Kind::kNegate) return -*value;
  if (node.kind == Kind::kAbs) return std::fabs(*value);
  for (size_t i = 1; i < node.children.size(); ++i) {
    const std::optional<double> next = ValueOf(node.children[i], fields);
    if (!next) return std::nullopt;
    switch (node.kind) {
      case Kind::kAdd:
        value = *value + *next;
        break;
      case Kind::kSubtract:
        value = *value - *next;
        break;
      case Kind::kMultiply:
        value = *value * *next;
        break;
      case Kind::kDivide:
        value = *value / *next;
        break;
      case Kind::kMin:
        value = std::min(*value, *next);
        break;
      default:
        value = std::max(*value, *next);
        break;
    }
  }
  // Here and not at the end: what is built on infinity can be finite again.
  return IfFinite(*value);
}

}  // namespace

Result<Expression> Expression::Parse(std::string_view text) {
  KCC_TRY(Node root, ParseExpressionTree(text));
  Expression expression(std::make_shared<const Node>(std::move(root)));
  if (expression.Fields().empty()) {
    return ExpressionError(0, "it reads no field, so that every value would be the same; name one");
  }
  // The canonical form can be longer than what was written, and must itself be readable.
  const size_t size = expression.Canonical().size();
  if (size > kExpressionBytesMax) {
    return ExpressionError(0, "an expression of " + std::to_string(size) +
                                  " bytes in canonical form; the longest is " +
                                  std::to_string(kExpressionBytesMax));
  }
  return expression;
}

bool Expression::reads_token() const {
  const std::vector<std::string> fields = Fields();
  return std::any_of(fields.begin(), fields.end(),
                     [](const std::string& field) { return field.starts_with(kTokenFieldPrefix); });
}

std::vector<std::string> Expression::Fields() const {
  std::set<std::string> fields;
  CollectFields(*root_, &fields);
  return {fields.begin(), fields.end()};
}

std::string Expression::Canonical() const {
  std::string text;
  AppendNode(*root_, &text);
  return text;
}

std::optional<double> Expression::Evaluate(const FieldSource& fields) const {
  const std::optional<double> value = ValueOf(*root_, fields);
  return value ? std::optional(*value + 0.0) : std::nullopt;  // -0 is 0
}

}  // namespace kcc
