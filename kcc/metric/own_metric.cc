#include "kcc/metric/own_metric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/metric/metric.h"
#include "kcc/predicate/fields.h"

namespace kcc {
namespace {

// What the views of a row look at.
struct StoredRow {
  OwnMetric metric;
  std::string definition;
  std::string fields;
  Quantity row;
};

std::string KeyOf(const OwnMetric& metric) {
  std::string key = metric.name;
  for (const std::string& part :
       {std::string(Name(metric.of)), metric.from.Canonical(), std::string(Name(metric.unit)),
        std::string(Name(metric.direction)), ShortestNumber(metric.min), ShortestNumber(metric.max),
        metric.version}) {
    (key += '\n') += part;  // no part has a line feed
  }
  return key;
}

std::unique_ptr<StoredRow> MakeRow(const OwnMetric& metric) {
  const bool token = metric.of == QuantityLevel::kToken;
  std::string fields;
  for (const std::string& field : metric.from.Fields()) {
    fields.append(fields.empty() ? "" : " ").append(field);
  }
  auto stored = std::make_unique<StoredRow>(StoredRow{
      metric, metric.from.Canonical(), std::move(fields),
      Quantity{.id = {},
               .unit = metric.unit,
               .direction = metric.direction,
               .evidence = token ? EvidenceNeeded::kTokenFields : EvidenceNeeded::kRequestFields,
               .definition = {},
               .source = {}}});
  Quantity& row = stored->row;
  row.id = stored->metric.name;
  row.level = metric.of;
  row.sided = true;
  row.on_demand = true;
  row.min = metric.min;
  row.max = metric.max;
  row.observation = token ? Observation::kToken : Observation::kRequest;
  row.taken = token ? TakenFrom::kNone : TakenFrom::kExpression;
  row.fields = stored->fields;
  row.definition = stored->definition;
  row.source = "spec.metrics";
  row.own = &stored->metric;
  return stored;
}

class Rows {
 public:
  // Null where the process holds as many as it may.
  const Quantity* Of(const OwnMetric& metric) {
    const std::string key = KeyOf(metric);
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(key);
    if (found != rows_.end()) return &found->second->row;
    if (rows_.size() >= kOwnRowsMax) return nullptr;
    return &rows_.emplace(key, MakeRow(metric)).first->second->row;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<StoredRow>> rows_;
};

Rows& AllRows() {
  static Rows& rows = *new Rows;  // never destroyed: rows outlive whoever looks at them
  return rows;
}

Result<> CheckRange(const OwnMetric& metric) {
  if (std::isnan(metric.min) || std::isnan(metric.max) || !(metric.min < metric.max)) {
    return InvalidError("min " + ShortestNumber(metric.min) + " is not below max " +
                        ShortestNumber(metric.max) + "; a quantity has at least two values");
  }
  return {};
}

Result<> CheckLevel(const OwnMetric& metric) {
  if (metric.of == QuantityLevel::kPopulation) return InvalidError("of must be request or token");
  const bool reads_token = metric.from.reads_token();
  if (metric.of == QuantityLevel::kRequest && reads_token) {
    return InvalidError("a metric of requests cannot read token fields; write 'of: token'");
  }
  if (metric.of == QuantityLevel::kToken && !reads_token) {
    return InvalidError("a metric of tokens reads no token field; write 'of: request'");
  }
  return {};
}

}  // namespace

Result<> CheckOwnName(std::string_view name) {
  const auto quoted = [](std::string_view text) { return "'" + std::string(text) + "'"; };
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool form = !name.empty() && name.size() <= kOwnNameLengthMax && lower(name[0]) &&
                    std::all_of(name.begin(), name.end(),
                                [&](char c) { return lower(c) || digit(c) || c == '_'; });
  if (!form) {
    return InvalidError(quoted(name.substr(0, 80)) +
                        " is not a name of lower-case letters, digits and '_'; start with a "
                        "letter, at most " +
                        std::to_string(kOwnNameLengthMax) + " characters");
  }
  if (FindQuantity(name) != nullptr) {
    return InvalidError(quoted(name) +
                        " is a quantity that kcc measures itself; give it another "
                        "name");
  }
  for (const Quantity& quantity : Catalog()) {
    if (quantity.rate_name != name) continue;
    return InvalidError(quoted(name) +
                        " is a metric that kcc measures itself; give it another "
                        "name");
  }
  // "mean_x" must have one meaning, whatever is defined beside it.
  std::vector<std::string> taken = {"train", "mc"};
  for (const Aggregate aggregate : Aggregates()) taken.emplace_back(AggregateName(aggregate));
  for (const std::string& word : taken) {
    if (name != word && !name.starts_with(word + "_")) continue;
    return InvalidError(quoted(name) + " begins like a metric: '" + word +
                        "_' has a meaning of its own; give it another name");
  }
  return {};
}

Result<const Quantity*> OwnRow(const OwnMetric& metric) {
  KCC_TRY_VOID(CheckOwnName(metric.name));
  KCC_TRY_VOID(CheckLevel(metric));
  KCC_TRY_VOID(CheckRange(metric));
  const bool printable = std::all_of(metric.version.begin(), metric.version.end(),
                                     [](char c) { return c > ' ' && c < 0x7F; });
  if (!printable || metric.version.size() > kOwnVersionLengthMax) {
    return InvalidError("version must be printable ASCII without blanks; at most " +
                        std::to_string(kOwnVersionLengthMax) + " characters");
  }
  const Quantity* row = AllRows().Of(metric);
  if (row == nullptr) {
    return InvalidError("this process has read " + std::to_string(kOwnRowsMax) +
                        " definitions of metrics; start another one");
  }
  return row;
}

const Quantity* FindOwn(OwnRows rows, std::string_view name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Quantity* row) { return row->id == name; });
  return found == rows.end() ? nullptr : *found;
}

}  // namespace kcc
