// The plan as canonical JSON, and back.
#include <algorithm>
#include <cmath>

#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"
#include "kcc/metric/token_slots.h"
#include "kcc/stats/betting.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

constexpr std::string_view kKinds[] = {"request", "requests", "time"};
// By Repeats; the first is never written.
constexpr std::string_view kRepeatsNames[] = {"none", "group", "replica"};
std::string_view Name(Repeats repeats) { return kRepeatsNames[static_cast<size_t>(repeats)]; }

void WriteTexts(std::string_view key, const std::vector<std::string>& texts, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& text : texts) json->Value(std::string_view(text));
  json->EndArray();
}

void WriteNumbers(std::string_view key, Thresholds numbers, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const double number : numbers) json->Value(number);
  json->EndArray();
}

void WriteOwn(const OwnMetric& metric, JsonWriter* json) {
  json->BeginObject();
  json->Field("direction", Name(metric.direction)).Field("from", metric.from.Canonical());
  if (std::isfinite(metric.max)) json->Field("max", metric.max);
  if (std::isfinite(metric.min)) json->Field("min", metric.min);
  json->Field("name", metric.name).Field("of", Name(metric.of));
  json->Field("unit", Name(metric.unit));
  if (!metric.version.empty()) json->Field("version", metric.version);
  json->EndObject();
}

void WriteWindow(const PlanWindow& row, JsonWriter* json) {
  json->BeginObject();
  WriteTexts("fields", row.fields, json);
  json->Field("kind", kKinds[static_cast<size_t>(row.window.kind)]);
  json->Field("metric", MetricName(row.metric));
  // Plans of before do not say, since infer's word placed requests; that way they keep their bytes.
  if (WasPlacedByInfer(row) && !row.by_infer) json->Field("placedBy", "train");
  json->Field("size", row.window.size);
  WriteTexts("slices", row.slices, json);
  WriteNumbers("thresholds", row.thresholds, json);
  if (row.trusts_infer) json->Field("trustsInfer", true);
  json->EndObject();
}

void WriteTest(const PlanTest& row, JsonWriter* json) {
  json->BeginObject();
  // Plans of before the fine grid do not say; that way they keep their bytes.
  if (row.grid != BetGrid::kCoarse) json->Field("bets", BetsOf(row.grid));
  json->Field("bound", Name(row.bound));
  json->Field("metric", MetricName(row.metric));
  json->Field("negative", row.negative);
  json->Field("rangeMax", row.range_max);
  json->Field("rangeMin", row.range_min);
  WriteTexts("slices", row.slices, json);
  json->Field("threshold", row.threshold);
  json->Field("tokensMax", row.tokens_max);
  json->Field("truncated", row.truncated);
  if (row.two_valued) json->Field("twoValued", true);
  json->EndObject();
}

}  // namespace

std::string Plan::CanonicalJson() const {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  if (events_) json.Field("events", true);
  json.Key("fieldSets").BeginArray();
  for (const std::vector<std::string>& fields : field_sets_) {
    json.BeginArray();
    for (const std::string& field : fields) json.Value(std::string_view(field));
    json.EndArray();
  }
  json.EndArray();
  json.Field("kccPlan", 1);
  std::vector<std::string> on_demand;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (slots_[slot] && SlotQuantity(slot).on_demand) on_demand.push_back(SlotName(slot));
  }
  for (const size_t series : requests_on_demand_) on_demand.push_back(SeriesName(series));
  for (const OwnSeries& row : own_) on_demand.push_back(row.name);
  std::sort(on_demand.begin(), on_demand.end());
  WriteTexts("onDemand", on_demand, &json);
  if (breadth_ == Breadth::kClauses) {
    std::vector<std::string> only;
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      if (slots_[slot]) only.push_back(SlotName(slot));
    }
    std::sort(only.begin(), only.end());
    WriteTexts("only", only, &json);
  }
  // Left out where there are none: plans without keep their bytes, and so their digest.
  if (!own_.empty()) {
    json.Key("own").BeginArray();
    for (const Quantity* row : own_rows()) WriteOwn(*row->own, &json);
    json.EndArray();
  }
  if (repeats_ != Repeats::kNone) json.Field("repeats", Name(repeats_));
  json.Key("slices").BeginArray();
  for (const PlanSlice& slice : slices_) {
    json.BeginObject().Field("name", slice.name);
    if (slice.outcomes == Side::kTrain) json.Field("outcomes", "train");
    json.Field("where", slice.where).EndObject();
  }
  json.EndArray();
  json.Key("tests").BeginArray();
  for (const PlanTest& test : tests_) WriteTest(test, &json);
  json.EndArray();
  std::vector<std::pair<std::string, size_t>> named;
  for (size_t series = 0; series < thresholds_.size(); ++series) {
    if (!thresholds_[series].empty()) named.emplace_back(name(series), series);
  }
  std::sort(named.begin(), named.end());
  json.Key("thresholds").BeginObject();
  for (const auto& [key, series] : named) WriteNumbers(key, thresholds_[series], &json);
  json.EndObject();
  json.Key("windows").BeginArray();
  for (const PlanWindow& window : windows_) WriteWindow(window, &json);
  json.EndArray();
  json.EndObject();
  return json.Take();
}

