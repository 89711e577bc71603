// The catalog: one row for every quantity kcc knows. The contract checker, kcc/drift and
// kcc/summary, `kcc metrics`, the JSON Schema, the docs and the report's labels all read it; a new
// quantity is one row here and its implementation.
//
// Convention: p = train, q = infer, w = p(y)/q(y), Delta = (z_infer - z_train)/temperature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace kcc {

// What one value of the quantity describes.
enum class QuantityLevel : uint8_t { kToken, kRequest, kPopulation };

// The least a trace must hold for the quantity to be computed exactly.
enum class EvidenceNeeded : uint8_t {
  kLogits,         // full logits (top-k lists give an interval)
  kSampledToken,   // the log-prob of the sampled token
  kRequestFields,  // fields of requests.jsonl, named in `fields`
  kGold,           // full logits and a gold label
};

// Which bounds make sense. A signed quantity can be bad on either side.
enum class Direction : uint8_t { kLowerIsBetter, kHigherIsBetter, kSigned };

enum class MergeRule : uint8_t {
  kExactSum,  // count, exact sums, counters and histogram of single values
  kBins,      // integer counts and exact sums per bin or per side
};

struct Quantity {
  std::string_view id;
  std::string_view unit;  // "" for a pure number
  QuantityLevel level;
  Direction direction;
  EvidenceNeeded evidence;
  bool sided;      // also exists as train_<id>; unprefixed means infer
  bool on_demand;  // computed only where a contract or the user asks
  double min;      // the smallest and largest value it can take: a threshold outside is vacuous
  double max;
  std::string_view fields;  // request fields it reads, separated by blanks
  std::string_view definition;
  std::string_view source;
  MergeRule merge = MergeRule::kExactSum;
};

// All rows, grouped by level, in the order of docs/design.md section 6.
std::span<const Quantity> Catalog();

const Quantity* FindQuantity(std::string_view id);

// Position of a row in Catalog(); dense, so that arrays can be indexed by it.
size_t CatalogIndex(const Quantity& quantity);

std::string_view Name(QuantityLevel level);    // "token"
std::string_view Name(EvidenceNeeded needed);  // "logits"
std::string_view Name(Direction direction);    // "lower"
std::string_view Name(MergeRule rule);         // "exact-sum"

}  // namespace kcc
