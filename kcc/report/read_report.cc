// report.json -> ReportData. What derives from other keys is made again: counts and conclusions
// must agree with what is made (contradiction.h), sentences and the catalog's labels are not read.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kcc/report/choices.h"
#include "kcc/report/contradiction.h"
#include "kcc/report/report_json.h"

namespace kcc {
namespace {

namespace dom = simdjson::dom;

// Reads one JSON value and remembers where it stands. The first problem is kept; every read
// after it gives a default, so that the reader below is straight-line code.
class Problems {
 public:
  void Add(const std::string& path, std::string_view what) {
    if (!first_) {
      first_ = InvalidError("report.json: " + (path.empty() ? std::string("the document") : path) +
                            " " + std::string(what) + "; write it again with `kcc judge`");
    }
  }
  bool any() const { return first_.has_value(); }
  const std::optional<Error>& first() const { return first_; }

 private:
  std::optional<Error> first_;
};

class Node {
 public:
  Node(dom::element element, std::string path, Problems* problems)
      : element_(element), path_(std::move(path)), problems_(problems) {}

  bool null() const { return element_.is_null(); }

  bool Has(std::string_view key) const {
    return element_.is_object() && !element_.at_key(key).error();
  }

  // A key that stands twice is refused: other readers of JSON take the last one, this one the
  // first.
  Node At(std::string_view key) const {
    dom::object object;
    dom::element child;
    if (element_.get(object) || object.at_key(key).get(child)) {
      problems_->Add(path_, "lacks the key '" + std::string(key) + "'");
      return *this;
    }
    size_t found = 0;
    for (const auto& field : object) found += field.key == key;
    if (found > 1) problems_->Add(path_, "has the key '" + std::string(key) + "' twice");
    return {child, path_ + "." + std::string(key), problems_};
  }

  std::string Text() const {
    std::string_view text;
    if (element_.get(text)) problems_->Add(path_, "is not a string");
    return std::string(text);
  }

  std::string TextOr(std::string_view key) const { return Has(key) ? At(key).Text() : ""; }

  bool Bool() const {
    bool value = false;
    if (element_.get(value)) problems_->Add(path_, "is not true or false");
    return value;
  }

  int64_t Integer() const {
    int64_t value = 0;
    if (element_.get(value)) problems_->Add(path_, "is not an integer");
    return value;
  }

  // A finite number, "inf", "-inf", "nan", or null for what was not measured.
  double Number() const {
    if (null()) return kNotMeasured;
    double value = 0;
    if (!element_.get(value)) return value;
    std::string_view text;
    if (!element_.get(text)) {
      if (text == "inf") return std::numeric_limits<double>::infinity();
      if (text == "-inf") return -std::numeric_limits<double>::infinity();
      if (text == "nan") return kNotMeasured;
    }
    problems_->Add(path_, "is not a number");
    return kNotMeasured;
  }

  std::optional<double> OptionalNumber(std::string_view key) const {
    if (!Has(key) || At(key).null()) return std::nullopt;
    return At(key).Number();
  }

  std::optional<int64_t> OptionalInteger(std::string_view key) const {
    if (!Has(key) || At(key).null()) return std::nullopt;
    return At(key).Integer();
  }

  Interval OptionalInterval(std::string_view key) const {
    if (!Has(key) || At(key).null()) return {};
    const std::vector<Node> ends = At(key).Items();
    if (ends.size() != 2) {
      problems_->Add(path_ + "." + std::string(key), "is not a pair of numbers");
      return {};
    }
    return {ends[0].Number(), ends[1].Number()};
  }

  // The enumerator whose Name() the text is.
  template <class Enum, size_t N>
  Enum OneOf(const std::array<Enum, N>& choices) const {
    const std::string text = Text();
    for (const Enum choice : choices) {
      if (Name(choice) == text) return choice;
    }
    problems_->Add(path_, "is '" + text + "', which this version does not know");
    return choices[0];
  }

  std::vector<Node> Items() const {
    std::vector<Node> items;
    dom::array array;
    if (element_.get(array)) {
      problems_->Add(path_, "is not a list");
      return items;
    }
    for (const dom::element item : array) {
      items.emplace_back(item, path_ + "[" + std::to_string(items.size()) + "]", problems_);
    }
    return items;
  }