// Reads with simdjson's checked accessors; the first fault is kept and everything after it is
// ignored.
class PlanReader {
 public:
  Result<Plan> Read(std::string_view text) {
    KCC_TRY(const simdjson::dom::element nothing, ParseJson(nothing_, "[]"));
    if (nothing.get(empty_) != simdjson::SUCCESS) return InvalidError("the plan is not JSON");
    const Result<simdjson::dom::element> parsed = ParseJson(parser_, text);
    if (!parsed.has_value()) return InvalidError("the plan is not JSON");
    const simdjson::dom::element root = *parsed;
    if (Number(root, "kccPlan") != 1) Fail("kccPlan: only version 1 is known");
    simdjson::dom::element only;
    const bool narrow = root.at_key("only").get(only) == simdjson::SUCCESS;
    Plan plan(narrow ? Plan::Breadth::kClauses : Plan::Breadth::kAll);
    if (narrow) {
      for (const std::string& name : Texts(only)) ReadSlot(name, "only", &plan);
    }
    for (const auto set : Array(root, "fieldSets")) plan.field_sets_.push_back(Texts(set));
    if (Has(root, "own")) {
      for (const auto row : Array(root, "own")) ReadOwn(row);
    }
    ReadOnDemand(At(root, "onDemand"), &plan);
    plan.events_ = Has(root, "events");
    if (Has(root, "repeats")) {
      constexpr Repeats kKept[] = {Repeats::kByGroup, Repeats::kByReplica};
      plan.repeats_ = Word<Repeats>(root, "repeats", kKept);
    }
    for (const auto slice : Array(root, "slices")) ReadSlice(slice, &plan);
    ReadThresholds(root, &plan);
    for (const auto row : Array(root, "windows")) plan.windows_.push_back(ReadWindow(row));
    for (const auto row : Array(root, "tests")) plan.tests_.push_back(ReadTest(row));
    CheckNames(plan);
    if (!fault_.empty()) return InvalidError("the plan is not one that kcc writes: " + fault_);
    const std::string written = plan.CanonicalJson();
    plan.Canonicalise();
    if (plan.CanonicalJson() != written || plan.FindSlice("all") < 0) {
      return InvalidError("the plan is not in canonical form");
    }
    return plan;
  }

 private:
  using Element = simdjson::dom::element;

  void ReadSlot(const std::string& name, const std::string& key, Plan* plan) {
    const auto series = FindSeries(name);
    if (series && *series < TokenSlotCount()) {
      plan->slots_.set(*series);
    } else {
      Fail(key + ": unknown quantity '" + name + "'");
    }
  }

  // A word of the list that an enumeration names, as the enumerator.
  template <class Enum>
  Enum Word(Element from, std::string_view key, std::span<const Enum> all) {
    const std::string text = Text(from, key);
    for (const Enum each : all) {
      if (Name(each) == text) return each;
    }
    Fail(std::string(key) + " '" + text + "'");
    return all[0];
  }

  // A definition, checked as in a contract.
  void ReadOwn(Element row) {
    constexpr QuantityLevel kLevels[] = {QuantityLevel::kToken, QuantityLevel::kRequest};
    constexpr Direction kDirections[] = {Direction::kLowerIsBetter, Direction::kHigherIsBetter,
                                         Direction::kSigned};
    const std::string from = Text(row, "from");
    const Result<Expression> expression = Expression::Parse(from);
    if (!expression || expression->Canonical() != from) return Fail("expression '" + from + "'");
    OwnMetric metric{Text(row, "name"), Word<QuantityLevel>(row, "of", kLevels), *expression,
                     Word<Unit>(row, "unit", Units()),
                     Word<Direction>(row, "direction", kDirections)};
    if (Has(row, "min")) metric.min = Number(row, "min");
    if (Has(row, "max")) metric.max = Number(row, "max");
    if (Has(row, "version")) metric.version = Text(row, "version");
    const Result<const Quantity*> made = OwnRow(metric);
    if (!made) return Fail(made.error().message());
    if (FindOwn(own_, metric.name) != nullptr || own_.size() >= kOwnMetricsMax) {
      return Fail("metric '" + metric.name + "' stands twice, or there are too many");
    }
    own_.push_back(*made);
  }

