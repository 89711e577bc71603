// The type rules of the predicate language.
//
// A known field has the type of its row in fields.cc. An unknown request field takes its type from
// its uses, which must agree; where two unknown fields are compared, the type of one is that of
// the other. A pair that nothing settles (`a == b`) is compared as whatever a request holds.
#include <map>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/predicate/predicate_lexer.h"
#include "kcc/predicate/predicate_node.h"

namespace kcc {
namespace {

using Node = Predicate::Node;
using Kind = Node::Kind;

// The operand in an error message.
std::string Describe(const Node& node) {
  switch (node.kind) {
    case Kind::kField:
    case Kind::kText:
      return "'" + node.text + "'";
    case Kind::kNumber:
      return ShortestNumber(node.number);
    case Kind::kBool:
      return node.boolean ? "true" : "false";
    case Kind::kNumberList:
    case Kind::kTextList:
      return "the list";
    default:
      return "the condition";
  }
}

// "a number", "a list of text".
std::string AType(FieldType type) { return "a " + std::string(Name(type)); }

bool IsLiteralList(const Node& node) {
  return node.kind == Kind::kNumberList || node.kind == Kind::kTextList;
}

class Checker {
 public:
  Result<> Run(const Node& root) {
    KCC_TRY_VOID(Condition(root));
    // Each pass settles a field or is the last.
    bool settled = true;
    while (settled) {
      settled = false;
      for (const auto& [left, right] : links_) {
        KCC_TRY(const bool changed, Link(*left, *right));
        settled = settled || changed;
      }
    }
    return {};
  }

 private:
  // The type of an operand, if it is known (yet).
  std::optional<FieldType> TypeOf(const Node& node) const {
    switch (node.kind) {
      case Kind::kNumber:
        return FieldType::kNumber;
      case Kind::kText:
        return FieldType::kText;
      case Kind::kTextList:
        return FieldType::kTextList;
      case Kind::kNumberList:
        return {};
      case Kind::kField: {
        if (const PredicateField* known = FindPredicateField(node.text)) return known->type;
        const auto inferred = inferred_.find(node.text);
        if (inferred == inferred_.end()) return {};
        return inferred->second;
      }
      default:
        return FieldType::kBool;
    }
  }

  // The operand must have the type; an unknown field takes it.
  Result<> Require(const Node& node, FieldType type, const std::string& because) {
    const std::optional<FieldType> has = TypeOf(node);
    if (!has && node.kind == Kind::kField) {
      inferred_[node.text] = type;
      return {};
    }
    if (has == type) return {};
    std::string message = because + ", and " + Describe(node) + " is ";
    if (node.kind == Kind::kField && FindPredicateField(node.text) == nullptr) {
      message = because + ", but elsewhere in this predicate " + Describe(node) + " is ";
    }
    message += has ? AType(*has) : "a list of numbers";
    return PredicateError(node.offset, std::move(message));
  }

  Result<> Condition(const Node& node) {
    switch (node.kind) {
      case Kind::kBool:
        return {};
      case Kind::kNot:
      case Kind::kAnd:
      case Kind::kOr:
        for (const Node& child : node.children) KCC_TRY_VOID(Condition(child));
        return {};
      case Kind::kCompare:
        return Comparison(node);
      case Kind::kField:
        return BareField(node);
      default:
        return PredicateError(node.offset,
                              Describe(node) + " is no condition; compare a field with it");
    }
  }

  Result<> BareField(const Node& node) {
    const PredicateField* known = FindPredicateField(node.text);
    if (known != nullptr && known->type != FieldType::kBool) {
      const std::string example = known->type == FieldType::kNumber ? node.text + " > 0"
                                  : known->type == FieldType::kText ? node.text + " == 'x'"
                                                                    : "'x' in " + node.text;
      return PredicateError(node.offset, "'" + node.text + "' is " + AType(known->type) +
                                             ", not a condition; compare it, as in " + example);
    }
    return Require(node, FieldType::kBool, "standing alone it must be a bool");
  }

  Result<> Comparison(const Node& node) {
    for (const Node& child : node.children) {
      if (child.is_condition()) KCC_TRY_VOID(Condition(child));
    }
    switch (node.op) {
      case CompareOp::kIn:
      case CompareOp::kNotIn:
        return Membership(node);
      case CompareOp::kEqual:
      case CompareOp::kNotEqual:
        return Equality(node);
      default:
        for (const Node& child : node.children) {
          KCC_TRY_VOID(Require(child, FieldType::kNumber,
                               "'" + std::string(Name(node.op)) + "' orders numbers"));
        }
        return {};
    }
  }

  Result<> Equality(const Node& node) {
    for (const Node& child : node.children) {
      const bool list_field = child.kind == Kind::kField && TypeOf(child) == FieldType::kTextList;
      if (IsLiteralList(child) || list_field) {
        return PredicateError(child.offset, Describe(child) + " is a list; test it with 'in', as " +
                                                "in 'x' in " +
                                                (list_field ? child.text : std::string("tags")));
      }
    }
    links_.emplace_back(&node.children[0], &node.children[1]);
    KCC_TRY_VOID(Link(node.children[0], node.children[1]));
    return {};
  }

  // Both operands of == have one type. True if that settled a field.
  Result<bool> Link(const Node& left, const Node& right) {
    const std::optional<FieldType> left_type = TypeOf(left);
    const std::optional<FieldType> right_type = TypeOf(right);
    const bool list = left_type == FieldType::kTextList || right_type == FieldType::kTextList;
    if (list) return PredicateError(left.offset, "lists are not compared; test them with 'in'");
    if (left_type == right_type) return false;
    if (left_type) {
      KCC_TRY_VOID(Require(right, *left_type, Compared(left, *left_type)));
    } else {
      KCC_TRY_VOID(Require(left, *right_type, Compared(right, *right_type)));
    }
    return true;
  }

  static std::string Compared(const Node& with, FieldType type) {
    const bool literal = with.kind == Kind::kNumber || with.kind == Kind::kText;
    return "compared with " + (literal ? AType(type) : Describe(with) + ", " + AType(type));
  }

  Result<> Membership(const Node& node) {
    const Node& item = node.children[0];
    const Node& list = node.children[1];
    const std::string because = "'" + std::string(Name(node.op)) + "' ";
    if (IsLiteralList(item) || TypeOf(item) == FieldType::kTextList) {
      return PredicateError(item.offset, "a list stands right of 'in'; write 'x' in " +
                                             (item.kind == Kind::kField ? item.text : "tags") +
                                             " once for each text");
    }
    if (list.kind == Kind::kNumberList) {
      return Require(item, FieldType::kNumber, because + "looks in a list of numbers");
    }
    KCC_TRY_VOID(Require(list, FieldType::kTextList, because + "asks for a list on its right"));
    return Require(item, FieldType::kText, because + "looks in a list of text");
  }

  std::map<std::string, FieldType> inferred_;
  std::vector<std::pair<const Node*, const Node*>> links_;
};

}  // namespace

Result<> CheckPredicateTypes(const Node& root) { return Checker().Run(root); }

}  // namespace kcc
