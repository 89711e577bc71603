// Sentences about policies and clauses, on the terminal and as data; the same for explain and
// promote explain.
#pragma once

#include <vector>

#include "apps/kcc/console.h"
#include "kcc/promotion/plan.h"

namespace kcc::cli {

void PrintPlanSentences(const std::vector<PlanSentence>& sentences, Console& console);
// [{"about", "text"}, …] under the key.
void WriteSentences(std::string_view key, const std::vector<PlanSentence>& sentences,
                    JsonWriter* json);
void PrintStagePlans(const std::vector<StagePlan>& plans, Console& console);
void WriteStagePlans(const std::vector<StagePlan>& plans, JsonWriter* json);

}  // namespace kcc::cli
