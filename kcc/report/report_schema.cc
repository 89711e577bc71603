// The JSON Schema of report.json (draft 2020-12). Objects stay open: later versions add keys.
#include <string>
#include <utility>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/report/choices.h"
#include "kcc/report/json_schema.h"
#include "kcc/report/report_json.h"

namespace kcc {
namespace {

using namespace json_schema;

Schema SliceSchema() {
  return Object({
      {"slice", Text("name of the slice in the contract")},
      {"verdict", Ref("verdict")},
      {"value", RefDescribed("numberOrNull", "the metric over the slice, where known exactly")},
      {"interval", RefDescribed("intervalOrNull", "where the metric lies; null: not measured")},
      {"threshold", Ref("number")},
      {"exceedance",
       "{\"anyOf\":[{\"type\":\"null\"}," +
           Object({{"windows", Count("windows looked at")},
                   {"exceeding", Count("windows beyond the threshold in the bad direction")},
                   {"rate", RefDescribed("number", "exceeding / windows")},
                   {"budget", RefDescribed("number", "largest rate allowed")}}) +
           "]}"},
      {"count", Object({{"requests", Count("")}, {"tokens", Count("")}}, "the evidence")},
      {"reason", Text("one sentence in plain words")},
      {"smallestPassing",
       RefDescribed("numberOrNull", "tightest threshold that would have passed")},
      {"smallestBudget", RefDescribed("numberOrNull", "smallest budget that would have passed")},
      {"confidenceInterval",
       RefDescribed("intervalOrNull", "two-sided, at the clause's confidence")},
      {"moreRequests", CountOrNull("about how many more requests would settle it")},
      {"other", Object({{"about", Ref("population")},
                        {"verdict", Ref("verdict")},
                        {"reason", Text("")},
                        {"confidenceInterval", Ref("intervalOrNull")},
                        {"moreRequests", CountOrNull("")}},
                       "the verdict for the population the contract does not speak about")},
      {"severity",
       RefDescribed("numberOrNull", "1 at the limit (a soft clause: at its budget), more beyond"),
       false},
      {"deviation", RefDescribed("number", "phi, 0 within the threshold, at most 2")},
      {"weight", RefDescribed("number", "lambda, its weight in the health")},
  });
}

Schema ClauseSchema() {
  return Object({
      {"id", Text("")},
      {"family", OneOf(kFamilies, "")},
      {"metric", Text("aggregate and quantity, such as p99_kl")},
      {"quantity", Text("the metric's quantity, where this version knows it"), false},
      {"aggregate", Text("the metric's aggregate; empty for a population quantity"), false},
      {"bound", OneOf(kBounds, "")},
      {"level", OneOf(kLevels, "")},
      {"hard", Bool("true: no exceedance is allowed")},
      {"action", OneOf(kActions, "what a violation of the clause orders")},
      {"verdict", Ref("verdict")},
      {"line", Count("in the contract's source; 0: unknown")},
      {"column", Count("")},
      {"why", Text("why the contract has the clause, in its author's words"), false},
      {"slices", ListOf(Ref("slice"), "in the clause's order")},
  });
}

Schema StatisticsSchema() {
  std::vector<Property> properties = {{"count", Count("")}};
  for (const char* name : {"mean", "min", "max", "p50", "p90", "p95", "p99", "p999"}) {
    properties.push_back({name, Ref("numberOrNull")});
  }
  return Object(properties);
}

Schema CurveSchema() {
  return Object({{"slice", Text("")},
                 {"tokens", Count("in the slice, of any margin")},
                 {"points", ListOf(Object({{"margin", Ref("number")},
                                           {"tokens", Count("tokens of at most this margin")},
                                           {"top1", Count("of those, other most likely token")},
                                           {"top5", Count("of those, other five most likely")}}),
                                   "by rising margin; all counts are cumulative")}});
}

Schema TotalsSchema() {
  std::vector<Property> properties;
  properties.reserve(kVerdicts.size());
  for (const Verdict verdict : kVerdicts) {
    properties.push_back({std::string(Name(verdict)), Count("")});
  }
  return Object(properties);
}

Schema ProvenanceSchema() {
  const Schema kernel = Object({{"name",
                                 Text("for people: the fingerprint, or what the user "
                                      "named where that is long"),
                                 false},
                                {"fingerprint", Text("identifies the kernel build")},
                                {"trace", Text("the trace's identity")},
                                {"model", Text("digest; empty: not recorded")}});
  return Object({{"kcc", Text("version")},
                 {"train", kernel},
                 {"infer", kernel},
                 {"evidence", Text("how much of the distribution the traces hold")},
                 {"plan", Text("digest of what was counted")},
                 {"requests", Count("")},
                 {"backend", Text("what measured it, if not the CPU alone"), false}});
}

Definitions DefinitionsOfReport() {
  Definitions made = {
      {"verdict", OneOf(kVerdicts, "")},
      {"population", OneOf(kPopulations, "")},
  };
  for (auto& number : NumberDefinitions()) made.push_back(std::move(number));
  const Definitions parts = {
      {"intervalOrNull",
       "{\"type\":[\"array\",\"null\"],\"items\":{\"$ref\":\"#/$defs/number\"},"
       "\"minItems\":2,\"maxItems\":2}"},
      {"slice", SliceSchema()},
      {"clause", ClauseSchema()},
      {"statistics", StatisticsSchema()},
      {"histogram", Object({{"edges", ListOf(Ref("number"), "rising; one more than counts")},
                            {"counts", ListOf(Count(""), "")},
                            {"infinite", Count("values in no bucket")}})},
      {"label", Object({{"unit", Text("")},
                        {"direction", Text("")},
                        {"level", Text("")},
                        {"definition", Text("")}})},
      {"curve", CurveSchema()},
      {"totals", TotalsSchema()},
  };
  made.insert(made.end(), parts.begin(), parts.end());
  return made;
}

Schema WorstTokenSchema() {
  return Object({{"quantity", Text("")},
                 {"slice", Text("")},
                 {"value", Ref("numberOrNull")},
                 {"request", Text("request id")},
                 {"position", "{\"type\":\"integer\"}"},
                 {"token", "{\"type\":\"integer\"}"},
                 {"context", Text("the tokens or the text around it; it stands in ⟦⟧"), false},
                 {"tags", ListOf(Text(""), "of its request"), false}});
}

Schema BoundSchema() {
  return Object(
      {{"clause", Text("")},
       {"text", Text("what is bounded, and under which assumptions")},
       {"value", Ref("numberOrNull")},
       {"quantity", Text("tv, reward_drift, gradient_bias, sequence_reward_drift, trajectory_bias"),
        false},
       {"vacuous", Bool("hardly less than what holds of any two kernels"), false},
       {"exceedance",
        Described("\"type\":\"number\"", "share of windows, at most, in which it may not hold"),
        false}});
}

Schema WorstPairSchema() {
  return Object({{"clause", Text("")},
                 {"slice", Text("")},
                 {"factor", RefDescribed("numberOrNull",
                                         "how many times its limit; of the budget, where the "
                                         "clause has one")},
                 {"text", Text("one sentence")}},
                "the violated pair of the gravest level that is farthest beyond its limit");
}

Schema Root() {
  const Schema step = Object({{"name", Text("the command of kcc that it is")},
                              {"question", Text("what the command answers")},
                              {"command", Text("quoted for a POSIX shell")}});
  const Schema inputs =
      Object({{"train", Text("a trace's directory or a kernel of the lab; empty: something else")},
              {"infer", Text("")},
              {"requests", Text("a file; empty: none was named")}},
             "as named on the command line");
  return Object({
      {"kccReport", "{\"const\":" + std::to_string(kReportFormat) + "}"},
      {"contract", Object({{"name", Text("")},
                           {"version", Text("")},
                           {"digest", Text("sha256 of the canonical form")},
                           {"file", Text("as named on the command line; may be empty")}})},
      {"verdict", Ref("verdict")},
      {"convergent", Bool("every clause is satisfied on every slice it names")},
      {"health", Ref("number")},
      {"thresholds",
       "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/number\"},\"minItems\":2,"
       "\"maxItems\":2,\"description\":\"eta1 and eta2 of the health\"}"},
      {"action", OneOf(kActions, "of the most severe violated clause", "none")},
      {"actionMeaning", Text("what the action says to do"), false},
      {"about", RefDescribed("population", "what the verdicts speak about")},
      {"stage", OneOf(kStages, "")},
      {"confidence", Ref("number")},
      {"headline", Text("one sentence")},
      {"healthText", Text("what the health says, in words")},
      {"warnings", ListOf(Text(""), "what a reader of the verdict must know"), false},
      {"totals", Object({{"clauses", Ref("totals")}, {"pairs", Ref("totals")}},
                        "clauses, and clause-slice pairs, by verdict")},
      {"clauses", ListOf(Ref("clause"), "in the contract's order")},
      {"slices",
       ListOf(Object({{"name", Text("")}, {"where", Text("its predicate; empty: every request")}}),
              "those that the clauses name"),
       false},
      {"worstPair", WorstPairSchema(), false},
      {"next", ListOf(step, "commands that answer what the verdict leaves open"), false},
      {"quantities", MapOf(MapOf(Ref("statistics"), "by slice"), "by quantity")},
      {"histograms", MapOf(MapOf(Ref("histogram"), "by slice"), "by quantity")},
      {"labels", MapOf(Ref("label"), "the catalog's rows of the quantities shown")},
      {"curves", ListOf(Ref("curve"), "cumulative disagreement by margin")},
      {"worst", ListOf(WorstTokenSchema(), "worst tokens by quantity and slice")},
      {"worstKept",
       Text("in a register, how much of the worst tokens is kept: none, hashes or full without "
            "texts; absent: all"),
       false},
      {"bounds", ListOf(BoundSchema(), "what the clauses imply if they hold")},
      {"slicesWithoutDetail",
       "{\"type\":\"integer\",\"minimum\":1,\"description\":\"slices that only the clauses speak "
       "of, "
       "since there are too many\"}",
       false},
      {"inputs", inputs, false},
      {"provenance", ProvenanceSchema()},
      {"files",
       MapOf("{\"type\":\"string\",\"pattern\":\"^sha256:[0-9a-f]{64}$\"}",
             "digests of the files beside it in its directory, by name"),
       false},
  });
}

}  // namespace

std::string ReportJsonSchema() { return Document("kcc report", DefinitionsOfReport(), Root()); }

}  // namespace kcc
