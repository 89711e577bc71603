#include "kcc/rescore/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr size_t kSchemaBytesMax = size_t{1} << 20;
constexpr size_t kAnswerBytesMax = size_t{64} << 20;
constexpr int kDepthMax = 64;
// Values that are held against rules, in one answer: schemas that name themselves may ask for more
// than any machine can do.
constexpr int64_t kStepsMax = int64_t{1} << 22;
constexpr size_t kPatternTextMax = 4096;
// Of libstdc++: no search takes more than polynomial time, and none takes stack for each character;
// patterns with back-references, which need more, are refused.
const auto kPatternKind = std::regex::ECMAScript | std::regex_constants::__polynomial;

constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};
constexpr std::array<std::string_view, 11> kAnnotations = {
    "$schema", "$id",      "$comment",   "title",    "description", "default",
    "example", "examples", "deprecated", "readOnly", "writeOnly"};

// libstdc++ reads the number of a repeat or a back-reference without a look at its size.
bool HasLongNumber(std::string_view pattern) {
  constexpr size_t kDigitsMax = 6;
  bool in_braces = false;
  bool escaped = false;
  size_t digits = 0;  // of a number that the pattern's reader takes for one
  for (const char c : pattern) {
    const bool digit = c >= '0' && c <= '9';
    digits = digit && (digits > 0 || in_braces || escaped) ? digits + 1 : 0;
    if (digits > kDigitsMax) return true;
    if (!digit && c != ',') in_braces = c == '{' && !escaped;
    escaped = c == '\\' && !escaped;
  }
  return false;
}

bool Contains(std::span<const std::string_view> list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// One text for each value, whatever its spelling: keys in order, numbers as numbers.
std::string CanonicalText(json::element value) {
  if (const auto number = JsonNumber(value)) return ShortestNumber(*number + 0.0);
  json::object object;
  if (value.get(object) == simdjson::SUCCESS) {
    std::map<std::string, std::string> members;
    for (const auto [key, member] : object) members[std::string(key)] = CanonicalText(member);
    std::string text = "{";
    for (const auto& [key, member] : members) text += key + '\0' + member + ",";
    return text + "}";
  }
  json::array list;
  if (value.get(list) != simdjson::SUCCESS) return std::string(simdjson::minify(value));
  std::string text = "[";
  for (const json::element item : list) text += CanonicalText(item) + ",";
  return text + "]";
}

// Characters of UTF-8.
size_t LengthOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Fit Both(Fit a, Fit b) {
  if (a == Fit::kDoesNot || b == Fit::kDoesNot) return Fit::kDoesNot;
  return a == Fit::kUnknown || b == Fit::kUnknown ? Fit::kUnknown : Fit::kFits;
}

Fit Of(bool fits) { return fits ? Fit::kFits : Fit::kDoesNot; }

// How deep a check is, and how many steps it may still take.
struct Walk {
  int depth = 0;
  int64_t* steps = nullptr;
  Walk Deeper() const { return {depth + 1, steps}; }
};

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_out = false, high_out = false;  // the end itself does not belong to it

  bool Holds(double value) const {
    return (low_out ? value > low : value >= low) && (high_out ? value < high : value <= high);
  }
};

}  // namespace

using Child = std::unique_ptr<JsonSchema::Node>;

struct JsonSchema::Node {
  bool never = false;                           // the schema `false`
  std::vector<std::string_view> types;          // of kTypes; empty: any
  std::optional<std::set<std::string>> values;  // enum and const, canonical
  std::map<std::string, Child, std::less<>> properties;
  std::vector<std::string> required;
  Child additional;  // null: anything
  Child items;
  Range number, length, count, members;
  bool unique = false;
  std::optional<std::regex> pattern;
  std::vector<Child> any_of, all_of, one_of;
  Child none_of;
  std::string ref;
};

struct JsonSchema::Tree {
  Child root;
  std::map<std::string, Child, std::less<>> definitions;

  Fit Check(const Node& node, json::element value, Walk walk) const;
  Fit CheckObject(const Node& node, json::object object, Walk walk) const;
  Fit CheckList(const Node& node, json::array list, Walk walk) const;
  Fit CheckText(const Node& node, std::string_view text) const;
  Fit CheckGroups(const Node& node, json::element value, Walk walk) const;
};

namespace {

bool IsOfType(std::string_view type, json::element value) {
  const auto number = JsonNumber(value);
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "number") return number.has_value();
  if (type == "integer") return number.has_value() && *number == std::floor(*number);
  if (type == "string") return value.is_string();
  return type == "array" ? value.is_array() : value.is_object();
}

struct BoundRow;

class SchemaReader {
 public:
  explicit SchemaReader(std::string file) : file_(std::move(file)) {}