  // "queue_ms" or "train_queue_ms" of the plan's own definitions.
  std::optional<OwnSeries> OwnOf(const std::string& name) const {
    constexpr std::string_view kTrain = "train_";
    const bool train = name.starts_with(kTrain);
    const Quantity* row =
        FindOwn(own_, train ? std::string_view(name).substr(kTrain.size()) : name);
    if (row == nullptr) return std::nullopt;
    return OwnSeries{row, train ? Side::kTrain : Side::kInfer, name};
  }

  void ReadOnDemand(Element names, Plan* plan) {
    std::vector<OwnSeries> own;
    for (const std::string& name : Texts(names)) {
      if (auto row = OwnOf(name)) {
        own.push_back(std::move(*row));
        continue;
      }
      const auto series = FindSeries(name);
      if (series && !IsTokenSeries(*series) && SeriesQuantity(*series).on_demand) {
        plan->requests_on_demand_.push_back(*series);
      } else {
        ReadSlot(name, "onDemand", plan);
      }
    }
    plan->SetOwn(std::move(own));
  }

  void Fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  Element At(Element from, std::string_view key) {
    Element found;
    if (from.at_key(key).get(found) != simdjson::SUCCESS) {
      Fail("no '" + std::string(key) + "'");
      return from;
    }
    return found;
  }

  static bool Has(Element from, std::string_view key) {
    Element found;
    return from.at_key(key).get(found) == simdjson::SUCCESS;
  }

  simdjson::dom::array Array(Element from, std::string_view key) { return AsArray(At(from, key)); }

  simdjson::dom::array AsArray(Element element) {
    simdjson::dom::array array;
    if (element.get_array().get(array) != simdjson::SUCCESS) {
      Fail("not a list");
      return empty_;
    }
    return array;
  }

  std::vector<std::string> Texts(Element element) {
    std::vector<std::string> texts;
    for (const auto item : AsArray(element)) texts.push_back(AsText(item));
    return texts;
  }

  std::vector<double> Numbers(Element element) {
    std::vector<double> numbers;
    for (const auto item : AsArray(element)) numbers.push_back(AsNumber(item));
    return numbers;
  }

  std::string AsText(Element element) {
    std::string_view text;
    if (element.get_string().get(text) != simdjson::SUCCESS) Fail("not a text");
    return std::string(text);
  }

  double AsNumber(Element element) {
    double number = 0;
    if (element.get_double().get(number) != simdjson::SUCCESS) Fail("not a number");
    return number;
  }

  std::string Text(Element from, std::string_view key) { return AsText(At(from, key)); }
  double Number(Element from, std::string_view key) { return AsNumber(At(from, key)); }

  Metric ReadMetric(Element from) {
    Result<Metric> metric = ParseMetric(Text(from, "metric"), own_);
    if (!metric) {
      Fail(metric.error().message());
      return {FindQuantity("kl"), Aggregate::kMean, Side::kInfer};
    }
    return *metric;
  }

  void ReadSlice(Element row, Plan* plan) {
    std::string where = Text(row, "where");
    bool reads_token = false;
    if (!where.empty()) {
      const Result<Predicate> predicate = Predicate::Parse(where);
      if (!predicate || predicate->Canonical() != where) {
        Fail("slice predicate '" + where + "'");
      } else {
        reads_token = predicate->reads_token();
      }
    }
    PlanSlice slice{Text(row, "name"), std::move(where), reads_token};
    if (Has(row, "outcomes")) {
      slice.outcomes = Side::kTrain;
      if (Text(row, "outcomes") != "train") Fail("outcomes of a side that there is not");
    }
    plan->AddSlice(std::move(slice));
  }

  void ReadThresholds(Element root, Plan* plan) {
    simdjson::dom::object object;
    if (At(root, "thresholds").get_object().get(object) != simdjson::SUCCESS) {
      return Fail("thresholds: not an object");
    }
    for (const auto field : object) {
      const auto series = plan->FindSeries(field.key);
      if (!series) return Fail("thresholds: unknown quantity '" + std::string(field.key) + "'");
      plan->thresholds_[*series] = Numbers(field.value);
    }
  }

