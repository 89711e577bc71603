// What a document is explained by where it has no clauses: parts, each with a name and sentences.
#pragma once

#include <string_view>
#include <vector>

#include "kcc/promotion/plan.h"

namespace kcc::cli {

struct DocumentPart {
  std::string_view name;  // "audit"
  std::vector<PlanSentence> sentences;
};

}  // namespace kcc::cli
