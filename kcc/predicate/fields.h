// The fields a slice predicate may read: one row each. The predicate's type checker, the reader's
// suggestions and docs/contract.md read this table.
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

// Whose word a field's value is. What decides slices and windows never comes from the judged side,
// infer, alone (docs/semantics.md).
enum class FieldOrigin : uint8_t {
  kRequest,  // of the request itself: from the requests file, else train's; both sides agree
  kRows,     // counted from the paired rows, never read
  kTrain,    // train's, else infer's
  kOutcome,  // of each side's own run; the sides may differ
};

struct PredicateField {
  std::string_view name;  // token fields with their "token." prefix
  FieldType type;
  FieldOrigin origin;
  std::string_view doc;
};

inline constexpr std::string_view kTokenFieldPrefix = "token.";

// Request fields first, then token fields.
std::span<const PredicateField> PredicateFields();

const PredicateField* FindPredicateField(std::string_view name);

// A request field that is not in the table is the request's own.
FieldOrigin OriginOf(std::string_view name);

std::string_view Name(FieldOrigin origin);  // "request", "rows", "train", "outcome"
std::string_view Name(FieldType type);      // "number", "text", "bool", "list of text"

}  // namespace kcc
