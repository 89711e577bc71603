// The JSON Schemas of an observation (kcc schema --observation) and of the lines of a decision log
// (kcc schema --event).
#include <array>

#include "kcc/metric/token_slots.h"
#include "kcc/monitorlog/log_record.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/report/json_schema.h"
#include "kcc/report/trace_schema.h"

namespace kcc {
namespace {

using namespace json_schema;

// Objects are open in json_schema.h, for output that later versions add to. What kcc reads is not;
// null is as absent.
Schema Closed(std::vector<Property> properties, std::string_view description = "") {
  for (Property& property : properties) {
    if (!property.required) property.schema = OrNull(property.schema);
  }
  Schema schema = Object(properties, description);
  schema.insert(1, "\"additionalProperties\":false,");
  return schema;
}

Schema Column(const Schema& items, std::string_view description) {
  return Described("\"type\":\"array\",\"maxItems\":" + std::to_string(kObservationRowsMax) +
                       ",\"items\":" + items,
                   description);
}

Schema Integers(int low, std::string_view description) {
  return Column("{\"type\":\"integer\",\"minimum\":" + std::to_string(low) + "}", description);
}

Schema Sides(const Schema& column, std::string_view description) {
  return Closed({{"infer", column, false}, {"train", column, false}}, description);
}

Schema NameText(std::string_view description, bool required) {
  return Described("\"type\":\"string\",\"minLength\":" + std::to_string(required ? 1 : 0) +
                       ",\"maxLength\":" + std::to_string(kObservationNameBytesMax),
                   description);
}

Schema TokensSchema() {
  const Schema numbers = Ref("column");
  std::vector<Property> keys = {
      {"position", Integers(0, "over prompt and output together; one for each row"), false},
      {"token", Integers(0, "token ids"), false},
      {"gold", Integers(-1, "train's labels; -1: none"), false},
      {"advantage", numbers, false},
      {"logprob", Sides(numbers, "of the token, by each side"), false},
      {"argmax", Sides(Integers(-1, "-1: not known"), "each side's most likely token"), false},
      {"confidence", Sides(numbers, "its probability"), false}};
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    keys.push_back({SlotName(slot), Ref("quantity"), false});
  }
  keys.push_back({"own", MapOf(OrNull(numbers), "token metrics that the contract defines"), false});
  keys.push_back({"masked", Count("rows of the output that train leaves out"), false});
  return Closed(std::move(keys), "the tokens that both kernels scored, column by column");
}

Schema ObservationObject() {
  return Closed(
      {{"time_ms", "{\"type\":\"integer\",\"description\":\"when it was observed\"}"},
       {"request", NameText("its id", true)},
       {"kernel", NameText("a kernel of the policy: who served or was shown it", true)},
       {"session", NameText("absent: the request is a session of its own", false), false},
       {"probe", Bool("shown to the kernel, and nobody was answered with it"), false},
       {"repeat", Bool("asked again; clauses about repeats alone read it"), false},
       {"audited", Bool("the evidence is complete; false: counted as served only"), false},
       {"broken", NameText("why it is no evidence but of its being broken", true), false},
       {"one_record", Bool("infer's record speaks for both sides, as with arrays"), false},
       {"infer", RefDescribed("fields", "by the kernel that is judged"), false},
       {"train", RefDescribed("fields", "by the audit kernel"), false},
       {"asked", RefDescribed("fields", "by whoever routed the request"), false},
       {"tokens", TokensSchema(), false},
       {"values", MapOf(OrNull(Ref("value")), "metrics of the request, such as mean_kl"), false},
       {"outputs",
        Closed({{"known", Bool("whether the rows settle it"), false},
                {"same", Bool(""), false},
                {"common", Count("tokens before the first that differs"), false}},
               "of what both sides generated"),
        false}});
}

Definitions ObservationDefinitions() {
  // "inf" and "-inf" are read; "nan" is not, since a missing value is null.
  const Schema number = R"({"anyOf":[{"type":"number"},{"enum":["inf","-inf"]}]})";
  const Schema cell = R"({"anyOf":[{"type":"number"},{"enum":["inf","-inf"]},{"type":"null"}]})";
  Definitions definitions = RecordDefinitions();
  Schema observation = ObservationObject();
  // Infer's record speaks for both sides, or train has one of its own.
  observation.insert(
      1, R"("if":{"properties":{"one_record":{"const":true}},"required":["one_record"]},)"
         R"("then":{"properties":{"train":{"type":"null"}}},)");
  const Definitions own = {
      {"number", number},
      {"column", Column(cell, "null: the value is missing")},
      {"quantity", "{\"anyOf\":[" + Ref("column") + "," +
                       Closed({{"lo", Ref("column")}, {"hi", Ref("column")}}, "intervals") + "]}"},
      {"value", "{\"anyOf\":[" + Ref("number") + "," +
                    Closed({{"lo", Ref("number")}, {"hi", Ref("number")}}, "an interval") + "]}"},
      {"fields", RecordSchema("fields of the request, as in requests.jsonl; null: absent")},
      {"observation", observation}};
  definitions.insert(definitions.end(), own.begin(), own.end());
  return definitions;
}

constexpr std::array kKinds = {
    MonitorChangeKind::kAlarm,        MonitorChangeKind::kProof,     MonitorChangeKind::kBroken,
    MonitorChangeKind::kGuard,        MonitorChangeKind::kRecovered, MonitorChangeKind::kRelease,
    MonitorChangeKind::kProbationEnd, MonitorChangeKind::kPanic,     MonitorChangeKind::kPanicEnd,
    MonitorChangeKind::kRoute,        MonitorChangeKind::kRenew};
constexpr std::array kHandlings = {Handling::kCounted, Handling::kUnaudited, Handling::kDuplicate,
                                   Handling::kSession, Handling::kLate,      Handling::kUnread,
                                   Handling::kRenewed};
constexpr std::array kStageWords = {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull};

Schema ChangeSchema() {
  return Object(
      {{"kind", OneOf(kKinds, "what changed")},
       {"kernel", Text("of a route: the one that serves; absent: none does"), false},
       {"clause", Text("absent: not about one clause"), false},
       {"slice", Text(""), false},
       {"action", Text("what is ordered"), false},
       {"target", Text("where requests go"), false},
       {"eValue", RefDescribed("anyNumber", "the statistic"), false},
       {"eLevel", RefDescribed("anyNumber", "what it had to reach"), false},
       {"value", RefDescribed("anyNumber", "the recent rate or mean, or the proof"), false},
       {"limit", RefDescribed("anyNumber", "what it is held to"), false},
       {"observations", Count("audited ones that the evidence rests on"), false},
       {"reason", Text("a sentence"), false}});
}

Schema UnreadSchema() {
  return Object(
      {{"reason", Text("why it could not be read")},
       {"kernel", Text("whose line it is, where that is known"), false},
       {"column", Count("where, from 1"), false},
       {"bytes", Count("of the line"), false},
       {"digest", RefDescribed("digest", "of the line; absent: it was too long"), false},
       {"lines", Count("for how many it stands, each an observation; absent: one"), false}},
      "a line that could not be read");
}

Schema RenewedSchema() {
  return Object({{"kernel", Text("whose evidence begins anew")},
                 {"time_ms", "{\"type\":\"integer\",\"description\":\"when\"}"},
                 {"reason", Text("why")}},
                "another build bears a kernel's name");
}

Schema DocumentSchema(std::string_view description) {
  return Object({{"name", Text("")}, {"version", Text("")}, {"digest", Ref("digest")}},
                description);
}

}  // namespace

