// kcc schema: the JSON Schema for editors, or the same key tables as the language page prints them.
#include <cctype>
#include <cmath>

#include "apps/kcc/commands.h"
#include "apps/kcc/markdown.h"
#include "kcc/base/strings.h"
#include "kcc/contract/keys.h"
#include "kcc/contract/schema.h"
#include "kcc/control/gateway_schema.h"
#include "kcc/experiment/experiment_report.h"
#include "kcc/monitorlog/log_record.h"
#include "kcc/predicate/fields.h"
#include "kcc/replay/stored_request.h"
#include "kcc/report/report_json.h"
#include "kcc/report/trace_schema.h"
#include "kcc/statement/statement_schema.h"

namespace kcc::cli {
namespace {

std::string RangeText(const KeyRow& key) {
  const bool has_min = std::isfinite(key.min);
  const bool has_max = std::isfinite(key.max);
  std::string text;
  if (has_min) text += (key.min_open ? "over " : "at least ") + ShortestNumber(key.min);
  if (has_min && has_max) text += ", ";
  if (has_max) text += (key.max_open ? "under " : "at most ") + ShortestNumber(key.max);
  return text;
}

std::string ValueText(const KeyRow& key) {
  if (!key.child.empty()) {
    const bool list = key.type == ValueType::kMappingList;
    std::string anchor(key.child);  // as Markdown renderers make it: lower case
    for (char& c : anchor) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return std::string(list ? "list of [" : "[").append(key.child) + "](#" + anchor + ")";
  }
  if (!key.words.empty()) {
    std::string text = key.type == ValueType::kWordList ? "list of " : "";
    for (const std::string_view& word : key.words) {
      if (&word != &key.words.front()) text += ", ";
      text += MarkdownCode(word);
    }
    return text;
  }
  const std::string range = RangeText(key);
  return std::string(Describe(key.type)) + (range.empty() ? "" : ", " + range);
}

std::string KeyTables(std::span<const MappingTable> tables) {
  std::string out;
  for (const MappingTable& table : tables) {
    out.append(out.empty() ? "" : "\n").append("### ").append(table.name).append("\n\n");
    std::string doc(table.doc);
    if (!doc.empty()) doc[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(doc[0])));
    out.append(doc).append(".\n\n");
    std::vector<std::vector<std::string>> rows;
    for (const KeyRow& key : table.keys) {
      const std::string given = key.required ? "required" : MarkdownCode(key.default_text);
      rows.push_back({MarkdownCode(key.name), ValueText(key), given, std::string(key.doc)});
    }
    out += MarkdownTable({"key", "value", "default", "meaning"}, rows);
  }
  return out;
}

std::string FieldTable() {
  std::string out = "\n### Fields of a predicate\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const PredicateField& field : PredicateFields()) {
    rows.push_back({MarkdownCode(field.name), std::string(Name(field.type)),
                    std::string(Name(field.origin)), std::string(field.doc)});
  }
  return out + MarkdownTable({"field", "type", "origin", "meaning"}, rows);
}

}  // namespace

int RunSchema(const SchemaOptions& options, Console& console) {
  if (options.markdown) {
    console.out << (options.policy    ? KeyTables(PolicyTables())
                    : options.monitor ? KeyTables(MonitorTables())
                    : options.gateway ? KeyTables(GatewayTables())
                                      : KeyTables(MappingTables()) + FieldTable());
    return kExitOk;
  }
  const std::string schema = options.report        ? ReportJsonSchema()
                             : options.experiment  ? ExperimentJsonSchema()
                             : options.statement   ? StatementJsonSchema()
                             : options.policy      ? PolicyJsonSchema()
                             : options.monitor     ? MonitorJsonSchema()
                             : options.gateway     ? GatewayJsonSchema()
                             : options.status      ? GatewayStatusSchema()
                             : options.verdict     ? GatewayVerdictSchema()
                             : options.request     ? StoredRequestSchema()
                             : options.observation ? ObservationSchema()
                             : options.event       ? MonitorEventSchema()
                             : options.trace       ? TraceSchema()
                                                   : ContractJsonSchema();
  console.out << schema << (schema.ends_with('\n') ? "" : "\n");
  return kExitOk;
}

}  // namespace kcc::cli
