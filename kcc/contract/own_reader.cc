#include "kcc/contract/own_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kcc/contract/clause_reader.h"
#include "kcc/contract/mapping_reader.h"
#include "kcc/contract/words.h"

namespace kcc {
namespace {

// In the order of kUnitWords.
constexpr std::array kUnits = {Unit::kMs,        Unit::kTokens, Unit::kTokensPerSecond,
                               Unit::kMegabytes, Unit::kNat,    Unit::kLogit,
                               Unit::kUlp};
static_assert(kUnits.size() == kUnitWords.size());

// What stands for an expression that could not be read.
Expression Placeholder(QuantityLevel of) {
  return *Expression::Parse(of == QuantityLevel::kToken ? "token.position" : "ordinal");
}

std::optional<Expression> ReadExpression(const YamlDocument& document, const YamlNode& node,
                                         Problems* problems) {
  if (node.kind != YamlNode::Kind::kScalar) {
    problems->Error(node, "wrong-type", "from must be an expression in quotes",
                    "e.g. from: \"latency_ms - ttft_ms\"");
    return {};
  }
  Result<Expression> expression = Expression::Parse(node.text);
  if (expression.has_value()) return std::move(*expression);
  const std::string& message = expression.error().message();
  const size_t split = message.find("; ");
  const int column = expression.error().place().column;
  const size_t within = column > 0 ? static_cast<size_t>(column - 1) : 0;
  problems->ErrorAtOffset(document.OffsetWithin(node, within), "bad-from",
                          "from: " + message.substr(0, split),
                          split == std::string::npos ? "" : message.substr(split + 2));
  return {};
}

Unit ReadUnit(const MappingReader& mapping) {
  const YamlNode* node = mapping.Value("unit");
  const bool empty = node != nullptr && node->kind == YamlNode::Kind::kScalar && node->text.empty();
  const std::optional<size_t> word = empty ? std::nullopt : mapping.Word("unit");
  return word ? kUnits[*word] : Unit::kPure;
}

// A level that does not fit the expression; false and reported.
bool CheckLevel(const OwnMetric& metric, const YamlNode& from, Problems* problems) {
  const bool token = metric.of == QuantityLevel::kToken;
  if (metric.from.reads_token() == token) return true;
  problems->Error(from, "wrong-level",
                  token ? "a metric of tokens reads no token field"
                        : "a metric of requests cannot read token fields",
                  token ? "write 'of: request', or read a token. field" : "write 'of: token'");
  return false;
}

bool CheckRange(const MappingReader& mapping, const OwnMetric& metric, Problems* problems) {
  if (metric.min < metric.max) return true;
  problems->Error(*mapping.Value("max"), "out-of-range", "max is not above min",
                  "a quantity has at least two values; leave out the end that is not known");
  return false;
}

// The definition as far as it could be read; what was wrong is reported.
OwnMetric ReadDefinition(const YamlDocument& document, const MappingReader& mapping,
                         std::string name, Problems* problems) {
  const auto of = mapping.EnumWord<QuantityLevel>("of").value_or(QuantityLevel::kRequest);
  const YamlNode* from = mapping.Value("from");
  const auto expression =
      from == nullptr ? std::nullopt : ReadExpression(document, *from, problems);
  OwnMetric metric{std::move(name), of, expression.value_or(Placeholder(of)), ReadUnit(mapping),
                   mapping.EnumWord<Direction>("direction").value_or(Direction::kSigned)};
  const OwnMetric readable = metric;
  // -0 is 0.
  if (const auto min = mapping.Number("min")) metric.min = *min + 0.0;
  if (const auto max = mapping.Number("max")) metric.max = *max + 0.0;
  metric.version = mapping.Text("version").value_or("");
  if (expression && !CheckLevel(metric, *from, problems)) metric.from = Placeholder(of);
  if (!CheckRange(mapping, metric, problems)) {
    metric.min = readable.min;
    metric.max = readable.max;
  }
  return metric;
}

// A field of the same name as another metric is the field: metrics do not read one another.
void CheckNotNested(const std::vector<OwnDefinition>& metrics,
                    const std::vector<const YamlNode*>& names, Problems* problems) {
  for (size_t i = 0; i < metrics.size(); ++i) {
    for (const std::string& field : metrics[i].row->own->from.Fields()) {
      const auto other =
          std::find_if(metrics.begin(), metrics.end(),
                       [&](const OwnDefinition& candidate) { return candidate.row->id == field; });
      if (other == metrics.end() || other->row == metrics[i].row ||
          other->row->definition == other->row->id) {
        continue;
      }
      problems->Warning(*names[i], "not-a-field",
                        "metric '" + std::string(metrics[i].row->id) + "' reads the field '" +
                            field + "', not the metric of that name",
                        "write out what that metric is computed from");
    }
  }
}

}  // namespace

std::vector<const YamlNode*> ReadOwnMetrics(const YamlDocument& document,
                                            const std::vector<const YamlNode*>& items,
                                            Contract* contract, Problems* problems) {
  std::vector<const YamlNode*> names;
  if (items.size() > kOwnMetricsMax) {
    problems->Error(*items[kOwnMetricsMax], "too-many-metrics",
                    std::to_string(items.size()) + " metrics of your own; a contract may define " +
                        std::to_string(kOwnMetricsMax),
                    "remove those that no clause uses");
  }
  for (size_t i = 0; i < std::min(items.size(), kOwnMetricsMax) && !problems->full(); ++i) {
    const MappingReader mapping(document, *items[i], TableOf("ownMetric"), problems);
    const YamlNode* node = mapping.is_mapping() ? mapping.Value("name") : nullptr;
    const std::optional<std::string> name = node == nullptr ? std::nullopt : mapping.Text("name");
    if (!name) continue;
    OwnMetric metric = ReadDefinition(document, mapping, *name, problems);
    if (const Result<> well = CheckOwnName(*name); !well) {
      ReportWithHint(*node, "bad-metric-name", well.error().message(), problems);
      continue;
    }
    const auto same = std::find_if(names.begin(), names.end(), [&](const YamlNode* earlier) {
      return earlier->text == node->text;
    });
    if (same != names.end()) {
      problems->Error(*node, "duplicate-metric", "metric '" + *name + "' is defined twice",
                      "the first one is on line " + std::to_string(problems->MarkOf(**same).line));
      continue;
    }
    Result<const Quantity*> row = OwnRow(metric);
    if (!row) {
      const YamlNode* version = mapping.Value("version");
      ReportWithHint(version != nullptr ? *version : *node, "bad-metric", row.error().message(),
                     problems);
      metric.version.clear();
      row = OwnRow(metric);
      if (!row) continue;  // the process holds as many as it may
    }
    names.push_back(node);
    contract->metrics.push_back(
        {*row, mapping.Text("doc").value_or(""), problems->MarkOf(*items[i])});
  }
  CheckNotNested(contract->metrics, names, problems);
  return names;
}

}  // namespace kcc
