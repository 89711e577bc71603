// The key tables: every mapping of the contract language (contracts, promotion and monitor
// policies, gateways), its keys, and what each may hold.
//
// One constexpr table that the reader checks documents against, the JSON Schema is generated from,
// and the language page prints. A new key is one row here and the line that reads it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace kcc {

enum class ValueType : uint8_t {
  kMapping,         // a nested mapping; `child` names its table
  kMappingList,     // a list of such mappings
  kText,            // any scalar, as written
  kTextList,        // a list of such, none empty, without repetition
  kIdentifier,      // letters, digits, '-', '_' and '.', starting with a letter or digit
  kIdentifierList,  // a list of identifiers, without repetition
  kName,            // lower-case identifier: [a-z0-9][-a-z0-9.]*
  kVersion,         // MAJOR.MINOR.PATCH
  kWord,            // one of `words`
  kWordList,        // a list of them, without repetition
  kNumber,          // a number between `min` and `max`
  kNumberList,      // a list of such numbers
  kInteger,         // a whole number between `min` and `max`
  kRatio,           // 0.01 or 1%, between `min` and `max`
  kThreshold,       // a number in the metric's unit: 0.05, 1% for a share, 400ms, 512MiB
  kBoolean,         // true or false, nothing else
  kMetric,          // aggregate_quantity (kcc/metric/metric.h)
  kPredicate,       // the slice language (kcc/predicate/predicate.h)
  kExpression,      // arithmetic over fields (kcc/predicate/expression.h)
  kWindow,          // request, "100 requests", 30s
  kDuration,        // 90s, 24h
  kRate,            // 5 per s
  kSize,            // 512KiB, 1MiB
  kAlarmBudget,     // 1 per 10^6 requests, 1 per 30d
  kDate,            // 2027-06-30
  kTextMap,         // a mapping with free keys to scalars
  kBinding,         // the same; its key `digest`, if present, is a sha256 digest
  kJsonMap,         // the same, to JSON's numbers, texts, true and false
  kPath,            // a file or a folder; relative to the document's own
  kAddress,         // HOST:PORT, [::1]:8080
  kUrl,             // http://HOST:PORT, https://HOST
  kSource,          // header:NAME, body:NAME or body:NAME.NAME
  kSourceList,      // a list of such, without repetition
};

// Names the type in error messages and in the docs: "a ratio (0..1 or 1%)".
std::string_view Describe(ValueType type);

struct KeyRow {
  std::string_view name;
  ValueType type;
  bool required;
  std::string_view default_text;  // as it would be written; "" where there is none
  std::string_view doc;           // one line, for editors and the language page
  std::span<const std::string_view> words = {};
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;  // the end itself is excluded
  bool max_open = false;
  std::string_view child = {};
  bool may_be_empty = false;  // kWord: "" is a word too
};

struct MappingTable {
  std::string_view name;  // "document", "metadata", "clause", …
  std::string_view doc;
  std::span<const KeyRow> keys;  // in the order in which people write them
};

// The most keys a table has; a reader may hold a mapping's values in an array of this size.
inline constexpr size_t kMappingKeysMax = 25;

// Of a contract; the root, named "document", comes first.
std::span<const MappingTable> MappingTables();

// Of a promotion policy; the root, named "policy", comes first.
std::span<const MappingTable> PolicyTables();

// Of a monitor policy; the root, named "monitor", comes first.
std::span<const MappingTable> MonitorTables();

// Of a gateway; the root, named "gateway", comes first.
std::span<const MappingTable> GatewayTables();

// Of any of them: no name stands in two. Precondition: the table, and the key in it, exist.
const MappingTable& TableOf(std::string_view name);
const KeyRow& KeyOf(const MappingTable& table, std::string_view key);

}  // namespace kcc