  Result<Child> Read(json::element value, int depth);
  std::set<std::string>& refs() { return refs_; }

 private:
  Error Wrong(const std::string& what) const { return InvalidError(what, Place{file_}); }
  Result<> Keyword(std::string_view key, json::element value, int depth, JsonSchema::Node* node);
  Result<> Bound(const BoundRow& row, json::element value, JsonSchema::Node* node);
  Result<> Values(std::string_view key, json::element value, JsonSchema::Node* node);
  Result<> Required(json::element value, JsonSchema::Node* node);
  Result<> Reference(json::element value, JsonSchema::Node* node);
  Result<> Types(json::element value, JsonSchema::Node* node);
  Result<> Group(std::string_view key, json::element value, int depth, std::vector<Child>* group);
  Result<> Properties(json::element value, int depth, JsonSchema::Node* node);

  const std::string file_;
  std::set<std::string> refs_;
};

Result<Child> SchemaReader::Read(json::element value, int depth) {
  auto node = std::make_unique<JsonSchema::Node>();
  if (depth > kDepthMax) return Wrong("the schema is nested too deep");
  bool flag = true;
  if (value.get(flag) == simdjson::SUCCESS) {
    node->never = !flag;
    return node;
  }
  json::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return Wrong("a schema must be an object, true or false");
  }
  std::set<std::string_view> seen;
  for (const auto [key, member] : object) {
    if (!seen.insert(key).second) return Wrong("'" + std::string(key) + "' stands twice");
    KCC_TRY_VOID(Keyword(key, member, depth, node.get()));
  }
  return node;
}

struct BoundRow {
  std::string_view key;
  Range JsonSchema::Node::*range;
  bool high, exclusive, counts;
};
constexpr BoundRow kBounds[] = {
    {"minimum", &JsonSchema::Node::number, false, false, false},
    {"maximum", &JsonSchema::Node::number, true, false, false},
    {"exclusiveMinimum", &JsonSchema::Node::number, false, true, false},
    {"exclusiveMaximum", &JsonSchema::Node::number, true, true, false},
    {"minLength", &JsonSchema::Node::length, false, false, true},
    {"maxLength", &JsonSchema::Node::length, true, false, true},
    {"minItems", &JsonSchema::Node::count, false, false, true},
    {"maxItems", &JsonSchema::Node::count, true, false, true},
    {"minProperties", &JsonSchema::Node::members, false, false, true},
    {"maxProperties", &JsonSchema::Node::members, true, false, true},
};

// Of `minimum` and `exclusiveMinimum` the one that holds more out.
Result<> SchemaReader::Bound(const BoundRow& row, json::element value, JsonSchema::Node* node) {
  const auto number = JsonNumber(value);
  if (!number || (row.counts && (*number < 0 || *number != std::floor(*number)))) {
    return Wrong("'" + std::string(row.key) + "' must be a " +
                 (row.counts ? "whole number" : "number"));
  }
  Range& range = node->*row.range;
  double& end = row.high ? range.high : range.low;
  bool& out = row.high ? range.high_out : range.low_out;
  const bool tighter = row.high ? *number < end : *number > end;
  if (tighter || (*number == end && row.exclusive)) {
    end = *number;
    out = row.exclusive;
  }
  return {};
}

Result<> SchemaReader::Types(json::element value, JsonSchema::Node* node) {
  std::vector<json::element> words = {value};
  if (value.is_array()) words = *JsonList(value);
  for (const json::element word : words) {
    const auto type = std::find(kTypes.begin(), kTypes.end(), JsonText(word));
    if (type == kTypes.end())
      return Wrong("there is no type " + std::string(simdjson::minify(word)));
    node->types.push_back(*type);
  }
  if (node->types.empty()) return Wrong("'type' names no type");
  return {};
}

Result<> SchemaReader::Group(std::string_view key, json::element value, int depth,
                             std::vector<Child>* group) {
  const auto list = JsonList(value);
  if (!list || list->empty()) return Wrong("'" + std::string(key) + "' must be a list of schemas");
  for (const json::element item : *list) {
    KCC_TRY(Child child, Read(item, depth + 1));
    group->push_back(std::move(child));
  }
  return {};
}

Result<> SchemaReader::Properties(json::element value, int depth, JsonSchema::Node* node) {
  json::object object;
  if (value.get(object) != simdjson::SUCCESS) return Wrong("'properties' must be an object");
  for (const auto [name, member] : object) {
    KCC_TRY(Child child, Read(member, depth + 1));
    node->properties.insert_or_assign(std::string(name), std::move(child));
  }
  return {};
}