  std::vector<Node> ItemsOf(std::string_view key) const {
    return Has(key) ? At(key).Items() : std::vector<Node>();
  }

  std::vector<std::pair<std::string, Node>> Members() const {
    std::vector<std::pair<std::string, Node>> members;
    dom::object object;
    if (element_.get(object)) {
      problems_->Add(path_, "is not an object");
      return members;
    }
    for (const auto& [key, value] : object) {
      members.emplace_back(key, Node(value, path_ + "." + std::string(key), problems_));
    }
    return members;
  }

  Problems* problems() const { return problems_; }
  const std::string& path() const { return path_; }

 private:
  dom::element element_;
  std::string path_;
  Problems* problems_;
};

PopulationVerdict ReadPopulation(const Node& node) {
  PopulationVerdict population;
  population.verdict = node.At("verdict").OneOf(kVerdicts);
  population.reason = node.TextOr("reason");
  population.confidence_interval = node.OptionalInterval("confidenceInterval");
  population.more_requests = node.OptionalInteger("moreRequests");
  return population;
}

// "value" repeats an interval that is one number.
void CheckValue(const Node& node, const Interval& interval) {
  const double value = node.OptionalNumber("value").value_or(kNotMeasured);
  const double implied = interval.exact() ? interval.lo : kNotMeasured;
  const bool same = value == implied || (std::isnan(value) && std::isnan(implied));
  if (!same) node.problems()->Add(node.path() + ".value", "is not what the interval says");
}

SliceVerdict ReadSlice(const Node& node) {
  SliceVerdict slice;
  slice.slice = node.At("slice").Text();
  slice.about = ReadPopulation(node);
  if (node.Has("other")) slice.other = ReadPopulation(node.At("other"));
  slice.value = node.OptionalInterval("interval");
  CheckValue(node, slice.value);
  slice.threshold = node.At("threshold").Number();
  if (node.Has("exceedance") && !node.At("exceedance").null()) {
    const Node exceedance = node.At("exceedance");
    slice.exceedance =
        ExceedanceCount{exceedance.At("windows").Integer(), exceedance.At("exceeding").Integer(),
                        exceedance.At("budget").Number()};
  }
  const Node count = node.At("count");
  slice.count = {count.At("requests").Integer(), count.At("tokens").Integer()};
  slice.smallest_passing = node.OptionalNumber("smallestPassing");
  slice.smallest_budget = node.OptionalNumber("smallestBudget");
  slice.deviation = node.OptionalNumber("deviation").value_or(0);
  slice.weight = node.OptionalNumber("weight").value_or(0);
  return slice;
}

ClauseVerdict ReadClause(const Node& node) {
  ClauseVerdict clause;
  clause.id = node.At("id").Text();
  clause.family = node.At("family").OneOf(kFamilies);
  clause.metric = node.At("metric").Text();
  clause.bound = node.At("bound").OneOf(kBounds);
  clause.level = node.At("level").OneOf(kLevels);
  clause.hard = node.At("hard").Bool();
  clause.action = node.At("action").OneOf(kActions);
  clause.verdict = node.At("verdict").OneOf(kVerdicts);
  clause.mark.line = static_cast<int>(node.OptionalInteger("line").value_or(0));
  clause.mark.column = static_cast<int>(node.OptionalInteger("column").value_or(0));
  for (const Node& slice : node.At("slices").Items()) clause.slices.push_back(ReadSlice(slice));
  return clause;
}

Judgement ReadJudgement(const Node& root) {
  Judgement judgement;
  judgement.verdict = root.At("verdict").OneOf(kVerdicts);
  judgement.convergent = root.At("convergent").Bool();
  judgement.health = root.At("health").Number();
  const std::vector<Node> thresholds = root.At("thresholds").Items();
  if (thresholds.size() == 2) {
    judgement.eta1 = thresholds[0].Number();
    judgement.eta2 = thresholds[1].Number();
  } else {
    root.problems()->Add(".thresholds", "is not a pair of numbers");
  }
  if (root.At("action").Text() != "none") judgement.action = root.At("action").OneOf(kActions);
  judgement.about = root.At("about").OneOf(kPopulations);
  judgement.stage = root.At("stage").OneOf(kStages);
  judgement.confidence = root.At("confidence").Number();
  if (root.Has("warnings")) {
    for (const Node& warning : root.At("warnings").Items()) {
      judgement.warnings.push_back(warning.Text());
    }
  }
  for (const Node& clause : root.At("clauses").Items()) {
    judgement.clauses.push_back(ReadClause(clause));
  }
  return judgement;
}

// Labels of quantities that the catalog does not have: nothing else says what they are.
void ReadOwnLabels(const Node& root, ReportData* report) {
  constexpr std::string_view kTrain = "train_";
  for (const auto& [name, node] : root.At("labels").Members()) {
    const std::string id(name.starts_with(kTrain) ? name.substr(kTrain.size()) : name);
    const bool known = std::any_of(report->own.begin(), report->own.end(),
                                   [&](const OwnLabel& label) { return label.id == id; });
    if (known || FindQuantity(id) != nullptr) continue;
    report->own.push_back({id, node.At("unit").Text(), node.At("direction").Text(),
                           node.At("level").Text(), node.At("definition").Text()});
  }
}

void ReadQuantities(const Node& root, ReportData* report) {
  for (const auto& [quantity, slices] : root.At("quantities").Members()) {
    for (const auto& [slice, node] : slices.Members()) {
      QuantityStatistics statistics;
      statistics.count = node.At("count").Integer();
      statistics.mean = node.At("mean").Number();
      statistics.min = node.At("min").Number();
      statistics.max = node.At("max").Number();
      statistics.p50 = node.At("p50").Number();
      statistics.p90 = node.At("p90").Number();
      statistics.p95 = node.At("p95").Number();
      statistics.p99 = node.At("p99").Number();
      statistics.p999 = node.At("p999").Number();
      report->quantities.push_back({quantity, slice, statistics});
    }
  }
}

void ReadHistograms(const Node& root, ReportData* report) {
  if (!root.Has("histograms")) return;
  for (const auto& [quantity, slices] : root.At("histograms").Members()) {
    for (const auto& [slice, node] : slices.Members()) {
      ReportHistogram histogram{
          quantity, slice, {}, {}, node.OptionalInteger("infinite").value_or(0)};
      for (const Node& edge : node.At("edges").Items()) histogram.edges.push_back(edge.Number());
      for (const Node& count : node.At("counts").Items()) {
        histogram.counts.push_back(count.Integer());
      }
      const size_t edges_wanted = histogram.counts.empty() ? 0 : histogram.counts.size() + 1;
      if (histogram.edges.size() != edges_wanted) {
        node.problems()->Add(node.path(), "does not have one more edge than counts");
      }
      report->histograms.push_back(std::move(histogram));
    }
  }
}

void ReadCurves(const Node& root, ReportData* report) {
  for (const Node& node : root.ItemsOf("curves")) {
    DisagreementCurve curve{node.At("slice").Text(), node.At("tokens").Integer(), {}};
    for (const Node& point : node.At("points").Items()) {
      curve.points.push_back({point.At("margin").Number(), point.At("tokens").Integer(),
                              point.At("top1").Integer(), point.At("top5").Integer()});
    }
    report->curves.push_back(std::move(curve));
  }
}

void ReadWorst(const Node& root, ReportData* report) {
  if (root.Has("worstKept")) report->worst_kept = root.At("worstKept").Text();
  for (const Node& node : root.ItemsOf("worst")) {
    WorstToken row;
    row.quantity = node.At("quantity").Text();
    row.slice = node.At("slice").Text();
    row.value = node.At("value").Number();
    row.request = node.At("request").Text();
    row.position = node.At("position").Integer();
    row.token = node.At("token").Integer();
    if (node.Has("context")) row.context = node.At("context").Text();
    if (node.Has("tags")) {
      for (const Node& tag : node.ItemsOf("tags")) row.tags.push_back(tag.Text());
    }
    report->worst.push_back(std::move(row));
  }
}

// What people wrote: the reasons of clauses, the slices' predicates, the names of the inputs.
void ReadWords(const Node& root, ReportData* report) {
  for (const Node& clause : root.At("clauses").Items()) {
    if (clause.Has("why")) {
      report->reasons.push_back({clause.At("id").Text(), clause.At("why").Text()});
    }
  }
  if (root.Has("slices")) {
    for (const Node& slice : root.ItemsOf("slices")) {
      report->slices.push_back({slice.At("name").Text(), slice.At("where").Text()});
    }
  }
  if (root.Has("inputs")) {
    const Node inputs = root.At("inputs");
    report->inputs = {inputs.TextOr("train"), inputs.TextOr("infer"), inputs.TextOr("requests")};
  }
}

KernelProvenance ReadKernel(const Node& node) {
  return {node.TextOr("fingerprint"), node.TextOr("trace"), node.TextOr("model")};
}

void CheckTotals(const Node& node, const VerdictTotals& totals) {
  for (const Verdict verdict : kVerdicts) {
    const Node count = node.At(Name(verdict));
    if (count.Integer() != totals.of(verdict)) {
      node.problems()->Add(count.path(),
                           "is not " + std::to_string(totals.of(verdict)) + ", as the clauses say");
    }
  }
}

ReportData ReadAll(const Node& root) {
  ReportData report;
  const Node contract = root.At("contract");
  report.contract = {contract.At("name").Text(), contract.At("version").Text(),
                     contract.At("digest").Text(), contract.TextOr("file")};
  report.judgement = ReadJudgement(root);
  ReadWords(root, &report);
  ReadQuantities(root, &report);
  ReadOwnLabels(root, &report);
  ReadHistograms(root, &report);
  ReadCurves(root, &report);
  ReadWorst(root, &report);
  for (const Node& node : root.ItemsOf("bounds")) {
    ImpliedBound bound{node.At("clause").Text(), node.At("text").Text(), node.At("value").Number(),
                       node.TextOr("quantity"), false};
    if (node.Has("vacuous")) bound.vacuous = node.At("vacuous").Bool();
    if (node.Has("exceedance")) bound.exceedance = node.At("exceedance").Number();
    report.bounds.push_back(std::move(bound));
  }
  report.slices_without_detail = root.OptionalInteger("slicesWithoutDetail").value_or(0);
  const Node provenance = root.At("provenance");
  report.provenance.kcc = provenance.At("kcc").Text();
  report.provenance.train = ReadKernel(provenance.At("train"));
  report.provenance.infer = ReadKernel(provenance.At("infer"));
  report.provenance.evidence = provenance.At("evidence").Text();
  report.provenance.backend = provenance.TextOr("backend");
  report.provenance.plan = provenance.TextOr("plan");
  report.provenance.requests = provenance.OptionalInteger("requests").value_or(0);
  return report;
}

// The document lives in the parser.
Result<dom::element> Parse(std::string_view json, dom::parser* parser) {
  if (json.size() > kReportBytesMax) return InvalidError("report.json is larger than 1 GiB");
  const simdjson::padded_string padded(json);
  dom::element document;
  if (const auto error = parser->parse(padded).get(document)) {
    return InvalidError(std::string("report.json is not JSON: ") + simdjson::error_message(error) +
                        "; a report is the report.json that --report wrote, or its directory");
  }
  return document;
}

}  // namespace

Result<ReportFiles> ReadReportFiles(std::string_view json) {
  dom::parser parser;
  KCC_TRY(const dom::element document, Parse(json, &parser));
  Problems problems;
  const Node root(document, "", &problems);
  ReportFiles files;
  if (!root.Has("files")) return files;
  for (const auto& [name, digest] : root.At("files").Members()) files[name] = digest.Text();
  if (problems.any()) return *problems.first();
  return files;
}

Result<ReportData> ReadReport(std::string_view json) {
  dom::parser parser;
  KCC_TRY(const dom::element document, Parse(json, &parser));
  Problems problems;
  const Node root(document, "", &problems);
  const int64_t format = root.At("kccReport").Integer();
  if (!problems.any() && format != kReportFormat) {
    return InvalidError("report.json has format " + std::to_string(format) +
                        "; this version reads format " + std::to_string(kReportFormat) +
                        ". Use a newer kcc, or make the report again");
  }
  ReportData report = ReadAll(root);
  if (problems.any()) return *problems.first();
  const std::string contradiction = Contradiction(report.judgement);
  if (!contradiction.empty()) {
    return InvalidError("report.json: " + contradiction +
                        ". It was edited or damaged; write it again with `kcc judge`");
  }
  if (root.Has("totals")) {
    CheckTotals(root.At("totals").At("clauses"), CountClauses(report.judgement));
    CheckTotals(root.At("totals").At("pairs"), CountPairs(report.judgement));
  }
  if (problems.any()) return *problems.first();
  return report;
}

}  // namespace kcc
