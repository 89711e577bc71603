// kcc metrics: the catalog, or one of its rows in words; with a contract, its own metrics too.
#include <algorithm>
#include <cmath>
#include <map>

#include "apps/kcc/commands.h"
#include "apps/kcc/markdown.h"
#include "apps/kcc/metric_words.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"

namespace kcc::cli {
namespace {

constexpr size_t kWidth = 100;
constexpr QuantityLevel kLevels[] = {QuantityLevel::kToken, QuantityLevel::kRequest,
                                     QuantityLevel::kPopulation};

std::string_view LevelTitle(QuantityLevel level) {
  switch (level) {
    case QuantityLevel::kToken:
      return "Per token";
    case QuantityLevel::kRequest:
      return "Per request";
    case QuantityLevel::kPopulation:
      break;
  }
  return "Population: one number per slice, no aggregate";
}

std::string AggregateList(std::string_view between) {
  std::string text;
  for (const Aggregate aggregate : Aggregates()) {
    text.append(text.empty() ? "" : between).append(AggregateName(aggregate));
  }
  return text;
}

// The rows that a contract adds, and what it says about each.
struct OwnMetrics {
  std::vector<const Quantity*> rows;
  std::map<const Quantity*, std::string> docs;
  std::string contract;  // its name; empty: none was given
};

OwnMetrics OwnMetricsOf(const Contract& contract) {
  OwnMetrics own;
  own.rows = contract.own_rows();
  own.contract = contract.name;
  for (const OwnDefinition& definition : contract.metrics) {
    own.docs[definition.row] = definition.doc;
  }
  return own;
}

void WriteQuantity(const Quantity& quantity, JsonWriter* json) {
  json->BeginObject().Field("id", quantity.id).Field("unit", Name(quantity.unit));
  json->Field("level", Name(quantity.level)).Field("better", Name(quantity.direction));
  json->Field("evidence", Name(quantity.evidence)).Field("fields", quantity.fields);
  json->Field("sided", quantity.sided).Field("onDemand", quantity.on_demand);
  json->Field("min", quantity.min).Field("max", quantity.max);
  json->Field("merge", Name(quantity.merge)).Field("definition", quantity.definition);
  json->Field("source", quantity.source);
  if (quantity.own != nullptr && !quantity.own->version.empty()) {
    json->Field("version", quantity.own->version);
  }
  json->EndObject();
}

void PrintCatalogRow(const Quantity& quantity, size_t widest, Console& console) {
  console.out << "  " << quantity.id << std::string(widest + 2 - quantity.id.size(), ' ')
              << WrapText(quantity.definition, widest + 4, kWidth) << '\n';
}

void PrintCatalog(const OwnMetrics& own, Console& console) {
  size_t widest = 0;
  for (const Quantity& quantity : Catalog()) widest = std::max(widest, quantity.id.size());
  for (const Quantity* quantity : own.rows) widest = std::max(widest, quantity->id.size());
  for (const QuantityLevel level : kLevels) {
    if (level != kLevels[0]) console.out << '\n';
    console.out << Paint(Style::kBold, LevelTitle(level), console.colour_out) << '\n';
    for (const Quantity& quantity : Catalog()) {
      if (quantity.level == level) PrintCatalogRow(quantity, widest, console);
    }
  }
  if (!own.contract.empty()) {
    console.out << '\n'
                << Paint(Style::kBold, "Of the contract " + Shown(own.contract), console.colour_out)
                << '\n';
    if (own.rows.empty()) console.out << "  none; spec.metrics defines them\n";
    for (const Quantity* quantity : own.rows) PrintCatalogRow(*quantity, widest, console);
  }
  console.out << "\nA metric is AGGREGATE_QUANTITY, such as p99_kl; aggregates: "
              << AggregateList(" ") << ".\n`kcc metrics NAME` says more about one.\n";
}

void PrintMarkdown(Console& console) {
  for (const QuantityLevel level : kLevels) {
    if (level != kLevels[0]) console.out << '\n';
    console.out << "## " << LevelTitle(level) << "\n\n";
    std::vector<std::vector<std::string>> rows;
    for (const Quantity& quantity : Catalog()) {
      if (quantity.level != level) continue;
      std::string id = MarkdownCode(quantity.id);
      if (quantity.sided) id += ", " + MarkdownCode("train_" + std::string(quantity.id));
      std::string evidence(Name(quantity.evidence));
      if (!quantity.fields.empty()) evidence += ": " + MarkdownCode(quantity.fields);
      rows.push_back({id, MarkdownCode(quantity.definition), std::string(Name(quantity.unit)),
                      std::string(Name(quantity.direction)), evidence,
                      quantity.on_demand ? "on demand" : "", std::string(quantity.source)});
    }
    console.out << MarkdownTable(
        {"quantity", "definition", "unit", "better", "evidence", "", "source"}, rows);
  }
}

void PrintRow(std::string_view label, std::string_view text, Console& console) {
  constexpr size_t kColumn = 14;
  console.out << "  " << label << std::string(kColumn - 2 - label.size(), ' ')
              << WrapText(text, kColumn, kWidth) << '\n';
}

std::string RangeWords(double min, double max) {
  if (std::isfinite(min) && std::isfinite(max)) {
    return ShortestNumber(min) + " to " + ShortestNumber(max);
  }
  if (std::isfinite(max)) return ShortestNumber(max) + " or less";
  return std::isfinite(min) ? ShortestNumber(min) + " or more" : "any number";
}

void PrintQuantity(const Quantity& quantity, Side side, Console& console) {
  PrintRow("quantity", QuantityWords(quantity, side), console);
  PrintRow("better", DirectionWords(quantity.direction), console);
  PrintRow("range", RangeWords(quantity.min, quantity.max), console);
  PrintRow("evidence", EvidenceWords(quantity), console);
  if (quantity.on_demand) PrintRow("computed", "only where a contract or the user asks", console);
  PrintRow("source", quantity.source, console);
}

int PrintOne(const std::string& name, const OwnMetrics& own, Console& console) {
  const auto find = [&](std::string_view id) {
    const Quantity* found = FindQuantity(id);
    return found != nullptr ? found : FindOwn(own.rows, id);
  };
  const bool train = name.starts_with("train_");
  const Quantity* quantity = find(name);
  if (quantity == nullptr && train) {
    const Quantity* sided = find(std::string_view(name).substr(6));
    if (sided != nullptr && sided->sided) quantity = sided;
  }
  Metric metric{quantity, Aggregate::kNone, train ? Side::kTrain : Side::kInfer};
  if (quantity == nullptr) {
    Result<Metric> parsed = ParseMetric(name, own.rows);
    if (!parsed.has_value()) return ReportError(parsed.error(), console);
    metric = *parsed;
  }
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("name", name).Field("aggregate", AggregateName(metric.aggregate));
    json.Field("side", metric.side == Side::kTrain ? "train" : "infer").Key("quantity");
    WriteQuantity(*metric.quantity, &json);
    json.EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  console.out << Paint(Style::kBold, name, console.colour_out) << '\n';
  if (metric.aggregate != Aggregate::kNone) PrintRow("metric", MetricWords(metric), console);
  PrintQuantity(*metric.quantity, metric.side, console);
  const auto doc = own.docs.find(metric.quantity);
  if (doc != own.docs.end() && !doc->second.empty()) PrintRow("doc", Shown(doc->second), console);
  if (quantity != nullptr && quantity->level != QuantityLevel::kPopulation) {
    PrintRow("aggregates", AggregateList(" ") + (quantity->bare_mean ? "; without one, mean" : ""),
             console);
  }
  return kExitOk;
}

}  // namespace

int RunMetrics(const MetricsOptions& options, Console& console) {
  OwnMetrics own;
  if (!options.contract.empty()) {
    int exit_code = kExitOk;
    const auto source = RequireContract(options.contract, console, &exit_code);
    if (!source) return exit_code;
    own = OwnMetricsOf(source->contract);
  }
  if (!options.name.empty()) return PrintOne(options.name, own, console);
  if (options.names) {
    for (const std::string& name : MetricNames(own.rows)) console.out << name << '\n';
  } else if (options.markdown) {
    PrintMarkdown(console);
  } else if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccMetrics", 1).Key("aggregates").BeginArray();
    for (const Aggregate aggregate : Aggregates()) json.Value(AggregateName(aggregate));
    json.EndArray().Key("quantities").BeginArray();
    for (const Quantity& quantity : Catalog()) WriteQuantity(quantity, &json);
    for (const Quantity* quantity : own.rows) WriteQuantity(*quantity, &json);
    json.EndArray().EndObject();
    console.out << json.Take();
  } else {
    PrintCatalog(own, console);
  }
  return kExitOk;
}

}  // namespace kcc::cli
