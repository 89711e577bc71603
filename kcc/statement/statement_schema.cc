#include "kcc/statement/statement_schema.h"

#include <array>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/report/json_schema.h"
#include "kcc/statement/in_toto.h"

namespace kcc {
namespace {

using namespace json_schema;

Schema ConstText(std::string_view text) { return "{\"const\":" + JsonQuote(text) + "}"; }

Schema RowSchema() {
  return Object({
      {"id", Text("of the clause")},
      {"slice", Text("")},
      {"metric", Text("aggregate and quantity, such as p99_kl")},
      {"bound", OneOf(std::array{BoundKind::kAtMost, BoundKind::kAtLeast}, "")},
      {"level",
       OneOf(std::array{ViolationLevel::kL1, ViolationLevel::kL2, ViolationLevel::kL3}, "")},
      {"hard", Bool("true: no exceedance is allowed")},
      {"verdict", Ref("verdict")},
      {"value", RefDescribed("numberOrNull", "the metric over the slice, where known exactly")},
      {"interval", OrNull("{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/number\"},"
                          "\"minItems\":2,\"maxItems\":2}")},
      {"threshold", Ref("numberOrNull")},
      {"requests", Count("the evidence")},
      {"tokens", Count("")},
  });
}

Schema EvaluationSchema() {
  const Schema kernel =
      Object({{"fingerprint", Text("identifies the build")},
              {"digest", RefDescribed("digestSet",
                                      "the fingerprint, where it is a SHA-256; else that of its "
                                      "text")},
              {"model", RefDescribed("digestSet", "of the weights, where recorded"), false}});
  return Object({
      {"time", RefDescribed("time", "when it was judged")},
      {"kcc", Text("version that judged")},
      {"contract", Object({{"name", Text("")},
                           {"version", Text("")},
                           {"digest", RefDescribed("digestSet", "of the canonical form")}})},
      {"triple", RefDescribed("digestSet", "of model, kernels and contract in the register"),
       false},
      {"stage",
       OneOf(std::array{Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull}, "")},
      {"about", OneOf(std::array{Population::kEvaluationSet, Population::kTraffic},
                      "what the verdicts speak about")},
      {"confidence", Ref("number")},
      {"verdict", RefDescribed("verdict", "the gravest of the clauses")},
      {"passed", Bool("every clause is satisfied on every slice, and there is one")},
      {"health", Ref("numberOrNull")},
      {"thresholds",
       "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/number\"},\"minItems\":2,"
       "\"maxItems\":2,\"description\":\"eta1 and eta2 of the health\"}"},
      {"action", OneOf(std::array{Action::kLog, Action::kGuard, Action::kFreeze, Action::kFallback,
                                  Action::kRollback},
                       "what the verdict orders", "none")},
      {"clauses", ListOf(RowSchema(), "one for each clause and slice")},
      {"kernels", Object({{"train", kernel}, {"infer", kernel}})},
      {"evidence", ListOf(Ref("namedDigest"), "what it was judged on: report.json, plan, traces")},
      {"warnings", ListOf(Text(""), "what a reader of the verdict must know")},
  });
}

Schema PromotionSchema() {
  return Object({
      {"time", RefDescribed("time", "of the event")},
      {"kcc", Text("version")},
      {"promotion", Text("its id in the register")},
      {"sequence", Count("of the event in the register's log")},
      {"step", Text("what happened, such as advance or rollback")},
      {"from", Text("the state before")},
      {"to", Text("the state after")},
      {"triple", RefDescribed("digestSet", "what is promoted")},
      {"incumbent", RefDescribed("digestSet", "the triple that serves until the last step"), false},
      {"contract", Ref("namedDigest")},
      {"policy", Ref("namedDigest")},
      {"evaluations", ListOf(Ref("namedDigest"), "payloads of the evaluations it rests on")},
      {"approvals",
       ListOf(Object({{"by", Text("")}, {"time", Ref("time")}, {"note", Text(""), false}}), "")},
      {"reason", Text("")},
  });
}

Schema HeadSchema() {
  return Object({{"time", RefDescribed("time", "when it was signed")},
                 {"register", Text("id of the register")},
                 {"sequence", Count("of the last event; 0: the log is empty")},
                 {"digest", RefDescribed("digestSet", "of the chain there")}});
}

// The type names the shape of the predicate.
Schema Typed(std::string_view type, std::string_view definition) {
  return "{\"properties\":{\"predicateType\":" + ConstText(type) +
         ",\"predicate\":" + Ref(definition) + "}}";
}

}  // namespace

std::string StatementJsonSchema() {
  Definitions definitions = {
      {"verdict", OneOf(std::array{Verdict::kSatisfied, Verdict::kInconclusive, Verdict::kError,
                                   Verdict::kViolated},
                        "")},
      {"time", Described("\"type\":\"string\",\"pattern\":\"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:"
                         "[0-9]{2}:[0-9]{2}([.][0-9]{3})?Z$\"",
                         "UTC, RFC 3339")},
      {"digestSet", Object({{"sha256", "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{64}$\"}"}})},
      {"namedDigest", Object({{"name", Text("")}, {"digest", Ref("digestSet")}})},
  };
  for (auto& number : NumberDefinitions()) definitions.push_back(std::move(number));
  definitions.push_back({"evaluation", EvaluationSchema()});
  definitions.push_back({"promotion", PromotionSchema()});
  definitions.push_back({"registerHead", HeadSchema()});
  const Schema root = Object(
      {{"_type", ConstText(kStatementType)},
       {"subject", Described("\"type\":\"array\",\"minItems\":1,\"items\":" + Ref("namedDigest"),
                             "what the statement is about")},
       {"predicateType", Text("which of the predicates it is")},
       {"predicate", "{\"type\":\"object\"}"}});
  const Schema kinds = ",\"oneOf\":[" + Typed(kEvaluationType, "evaluation") + "," +
                       Typed(kPromotionType, "promotion") + "," +
                       Typed(kRegisterHeadType, "registerHead") + "]}";
  return Document("kcc statement", definitions, root.substr(0, root.size() - 1) + kinds);
}

}  // namespace kcc
