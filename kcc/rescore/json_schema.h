// A JSON Schema, as far as live answers need one: a small validator that checks all that a schema
// says, or refuses the schema when it is read. A keyword that is passed over in silence would grade
// answers as good that are not.
//
// Checked: type, enum, const, properties, required, additionalProperties, items, minItems,
// maxItems, uniqueItems, minProperties, maxProperties, minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, minLength, maxLength, pattern, anyOf, allOf, oneOf, not, and $ref to
// #/$defs/NAME or
// #/definitions/NAME. Annotations (title, description, default ...) say nothing about answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

enum class Fit : uint8_t {
  kFits,
  kDoesNot,  // and what is no JSON
  kUnknown,  // a text that is too long for its pattern, or nested too deep: nobody can tell
};

class JsonSchema {
 public:
  struct Node;

  // `file` is for messages.
  static Result<JsonSchema> Parse(std::string_view text, const std::string& file);
  // Any JSON.
  static JsonSchema Any();

  // Of a whole text, blanks around it allowed.
  Fit Check(std::string_view text) const;

 private:
  struct Tree;
  explicit JsonSchema(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  // Shared because a schema never changes and graders are moved.
  std::shared_ptr<const Tree> tree_;
};

}  // namespace kcc
