// One definition per mapping table, one per kind of metric. The schema is for editors: it accepts
// what a YAML reader makes of every spelling that kcc accepts (1% arrives as a text, 0.01 as a
// number), and leaves to `kcc check` what a schema cannot say.
#include "kcc/contract/schema.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/document_kind.h"
#include "kcc/contract/keys.h"
#include "kcc/contract/values.h"
#include "kcc/metric/metric.h"
#include "kcc/predicate/expression.h"
#include "kcc/predicate/fields.h"
#include "kcc/predicate/predicate_node.h"

namespace kcc {
namespace {

constexpr std::string_view kIdentifierPattern = "^[A-Za-z0-9][-A-Za-z0-9_.]*$";
constexpr std::string_view kNamePattern = "^[a-z0-9][-a-z0-9.]*$";
constexpr std::string_view kVersionPattern = "^(0|[1-9][0-9]*)([.](0|[1-9][0-9]*)){2}$";
// A YAML 1.1 reader takes 2e-3 for a text, so every number may come as one if it has an exponent.
constexpr std::string_view kExponentPattern = "^[-+]?[0-9.]+[eE][-+]?[0-9]+$";
constexpr std::string_view kPercentPattern =
    "^[-+]?[0-9.]+([eE][-+]?[0-9]+|([eE][-+]?[0-9]+)? *%)$";
constexpr std::string_view kQuantityPattern =
    "^[-+]?[0-9.]+([eE][-+]?[0-9]+|([eE][-+]?[0-9]+)? *(%|[A-Za-z]+))$";
constexpr std::string_view kWindowPattern = "^(request|[0-9]+ +requests?|[0-9.]+ *(us|ms|s|m|h))$";
constexpr std::string_view kDurationPattern = "^[0-9.]+ *(us|ms|s|m|h|d)$";
constexpr std::string_view kRatePattern = "^[0-9.]+([eE][-+]?[0-9]+)? per (s|m|h|d)$";
constexpr std::string_view kSizePattern = "^[0-9.]+ *([kKMGT]?B|[KMGT]iB)$";
constexpr std::string_view kAlarmBudgetPattern =
    "^ *[0-9.]+([eE][-+]?[0-9]+)? +per +((10\\^[0-9]+|[0-9.]+([eE][+]?[0-9]+)?) +requests?"
    "|[0-9.]+ *(us|ms|s|m|h|d))$";
constexpr std::string_view kDatePattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$";
constexpr std::string_view kAddressPattern = "^([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$";
constexpr std::string_view kUrlPattern =
    "^https?://([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?([/?].*)?$";
constexpr std::string_view kSourcePattern = "^(header:[^ ]+|body:[^.]+([.][^.]+)?)$";
constexpr std::string_view kDigestPattern = "^sha256:[0-9a-f]{64}$";

constexpr Direction kDirections[] = {Direction::kLowerIsBetter, Direction::kHigherIsBetter,
                                     Direction::kSigned};

// "lowerIsBetterMetric": the definition of the metrics of one direction.
std::string_view MetricDefinition(Direction direction) {
  switch (direction) {
    case Direction::kLowerIsBetter:
      return "lowerIsBetterMetric";
    case Direction::kHigherIsBetter:
      return "higherIsBetterMetric";
    case Direction::kSigned:
      break;
  }
  return "signedMetric";
}

std::vector<std::string> MetricsOf(Direction direction) {
  std::vector<std::string> names;
  for (std::string& name : MetricNames()) {
    if (MetricDirection(*ParseMetric(name)) == direction) names.push_back(std::move(name));
  }
  return names;
}

// A metric of a quantity that the contract defines itself.
std::string OwnMetricPattern() {
  std::string aggregates;
  for (const Aggregate aggregate : Aggregates()) {
    aggregates.append(aggregates.empty() ? "" : "|").append(AggregateName(aggregate));
  }
  return "^(" + aggregates + ")_[a-z][a-z0-9_]*$";
}

class SchemaWriter {
 public:
  std::string Contract() {
    Begin("KernelContract", "kcc kernel contract", "#/$defs/document");
    for (const MappingTable& table : MappingTables()) Table(table);
    for (const Direction direction : kDirections) Metrics(direction);
    AnyMetric();
    json_.EndObject().EndObject();
    return json_.Take();
  }

