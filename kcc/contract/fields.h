// The fields a slice predicate may read: one row each. The predicate's type checker, the reader's
// suggestions and docs/predicates.md read this table.
//
// A request may carry further scalars (requests.jsonl keeps them), so an unknown request field is
// legal and takes its type from its use; an unknown token field is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kcc {

enum class FieldType : uint8_t { kNumber, kText, kBool, kTextList };

struct PredicateField {
  std::string_view name;  // token fields with their "token." prefix
  FieldType type;
  std::string_view doc;
};

inline constexpr std::string_view kTokenFieldPrefix = "token.";

// Request fields first, then token fields.
std::span<const PredicateField> PredicateFields();

const PredicateField* FindPredicateField(std::string_view name);

// The known field that an unknown name probably stands for: a slip of the keyboard
// ("promt_tokens"), or a token field without its prefix ("position").
std::optional<std::string_view> NearestPredicateField(std::string_view name);

std::string_view Name(FieldType type);  // "number", "text", "bool", "list of text"

}  // namespace kcc