std::string ObservationSchema() {
  Definitions definitions = ObservationDefinitions();
  const Schema root = std::move(definitions.back().second);
  definitions.pop_back();
  return Document("kcc monitor observation", definitions, root);
}

std::string MonitorEventSchema() {
  Definitions definitions = ObservationDefinitions();
  definitions.emplace_back("anyNumber",
                           R"({"anyOf":[{"type":"number"},{"enum":["inf","-inf","nan"]}]})");
  definitions.emplace_back("digest", R"({"type":"string","pattern":"^sha256:[0-9a-f]{64}$"})");
  const Schema before =
      Object({{"head", RefDescribed("digest", "of the last line before, in another file")},
              {"decisions", Count("up to it")},
              {"state", Text("the monitor's state after them, in base64")}},
             "where this file goes on from; absent: the log begins here");
  definitions.emplace_back("start", Object({{"kccMonitorLog", "{\"const\":1}"},
                                            {"contract", DocumentSchema("it is judged under")},
                                            {"policy", DocumentSchema("the monitor policy")},
                                            {"stage", OneOf(kStageWords, "whose clauses count")},
                                            {"kcc", Text("the version that wrote the log")},
                                            {"before", before, false}},
                                           "the first line of a file of a log"));
  Schema decision =
      Object({{"previous", RefDescribed("digest", "of the line before, its end left out")},
              {"number", Count("of the observation, from 1; of several, the last")},
              {"handling", OneOf(kHandlings, "what became of it")},
              {"serves", Text("the kernel that serves after it; empty: none")},
              {"changes", ListOf(ChangeSchema(), "what it changed, with reasons")},
              {"observation", Ref("observation"), false},
              {"unread", UnreadSchema(), false},
              {"renewed", RenewedSchema(), false}},
             "every later line");
  decision.insert(1, R"("oneOf":[{"required":["observation"]},{"required":["unread"]},)"
                     R"({"required":["renewed"]}],)");
  definitions.emplace_back("decision", decision);
  return Document("kcc monitor event", definitions,
                  "{\"oneOf\":[" + Ref("start") + "," + Ref("decision") + "]}");
}

}  // namespace kcc