  // The first of the tables is the root.
  std::string Policy(DocumentKind kind, std::span<const MappingTable> tables) {
    Begin(Name(kind), "kcc " + std::string(Noun(kind)),
          "#/$defs/" + std::string(tables.front().name));
    for (const MappingTable& table : tables) Table(table);
    json_.EndObject().EndObject();
    return json_.Take();
  }

 private:
  void Begin(std::string_view kind, std::string_view title, std::string_view root) {
    json_.BeginObject()
        .Field("$schema", "https://json-schema.org/draft/2020-12/schema")
        .Field("$id", "urn:kcc:v1:" + std::string(kind))
        .Field("title", title)
        .Field("$ref", root);
    json_.Key("$defs").BeginObject();
  }

  void Ref(std::string_view definition) {
    json_.Field("$ref", "#/$defs/" + std::string(definition));
  }

  template <class Texts>
  void TextArray(std::string_view key, const Texts& texts) {
    json_.Key(key).BeginArray();
    for (const auto& text : texts) json_.Value(std::string_view(text));
    json_.EndArray();
  }

  void Types(std::initializer_list<std::string_view> types) { TextArray("type", types); }

  void Table(const MappingTable& table) {
    json_.Key(table.name).BeginObject();
    json_.Field("description", table.doc).Field("type", "object");
    json_.Field("additionalProperties", false);
    std::vector<std::string_view> required;
    for (const KeyRow& row : table.keys) {
      if (row.required) required.push_back(row.name);
    }
    if (!required.empty()) TextArray("required", required);
    json_.Key("properties").BeginObject();
    for (const KeyRow& row : table.keys) {
      json_.Key(row.name).BeginObject().Field("description", Doc(row));
      Value(row);
      Default(row);
      json_.EndObject();
    }
    json_.EndObject();
    if (table.name == "clause") ClauseRules();
    if (table.name == "spec") SpecRules();
    if (table.name == "hook") AnyOf("oneOf", {"exec", "http"});
    if (table.name == "gradeHook") AnyOf("oneOf", {"json", "phrases", "exec", "http"});
    if (table.name == "routeOverride") RouteRules();
    json_.EndObject();
  }

  static std::string Doc(const KeyRow& row) {
    std::string doc(row.doc);
    const bool expression = row.type == ValueType::kExpression;
    if (row.type != ValueType::kPredicate && !expression) return doc;
    doc += ". Fields: ";
    std::vector<std::string_view> names;
    for (const PredicateField& field : PredicateFields()) {
      const bool counts = field.type == FieldType::kNumber || field.type == FieldType::kBool;
      if (counts || !expression) names.push_back(field.name);
    }
    return doc + JoinWords(names) + ", and any further field of your requests";
  }

  void Range(const KeyRow& row) {
    if (std::isfinite(row.min)) json_.Field(row.min_open ? "exclusiveMinimum" : "minimum", row.min);
    if (std::isfinite(row.max)) json_.Field(row.max_open ? "exclusiveMaximum" : "maximum", row.max);
  }

  // A YAML reader may take a text such as 1.0 for a number; patterns bind texts only.
  void Pattern(std::string_view pattern) {
    Types({"string", "number"});
    json_.Field("pattern", pattern).Field("maxLength", kIdentifierLengthMax);
  }

  // What every reader of YAML takes for a text.
  void TextOf(std::string_view pattern) { json_.Field("type", "string").Field("pattern", pattern); }

  void ListOf(const KeyRow& row) {
    json_.Field("type", "array").Field("minItems", 1).Field("uniqueItems", true);
    json_.Key("items").BeginObject();
    if (row.type == ValueType::kWordList) {
      TextArray("enum", row.words);
    } else if (row.type == ValueType::kTextList) {
      json_.Field("type", "string").Field("minLength", 1);
    } else if (row.type == ValueType::kSourceList) {
      TextOf(kSourcePattern);
    } else {
      Pattern(kIdentifierPattern);
    }
    json_.EndObject();
  }

  // A number within the row's range, or a text with an exponent or a unit.
  void NumberOrText(const KeyRow& row, std::string_view pattern) {
    json_.Key("anyOf").BeginArray().BeginObject().Field("type", "number");
    Range(row);
    json_.EndObject().BeginObject().Field("type", "string").Field("pattern", pattern).EndObject();
    json_.EndArray();
  }