  PlanWindow ReadWindow(Element row) {
    PlanWindow window;
    window.metric = ReadMetric(row);
    window.fields = Texts(At(row, "fields"));
    window.slices = Texts(At(row, "slices"));
    window.thresholds = Numbers(At(row, "thresholds"));
    window.trusts_infer = Has(row, "trustsInfer");
    const std::string kind = Text(row, "kind");
    const auto* found = std::find(std::begin(kKinds), std::end(kKinds), kind);
    if (found == std::end(kKinds)) {
      Fail("window kind '" + kind + "'");
    } else {
      window.window.kind = static_cast<Window::Kind>(found - std::begin(kKinds));
    }
    if (At(row, "size").get_int64().get(window.window.size) != simdjson::SUCCESS ||
        window.window.size < 1) {
      Fail("window size");
    }
    if (window.thresholds.empty()) Fail("a window without thresholds");
    window.by_infer = WasPlacedByInfer(window) && !Has(row, "placedBy");
    if (Has(row, "placedBy") && (!WasPlacedByInfer(window) || Text(row, "placedBy") != "train")) {
      Fail("windows placed by a side that does not place them");
    }
    return window;
  }

  PlanTest ReadTest(Element row) {
    PlanTest test;
    test.metric = ReadMetric(row);
    const std::string bound = Text(row, "bound");
    test.bound = bound == Name(BoundKind::kAtLeast) ? BoundKind::kAtLeast : BoundKind::kAtMost;
    if (bound != Name(test.bound)) Fail("bound '" + bound + "'");
    if (At(row, "negative").get_bool().get(test.negative) != simdjson::SUCCESS) Fail("negative");
    test.range_min = Number(row, "rangeMin");
    test.range_max = Number(row, "rangeMax");
    test.threshold = Number(row, "threshold");
    test.tokens_max = Number(row, "tokensMax");
    if (At(row, "truncated").get_bool().get(test.truncated) != simdjson::SUCCESS) Fail("truncated");
    test.slices = Texts(At(row, "slices"));
    if (Element two; row["twoValued"].get(two) == simdjson::SUCCESS &&
                     two.get_bool().get(test.two_valued) != simdjson::SUCCESS) {
      Fail("twoValued");
    }
    test.grid = BetGrid::kCoarse;
    if (Element bets; row["bets"].get(bets) == simdjson::SUCCESS) {
      int64_t count = 0;
      test.grid = BetGrid::kFine;
      if (bets.get_int64().get(count) != simdjson::SUCCESS || count != BetsOf(test.grid)) {
        Fail("a number of bets that this version does not know");
      }
    }
    if (!MakeBettingPlan(TestMean(test)) || !(test.tokens_max >= 1)) {
      Fail("a test that cannot be made");
    }
    return test;
  }

  void CheckNames(const Plan& plan) {
    const auto check = [&](const std::vector<std::string>& slices) {
      for (const std::string& name : slices) {
        if (plan.FindSlice(name) < 0) Fail("unknown slice '" + name + "'");
      }
    };
    // A metric of the user's own has statistics only where the plan says that it is kept.
    const auto check_metric = [&](const Metric& metric) {
      const bool own = metric.quantity->own != nullptr;
      if (own && !plan.FindSeries(*metric.quantity, metric.side)) {
        Fail("'" + MetricName(metric) + "' is not kept");
      }
    };
    for (const PlanWindow& window : plan.windows_) {
      check(window.slices);
      check_metric(window.metric);
      if (!window.fields.empty() && plan.FindFieldSet(window.fields) < 0) Fail("unknown field set");
    }
    for (const PlanTest& test : plan.tests_) {
      check(test.slices);
      check_metric(test.metric);
      if (!fault_.empty()) return;
      if (PercentilePpm(test.metric.aggregate) < 0) continue;
      const bool of_tokens = test.metric.quantity->level == QuantityLevel::kToken;
      if (!of_tokens || plan.FindThreshold(plan.SeriesOf(*test.metric.quantity, test.metric.side),
                                           test.threshold) < 0) {
        Fail("a test of a threshold that is not counted");
      }
    }
    for (size_t i = 1; i < plan.slices_.size(); ++i) {
      if (plan.slices_[i - 1].name == plan.slices_[i].name) Fail("two slices of one name");
    }
  }

  simdjson::dom::parser parser_;
  simdjson::dom::parser nothing_;  // a parser's elements live until it parses again
  simdjson::dom::array empty_;
  std::vector<const Quantity*> own_;  // the plan's definitions
  std::string fault_;
};

Result<Plan> Plan::Parse(std::string_view json) {
  KCC_TRY(Plan plan, PlanReader().Read(json));
  // A key that is misspelt would be one that is missing: what was read must be what stands there.
  if (plan.CanonicalJson() != json) return InvalidError("a plan that is not in canonical form");
  return plan;
}

}  // namespace kcc
