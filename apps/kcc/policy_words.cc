#include "apps/kcc/policy_words.h"

#include "apps/kcc/safe_output.h"

namespace kcc::cli {

void PrintPlanSentences(const std::vector<PlanSentence>& sentences, Console& console) {
  constexpr size_t kColumn = 17;
  for (const PlanSentence& row : sentences) {
    console.out << "  " << Paint(Style::kCyan, row.title, console.colour_out)
                << std::string(kColumn - 2 - row.title.size(), ' ')
                << WrapText(Shown(row.text), kColumn, 100) << '\n';
  }
}

void WriteSentences(std::string_view key, const std::vector<PlanSentence>& sentences,
                    JsonWriter* json) {
  json->Key(key).BeginArray();
  std::string about;
  for (const PlanSentence& row : sentences) {
    if (!row.title.empty()) about = row.title;  // further sentences of one title have none
    json->BeginObject().Field("about", about).Field("text", row.text).EndObject();
  }
  json->EndArray();
}

void PrintStagePlans(const std::vector<StagePlan>& plans, Console& console) {
  for (const StagePlan& plan : plans) {
    console.out << Paint(Style::kBold, Name(plan.stage), console.colour_out) << '\n';
    PrintPlanSentences(plan.sentences, console);
  }
}

void WriteStagePlans(const std::vector<StagePlan>& plans, JsonWriter* json) {
  const auto texts = [&](std::string_view key, const std::vector<std::string>& all) {
    json->Key(key).BeginArray();
    for (const std::string& one : all) json->Value(one);
    json->EndArray();
  };
  json->BeginArray();
  for (const StagePlan& plan : plans) {
    json->BeginObject().Field("stage", Name(plan.stage));
    texts("counting", plan.counting);
    texts("undecidable", plan.undecidable);
    WriteSentences("words", plan.sentences, json);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace kcc::cli