  void ScalarMap(bool binding) {
    json_.Field("type", "object");
    json_.Key("additionalProperties").BeginObject();
    Types({"string", "number", "boolean"});
    json_.EndObject();
    if (!binding) return;
    json_.Key("properties").BeginObject().Key("digest").BeginObject();
    json_.Field("type", "string").Field("pattern", kDigestPattern);
    json_.EndObject().EndObject();
  }

  void NumberList(const KeyRow& row) {
    json_.Field("type", "array").Field("minItems", 1).Field("uniqueItems", true);
    json_.Key("items").BeginObject();
    NumberOrText(row, kExponentPattern);
    json_.EndObject();
  }

  // The pattern of the values that are a text with a form of its own; none for other types.
  static std::string_view TextPattern(ValueType type) {
    switch (type) {
      case ValueType::kWindow:
        return kWindowPattern;
      case ValueType::kDuration:
        return kDurationPattern;
      case ValueType::kRate:
        return kRatePattern;
      case ValueType::kSize:
        return kSizePattern;
      case ValueType::kAlarmBudget:
        return kAlarmBudgetPattern;
      case ValueType::kAddress:
        return kAddressPattern;
      case ValueType::kUrl:
        return kUrlPattern;
      case ValueType::kSource:
        return kSourcePattern;
      case ValueType::kVersion:
        return kVersionPattern;
      default:
        return {};
    }
  }

  void Value(const KeyRow& row) {
    switch (row.type) {
      case ValueType::kMapping:
        return Ref(row.child);
      case ValueType::kMappingList:
        json_.Field("type", "array").Key("items").BeginObject();
        Ref(row.child);
        json_.EndObject();
        return;
      case ValueType::kText:
      case ValueType::kPath:
        return Types({"string", "number", "boolean"});
      case ValueType::kIdentifier:
        return Pattern(kIdentifierPattern);
      case ValueType::kName:
        return Pattern(kNamePattern);
      case ValueType::kWord: {
        std::vector<std::string_view> words(row.words.begin(), row.words.end());
        if (row.may_be_empty) words.emplace_back("");
        return TextArray("enum", words);
      }
      case ValueType::kIdentifierList:
      case ValueType::kWordList:
      case ValueType::kTextList:
      case ValueType::kSourceList:
        return ListOf(row);
      case ValueType::kNumber:
        return NumberOrText(row, kExponentPattern);
      case ValueType::kNumberList:
        return NumberList(row);
      case ValueType::kInteger:
        json_.Field("type", "integer");
        return Range(row);
      case ValueType::kRatio:
        return NumberOrText(row, kPercentPattern);
      case ValueType::kThreshold:
        return NumberOrText(row, kQuantityPattern);
      case ValueType::kBoolean:
        json_.Field("type", "boolean");
        return;
      case ValueType::kMetric:
        return Ref("metric");
      case ValueType::kPredicate:
        Types({"string", "boolean"});
        json_.Field("maxLength", kPredicateBytesMax);
        return;
      case ValueType::kExpression:
        json_.Field("type", "string").Field("maxLength", kExpressionBytesMax);
        return;
      case ValueType::kDate:
        json_.Field("type", "string").Field("format", "date").Field("pattern", kDatePattern);
        return;
      case ValueType::kWindow:
      case ValueType::kDuration:
      case ValueType::kRate:
      case ValueType::kSize:
      case ValueType::kAlarmBudget:
      case ValueType::kAddress:
      case ValueType::kUrl:
      case ValueType::kSource:
      case ValueType::kVersion:
        return TextOf(TextPattern(row.type));
      case ValueType::kJsonMap:
      case ValueType::kTextMap:
      case ValueType::kBinding:
        return ScalarMap(row.type == ValueType::kBinding);
    }
  }

  // As JSON: numbers and booleans bare, `[a, b]` as a list of texts.
  void Default(const KeyRow& row) {
    std::string_view text = row.default_text;
    if (text.empty()) return;
    json_.Key("default");
    if (const std::optional<double> number = ParseNumber(text)) {
      json_.Value(*number);
    } else if (row.type == ValueType::kBoolean) {
      json_.Value(text == "true");
    } else if (text.starts_with('[')) {
      json_.BeginArray();
      text = text.substr(1, text.size() - 2);
      while (!text.empty()) {
        const size_t end = text.find(", ");
        json_.Value(text.substr(0, end));
        text.remove_prefix(end == text.npos ? text.size() : end + 2);
      }
      json_.EndArray();
    } else {
      json_.Value(text);
    }
  }

