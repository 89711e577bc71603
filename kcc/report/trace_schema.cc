#include "kcc/report/trace_schema.h"

#include <array>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/trace/request_schema.h"
#include "kcc/trace/trace.h"

namespace kcc {
namespace {

using namespace json_schema;

constexpr std::array kLevels = {EvidenceLevel::kLogits, EvidenceLevel::kTopK,
                                EvidenceLevel::kSampledToken, EvidenceLevel::kNone};
constexpr std::array kSemantics = {LogprobSemantics::kRaw, LogprobSemantics::kTemperatureScaled,
                                   LogprobSemantics::kProcessed};
constexpr std::array kPaths = {TracePath::kPrefill, TracePath::kDecode};
constexpr std::array kModes = {TraceMode::kScored, TraceMode::kGenerated};
constexpr std::array kSides = {SampledBy::kInfer, SampledBy::kTrain, SampledBy::kDataset};

// null means that the field is absent.
Schema FieldSchema(const RecordField& row) {
  const auto range = [](double low, double high) {
    return ",\"minimum\":" + ShortestNumber(low) + ",\"maximum\":" + ShortestNumber(high);
  };
  switch (row.as) {
    case RecordedAs::kCount:
      return Described("\"type\":[\"integer\",\"null\"]" + range(0, kRecordedCountMax), row.doc);
    case RecordedAs::kNumber:
      return Described("\"type\":[\"number\",\"null\"]" + range(row.min, kRecordedNumberMax),
                       row.doc);
    case RecordedAs::kNumberOrText:
      return Described("\"type\":[\"number\",\"string\",\"object\",\"null\"]", row.doc);
    case RecordedAs::kFlag:
      return Described("\"type\":[\"boolean\",\"null\"]", row.doc);
    case RecordedAs::kText:
      return RefDescribed("recordText", row.doc);
    case RecordedAs::kTexts:
      break;
  }
  return Described("\"type\":[\"array\",\"null\"]", row.doc);
}

std::vector<Property> FieldProperties() {
  std::vector<Property> properties;
  for (const RecordField& row : RecordFields()) {
    properties.push_back({std::string(row.name), FieldSchema(row), false});
  }
  return properties;
}

// Closed: an unknown key of trace.json is an error.
Schema InfoSchema() {
  const Schema positive = R"({"type":"number","exclusiveMinimum":0})";
  std::vector<Property> keys = {
      {"format", "{\"enum\":[1,2]}"},
      {"kernelFingerprint", Described("\"type\":\"string\",\"minLength\":1", "the kernel build")},
      {"modelDigest", Text("of the weights"), false},
      {"vocabSize",
       Described("\"type\":\"integer\",\"minimum\":1,\"maximum\":" + std::to_string(kVocabSizeMax),
                 "entries that are compared")},
      {"evidence", OneOf(kLevels, "about each token")},
      {"semantics", OneOf(kSemantics, "of its numbers")},
      {"path", OneOf(kPaths, "that gave them")},
      {"temperature", positive},
      {"samplingTemperature",
       Described("\"type\":\"number\",\"minimum\":0", "0: greedily; absent: not known"), false},
      {"samplingAltered", Bool("not drawn from the whole distribution"), false},
      {"mode", OneOf(kModes, "who wrote the tokens")},
      {"sampledBy", OneOf(kSides, "who chose them")},
      {"requests", Count("that there are"), false},
      {"tokens", Count("that there are"), false},
      {"declares", MapOf(Text(""), "what the kernel says about itself"), false},
      {"notes", MapOf(Text(""), "free texts about the origin"), false}};
  for (Property& key : keys) {
    if (!key.required) key.schema = OrNull(key.schema);  // null means that the key is absent
  }
  Schema schema = Object(keys, "trace.json");
  schema.insert(1, "\"additionalProperties\":false,");
  return schema;
}

}  // namespace

Definitions RecordDefinitions() {
  // What is kept as a text: an object as its JSON, an integer that a double cannot hold in decimal.
  return {{"recordText",
           R"({"anyOf":[{"type":["string","object","null"]},)"
           R"({"type":"integer","minimum":9007199254740993,"maximum":18446744073709551615},)"
           R"({"type":"integer","minimum":-9223372036854775808,"maximum":-9007199254740993}]})"}};
}

Schema RecordSchema(std::string_view description) {
  std::vector<Property> properties = FieldProperties();
  properties.insert(properties.begin(), Property{"id", "{\"type\":\"null\"}", false});
  return Object(properties, description);
}

std::string TraceSchema() {
  Definitions definitions = RecordDefinitions();
  definitions.emplace_back("info", InfoSchema());
  std::vector<Property> fields = FieldProperties();
  fields.insert(fields.begin(),
                Property{"id", Described("\"type\":[\"string\",\"integer\"],\"minLength\":1",
                                         "unique in the file")});
  definitions.emplace_back("request", Object(fields, "a line of requests.jsonl"));
  return Document("kcc trace", definitions,
                  "{\"oneOf\":[" + Ref("info") + "," + Ref("request") + "]}");
}

}  // namespace kcc
