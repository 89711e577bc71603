#include "kcc/contract/selection.h"

#include <algorithm>

#include "kcc/predicate/fields.h"

namespace kcc {

Selection SelectionOf(const Slice& slice) {
  Selection selection = Selection::kAnswers;
  if (!slice.where) return selection;
  for (const std::string& field : slice.where->Fields()) {
    if (field == "token.position") {
      selection = std::max(selection, Selection::kPrefixes);
    } else if (field.starts_with(kTokenFieldPrefix) || OriginOf(field) == FieldOrigin::kOutcome) {
      return Selection::kOutcomes;
    }
  }
  return selection;
}

}  // namespace kcc
