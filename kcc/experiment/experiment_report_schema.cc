// The JSON Schema of what WriteExperimentReport writes. Objects stay open: an experiment adds its
// own figures, and later versions add keys.
#include <string>

#include "kcc/experiment/experiment_report.h"
#include "kcc/report/json_schema.h"

namespace kcc {
namespace {

using namespace json_schema;

constexpr std::array<std::string_view, 5> kParts = {"passRates", "quality", "runtimeWork",
                                                    "runtimeTime", "incidents"};

Schema Digest(std::string_view description) {
  return Described(R"("type":"string","pattern":"^(sha256:[0-9a-f]{64})?$")", description);
}

Schema IdentitySchema() {
  const Schema requests = Object({{"name", Text("")},
                                  {"digest", Digest("of the requests and their tokens")},
                                  {"requests", Count("")},
                                  {"tokens", Count("that are scored or generated")}});
  const Schema kernel = Object({{"name", Text("as the arms call it")},
                                {"fingerprint", Text("identifies the kernel build")},
                                {"options", MapOf(Text(""), "every switch and its value")}});
  const Schema arm = Object({{"name", Text("")},
                             {"role", OneOf(kArmRoles, "")},
                             {"train", Text("name of a kernel")},
                             {"infer", Text("name of a kernel")}});
  return Object({{"contract", Object({{"name", Text("")},
                                      {"version", Text("")},
                                      {"digest", Digest("of the canonical form")}})},
                 {"model", Text("digest of the checkpoint")},
                 {"requests", ListOf(requests, "the evaluation sets")},
                 {"kernels", ListOf(kernel, "")},
                 {"arms", ListOf(arm, "pairs of kernels that are compared")}},
                "what was judged");
}

std::vector<Property> CountProperties() {
  return {{"judged", Count("verdicts, without the empty ones")},
          {"satisfied", Count("")},
          {"violated", Count("")},
          {"inconclusive", Count("")},
          {"error", Count("")},
          {"empty", Count("the slice held nothing in the regime")},
          {"share", RefDescribed("shareOrNull", "satisfied / judged; null: nothing was judged")}};
}

Schema PassRatesSchema() {
  std::vector<Property> clause = {{"clause", Text("id in the contract")}};
  std::vector<Property> slice = {{"slice", Text("")}};
  for (const Property& count : CountProperties()) {
    clause.push_back(count);
    slice.push_back(count);
  }
  slice.push_back({"clauses", ListOf(Object(clause), "those that name the slice")});
  const Schema arm = Object({{"arm", Text("")},
                             {"regimes", Count("lengths, loads, seeds: each is judged apart")},
                             {"slices", ListOf(Object(slice), "")}});
  const Schema not_judged = Object({{"clause", Text("")}, {"reason", Text("")}});
  return Object({{"arms", ListOf(arm, "")},
                 {"notJudged", ListOf(not_judged, "clauses that the evidence cannot decide")}},
                "verdicts of the judge, counted");
}

Schema EstimateSchema() {
  return Object({{"value", Ref("number")},
                 {"interval", Ref("interval")},
                 {"confidence", Described(R"("type":"number","minimum":0,"maximum":1)", "")},
                 {"method", Text("what the interval is, and what it is taken over")},
                 {"samples", Count("requests, episodes or runs behind it")}},
                "a number with its confidence interval");
}

Schema QualitySchema() {
  return ListOf(Object({{"quantity", Text("reward, accuracy …")},
                        {"unit", Text("")},
                        {"arm", Text("")},
                        {"slice", Text("")},
                        {"estimate", Ref("estimate")},
                        {"delta", RefDescribed("estimateOrNull", "against the baseline")}}),
                "task quality and reward");
}

Schema CostSchema() {
  const Schema figure =
      Object({{"quantity", Text("")},
              {"unit", Text("")},
              {"value", Ref("number")},
              {"baseline", RefDescribed("numberOrNull", "null: not run in this regime")},
              {"delta", RefDescribed("numberOrNull", "value - baseline")}});
  return ListOf(Object({{"arm", Text("")},
                        {"regime", Text("empty: there is one")},
                        {"figures", ListOf(figure, "")}}),
                "");
}

Schema IncidentSchema() {
  return ListOf(
      Object({{"arm", Text("")},
              {"faults", Count("injected")},
              {"detected", Count("")},
              {"falseAlarms", Count("")},
              {"rollbacks", Count("")},
              {"rollbacksSucceeded", Count("")},
              {"delayUnit", Text("of both delays")},
              {"detectionLag", RefDescribed("estimateOrNull", "null: nothing was detected")},
              {"repairTime", RefDescribed("estimateOrNull", "null: nothing was repaired")}}),
      "incidents under injected faults");
}

// A part is null exactly where a reason is given, and then the reason is not empty.
std::string PartRules() {
  std::string rules;
  for (const std::string_view part : kParts) {
    const std::string key = JsonQuote(part);
    rules += (rules.empty() ? "" : ",") + ("{\"if\":{\"properties\":{" + key) +
             ":{\"type\":\"null\"}}},\"then\":{\"properties\":{\"notMeasured\":{\"required\":[" +
             key + "]}}},\"else\":{\"properties\":{\"notMeasured\":{\"not\":{\"required\":[" + key +
             "]}}}}}";
  }
  return "\"allOf\":[" + rules + "]";
}

Schema Root() {
  const Schema finding = Object({{"predicted", Text("before the run")},
                                 {"seen", Text("in figures")},
                                 {"holds", OrNull(Bool("the prediction; null: it was not run"))}});
  Schema root = Object({
      {"kccExperiment", "{\"const\":" + std::to_string(kExperimentFormat) + "}"},
      {"experiment", Text("e1, e2 …")},
      {"preview", Bool("a few requests, to see the form: states no finding"), false},
      {"identity", IdentitySchema()},
      {"findings", ListOf(finding, "")},
      {"passRates", OrNull(PassRatesSchema())},
      {"quality", OrNull(QualitySchema())},
      {"runtimeWork", RefDescribed("costOrNull", "counted, the same on every machine")},
      {"runtimeTime", RefDescribed("costOrNull", "of a clock")},
      {"incidents", OrNull(IncidentSchema())},
      {"notMeasured", MapOf(R"({"type":"string","minLength":1})", "why a part is null, by part")},
  });
  root.pop_back();
  return root + "," + PartRules() + "}";
}

Definitions DefinitionsOfExperiment() {
  Definitions made = NumberDefinitions();
  made.emplace_back("shareOrNull", R"({"type":["number","null"],"minimum":0,"maximum":1})");
  made.emplace_back(
      "interval",
      R"({"type":"array","items":{"$ref":"#/$defs/number"},"minItems":2,"maxItems":2})");
  made.emplace_back("estimate", EstimateSchema());
  made.emplace_back("estimateOrNull", OrNull(Ref("estimate")));
  made.emplace_back("costOrNull", OrNull(CostSchema()));
  return made;
}

}  // namespace

std::string ExperimentJsonSchema() {
  return Document("kcc experiment", DefinitionsOfExperiment(), Root());
}

}  // namespace kcc