  // Of these keys one ("oneOf") or at least one ("anyOf") is there.
  void AnyOf(std::string_view how_many, std::initializer_list<std::string_view> keys) {
    json_.Key(how_many).BeginArray();
    for (const std::string_view key : keys) {
      json_.BeginObject();
      TextArray("required", std::vector<std::string_view>{key});
      json_.EndObject();
    }
    json_.EndArray();
  }

  // The bound fits the metric's direction, and `fields` belongs to one quantity.
  void ClauseRules() {
    const auto refuse = [&](std::string_view key) {
      json_.Key("not").BeginObject();
      TextArray("required", std::vector<std::string_view>{key});
      json_.EndObject();
    };
    const auto require = [&](std::string_view key) {
      TextArray("required", std::vector<std::string_view>{key});
    };
    const auto if_metric = [&](std::string_view definition) {
      json_.BeginObject().Key("if").BeginObject().Key("properties").BeginObject();
      json_.Key("metric").BeginObject();
      Ref(definition);
      json_.EndObject().EndObject().EndObject().Key("then").BeginObject();
    };
    AnyOf("oneOf", {"atMost", "atLeast"});
    json_.Key("allOf").BeginArray();
    if_metric(MetricDefinition(Direction::kLowerIsBetter));
    refuse("atLeast");
    json_.EndObject().EndObject();
    if_metric(MetricDefinition(Direction::kHigherIsBetter));
    refuse("atMost");
    json_.EndObject().EndObject();
    json_.BeginObject().Key("if").BeginObject().Key("properties").BeginObject();
    json_.Key("metric").BeginObject().Field("pattern", "^(train_)?trace_field_coverage$");
    json_.EndObject().EndObject().EndObject().Key("then").BeginObject();
    require("fields");
    json_.EndObject().Key("else").BeginObject();
    refuse("fields");
    json_.EndObject().EndObject().EndArray();
  }

  // An action, a target, or both.
  void RouteRules() { AnyOf("anyOf", {"action", "target"}); }

  // Where a contract defines no metric of its own, every metric is one that kcc knows.
  void SpecRules() {
    json_.Key("if").BeginObject().Key("not").BeginObject();
    TextArray("required", std::vector<std::string_view>{"metrics"});
    json_.EndObject().EndObject().Key("then").BeginObject().Key("properties").BeginObject();
    for (const Family family :
         {Family::kNumerical, Family::kStatistical, Family::kRuntime, Family::kObservability}) {
      json_.Key(Name(family)).BeginObject().Key("items").BeginObject();
      json_.Key("properties").BeginObject().Key("metric").BeginObject();
      Ref("catalogMetric");
      json_.EndObject().EndObject().EndObject().EndObject();
    }
    json_.EndObject().EndObject();
  }

  void Metrics(Direction direction) {
    json_.Key(MetricDefinition(direction)).BeginObject();
    TextArray("enum", MetricsOf(direction));
    json_.EndObject();
  }

  void AnyMetric() {
    json_.Key("metric").BeginObject();
    json_.Field("description", "aggregate_quantity; `kcc metrics` explains every quantity");
    json_.Field("type", "string").Key("anyOf").BeginArray();
    json_.BeginObject();
    Ref("catalogMetric");
    json_.EndObject().BeginObject().Field("pattern", OwnMetricPattern()).EndObject();
    json_.EndArray().EndObject();
    json_.Key("catalogMetric").BeginObject().Key("anyOf").BeginArray();
    for (const Direction direction : kDirections) {
      json_.BeginObject();
      Ref(MetricDefinition(direction));
      json_.EndObject();
    }
    json_.EndArray().EndObject();
  }

  JsonWriter json_;
};

}  // namespace

std::string ContractJsonSchema() { return SchemaWriter().Contract(); }

std::string PolicyJsonSchema() {
  return SchemaWriter().Policy(DocumentKind::kPromotion, PolicyTables());
}

std::string MonitorJsonSchema() {
  return SchemaWriter().Policy(DocumentKind::kMonitor, MonitorTables());
}

std::string GatewayJsonSchema() {
  return SchemaWriter().Policy(DocumentKind::kGateway, GatewayTables());
}

}  // namespace kcc
