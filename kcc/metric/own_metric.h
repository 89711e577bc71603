// Metrics of the user's own: rows beside the catalog, defined by a contract (spec.metrics) and not
// by this program. A row has the same columns as a built-in one, so that everything that reads the
// catalog reads it too; the column `own` leads to its definition.
//
// Rows are made once per definition for the whole process and stay: a pointer to one is valid for
// ever, and two definitions are the same if and only if their pointers are. That is what plans are
// compared by: one name with two definitions is two quantities.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/metric/catalog.h"
#include "kcc/predicate/expression.h"

namespace kcc {

// All that tells two of them apart. Documentation is no part of it.
struct OwnMetric {
  std::string name;
  QuantityLevel of = QuantityLevel::kRequest;  // or kToken
  Expression from;
  Unit unit = Unit::kPure;
  Direction direction = Direction::kLowerIsBetter;
  // What the values are declared to lie between. A value outside is an error of the evidence.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  // What made the recorded fields, where that is a program: a digest or a version. May be empty.
  std::string version = {};
};

inline constexpr size_t kOwnNameLengthMax = 64;
inline constexpr size_t kOwnVersionLengthMax = 128;
// Of one contract; and of one process, whatever it reads.
inline constexpr size_t kOwnMetricsMax = 32;
inline constexpr size_t kOwnRowsMax = 65536;

// The row of a definition. Fails where the definition is not one that a contract may hold: its
// name, its fields against `of`, its range; the message says which, with a remedy after "; ".
// Thread-safe. The same definition gives the same row.
Result<const Quantity*> OwnRow(const OwnMetric& metric);

// Success, or why a metric of one's own cannot have the name.
Result<> CheckOwnName(std::string_view name);

// Rows of a contract or of a plan.
using OwnRows = std::span<const Quantity* const>;
// Null if there is none of the name.
const Quantity* FindOwn(OwnRows rows, std::string_view name);

}  // namespace kcc