Result<> SchemaReader::Values(std::string_view key, json::element value, JsonSchema::Node* node) {
  const auto list = key == "enum" ? JsonList(value) : std::vector<json::element>{value};
  if (!list) return Wrong("'enum' must be a list");
  std::set<std::string> values;
  for (const json::element item : *list) values.insert(CanonicalText(item));
  if (node->values) {
    std::erase_if(values, [&](const auto& text) { return !node->values->contains(text); });
  }
  node->values = std::move(values);
  return {};
}

Result<> SchemaReader::Required(json::element value, JsonSchema::Node* node) {
  const auto list = JsonList(value);
  if (!list) return Wrong("'required' must be a list of names");
  for (const json::element item : *list) {
    if (!item.is_string()) return Wrong("'required' must be a list of names");
    node->required.emplace_back(JsonText(item));
  }
  return {};
}

Result<> SchemaReader::Reference(json::element value, JsonSchema::Node* node) {
  for (const std::string_view where : {"#/$defs/", "#/definitions/"}) {
    if (JsonText(value).starts_with(where)) node->ref = JsonText(value).substr(where.size());
  }
  if (node->ref.empty()) {
    return Wrong("'$ref' can name #/$defs/NAME and #/definitions/NAME, not " +
                 std::string(simdjson::minify(value)));
  }
  refs_.insert(node->ref);
  return {};
}

Result<> SchemaReader::Keyword(std::string_view key, json::element value, int depth,
                               JsonSchema::Node* node) {
  if (Contains(kAnnotations, key) || key == "$defs" || key == "definitions") return {};
  for (const BoundRow& row : kBounds) {
    if (row.key == key) return Bound(row, value, node);
  }
  if (key == "type") return Types(value, node);
  if (key == "properties") return Properties(value, depth, node);
  if (key == "required") return Required(value, node);
  if (key == "enum" || key == "const") return Values(key, value, node);
  if (key == "anyOf") return Group(key, value, depth, &node->any_of);
  if (key == "allOf") return Group(key, value, depth, &node->all_of);
  if (key == "oneOf") return Group(key, value, depth, &node->one_of);
  if (key == "$ref") return Reference(value, node);
  if (key == "items" || key == "additionalProperties" || key == "not") {
    KCC_TRY(Child child, Read(value, depth + 1));
    (key == "items" ? node->items
     : key == "not" ? node->none_of
                    : node->additional) = std::move(child);
    return {};
  }
  if (key == "uniqueItems") {
    if (value.get(node->unique) == simdjson::SUCCESS) return {};
    return Wrong("'uniqueItems' is true or false");
  }
  if (key == "pattern") {
    if (!value.is_string()) return Wrong("'pattern' must be a text");
    if (HasLongNumber(JsonText(value))) {
      return Wrong("'pattern' has a number of more than six digits: " +
                   std::string(simdjson::minify(value)));
    }
    try {
      node->pattern.emplace(std::string(JsonText(value)), kPatternKind);
      return {};
    } catch (const std::regex_error&) {
      return Wrong("'pattern' is no regular expression: " + std::string(simdjson::minify(value)));
    }
  }
  return Wrong("the keyword '" + std::string(key) +
               "' is not checked here, and what is not checked must not be asked for");
}

}  // namespace

Fit JsonSchema::Tree::CheckObject(const Node& node, json::object object, Walk walk) const {
  std::set<std::string_view> names;
  Fit fit = Fit::kFits;
  for (const auto [name, member] : object) {
    // What a reader would take of two members of one name depends on the reader.
    if (!names.insert(name).second) return Fit::kDoesNot;
    const auto known = node.properties.find(name);
    const Node* const rule =
        known != node.properties.end() ? known->second.get() : node.additional.get();
    if (rule != nullptr) fit = Both(fit, Check(*rule, member, walk.Deeper()));
  }
  for (const std::string& name : node.required) {
    if (!names.contains(name)) return Fit::kDoesNot;
  }
  return Both(fit, Of(node.members.Holds(static_cast<double>(names.size()))));
}

Fit JsonSchema::Tree::CheckList(const Node& node, json::array list, Walk walk) const {
  std::set<std::string> texts;
  size_t count = 0;
  Fit fit = Fit::kFits;
  for (const json::element item : list) {
    ++count;
    if (node.unique && !texts.insert(CanonicalText(item)).second) return Fit::kDoesNot;
    if (node.items != nullptr) fit = Both(fit, Check(*node.items, item, walk.Deeper()));
  }
  return Both(fit, Of(node.count.Holds(static_cast<double>(count))));
}

Fit JsonSchema::Tree::CheckText(const Node& node, std::string_view text) const {
  if (!node.length.Holds(static_cast<double>(LengthOf(text)))) return Fit::kDoesNot;
  if (!node.pattern) return Fit::kFits;
  if (text.size() > kPatternTextMax) return Fit::kUnknown;
  try {
    return Of(std::regex_search(text.begin(), text.end(), *node.pattern));
  } catch (const std::regex_error&) {  // it would take too long, or too much stack
    return Fit::kUnknown;
  }
}

Fit JsonSchema::Tree::CheckGroups(const Node& node, json::element value, Walk walk) const {
  Fit fit = Fit::kFits;
  for (const Child& child : node.all_of) fit = Both(fit, Check(*child, value, walk.Deeper()));
  if (!node.any_of.empty()) {
    bool any = false, unknown = false;
    for (const Child& child : node.any_of) {
      const Fit one = Check(*child, value, walk.Deeper());
      any = any || one == Fit::kFits;
      unknown = unknown || one == Fit::kUnknown;
    }
    fit = Both(fit, any ? Fit::kFits : unknown ? Fit::kUnknown : Fit::kDoesNot);
  }
  if (!node.one_of.empty()) {
    size_t fitting = 0;
    bool unknown = false;
    for (const Child& child : node.one_of) {
      const Fit one = Check(*child, value, walk.Deeper());
      fitting += one == Fit::kFits ? 1 : 0;
      unknown = unknown || one == Fit::kUnknown;
    }
    fit = Both(fit, fitting > 1 ? Fit::kDoesNot : unknown ? Fit::kUnknown : Of(fitting == 1));
  }
  if (node.none_of != nullptr) {
    const Fit one = Check(*node.none_of, value, walk.Deeper());
    fit = Both(fit, one == Fit::kUnknown ? one : Of(one == Fit::kDoesNot));
  }
  return fit;
}

Fit JsonSchema::Tree::Check(const Node& node, json::element value, Walk walk) const {
  if (walk.depth > kDepthMax || --*walk.steps < 0) return Fit::kUnknown;
  if (node.never) return Fit::kDoesNot;
  if (!node.types.empty() &&
      std::none_of(node.types.begin(), node.types.end(),
                   [&](std::string_view type) { return IsOfType(type, value); })) {
    return Fit::kDoesNot;
  }
  if (node.values && !node.values->contains(CanonicalText(value))) return Fit::kDoesNot;
  Fit fit = CheckGroups(node, value, walk);
  if (!node.ref.empty()) {
    fit = Both(fit, Check(*definitions.find(node.ref)->second, value, walk.Deeper()));
  }
  json::object object;
  json::array list;
  std::string_view text;
  if (const auto number = JsonNumber(value)) return Both(fit, Of(node.number.Holds(*number)));
  if (value.get(text) == simdjson::SUCCESS) return Both(fit, CheckText(node, text));
  if (value.get(list) == simdjson::SUCCESS) return Both(fit, CheckList(node, list, walk));
  if (value.get(object) == simdjson::SUCCESS) return Both(fit, CheckObject(node, object, walk));
  return fit;
}

Result<JsonSchema> JsonSchema::Parse(std::string_view text, const std::string& file) {
  if (text.size() > kSchemaBytesMax) return InvalidError("the schema is too large", Place{file});
  json::parser parser;
  auto parsed = ParseJson(parser, text);
  if (!parsed.has_value()) return std::move(parsed.error()).At(Place{file});
  auto tree = std::make_shared<Tree>();
  SchemaReader reader(file);
  KCC_TRY(tree->root, reader.Read(*parsed, 0));
  json::object object;
  if (parsed->get(object) == simdjson::SUCCESS) {
    for (const std::string_view where : {"$defs", "definitions"}) {
      const auto member = JsonMember(object, where);
      json::object definitions;
      if (!member) continue;
      if (member->get(definitions) != simdjson::SUCCESS) {
        return InvalidError("'" + std::string(where) + "' must be an object", Place{file});
      }
      for (const auto [name, definition] : definitions) {
        KCC_TRY(tree->definitions[std::string(name)], reader.Read(definition, 1));
      }
    }
  }
  for (const std::string& name : reader.refs()) {
    if (tree->definitions.contains(name)) continue;
    return InvalidError("'$ref' names '" + name + "', which the schema does not define",
                        Place{file});
  }
  return JsonSchema(std::move(tree));
}

JsonSchema JsonSchema::Any() {
  auto tree = std::make_shared<Tree>();
  tree->root = std::make_unique<Node>();
  return JsonSchema(std::move(tree));
}

Fit JsonSchema::Check(std::string_view text) const {
  if (text.size() > kAnswerBytesMax) return Fit::kUnknown;
  json::parser parser;
  const auto value = ParseJson(parser, text);
  if (!value.has_value()) return Fit::kDoesNot;
  int64_t steps = kStepsMax;
  return tree_->Check(*tree_->root, *value, {0, &steps});
}

}  // namespace kcc
