#include "kcc/contract/clause_reader.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

constexpr std::string_view kCoverage = "trace_field_coverage";

std::string Text(std::string_view text) { return std::string(text); }
std::string QuotedText(std::string_view text) { return "'" + Text(text) + "'"; }

std::optional<Metric> ReadMetric(const YamlNode& node, OwnRows own, Problems* problems) {
  if (node.kind != YamlNode::Kind::kScalar) {
    problems->Error(node, "wrong-type", "metric must be a name such as p99_kl");
    return {};
  }
  Result<Metric> metric = ParseMetric(node.text, own);
  if (!metric.has_value()) {
    ReportWithHint(node, "unknown-metric", metric.error().message(), problems);
    return {};
  }
  return *metric;
}

// Which bound the clause has; none and reported if it has both, none, or the wrong one.
std::optional<BoundKind> ReadBound(const MappingReader& mapping, const Metric& metric,
                                   Problems* problems) {
  const YamlNode* most = mapping.Key("atMost");
  const YamlNode* least = mapping.Key("atLeast");
  const Direction direction = MetricDirection(metric);
  const std::string name = MetricName(metric);
  if (most == nullptr && least == nullptr) {
    problems->Error(mapping.node(), "missing-threshold", "the clause has no threshold",
                    direction == Direction::kHigherIsBetter ? "add 'atLeast: ...'"
                    : direction == Direction::kLowerIsBetter
                        ? "add 'atMost: ...'"
                        : "add 'atMost: ...' or 'atLeast: ...'");
    return {};
  }
  if (most != nullptr && least != nullptr) {
    problems->Error(std::max(most->offset, least->offset) == most->offset ? *most : *least,
                    "two-thresholds", "a clause has atMost or atLeast, not both",
                    "write a second clause with its own id");
    return {};
  }
  const BoundKind bound = most != nullptr ? BoundKind::kAtMost : BoundKind::kAtLeast;
  const bool fits = direction == Direction::kSigned ||
                    (direction == Direction::kLowerIsBetter) == (bound == BoundKind::kAtMost);
  if (!fits) {
    const bool lower = direction == Direction::kLowerIsBetter;
    problems->Error(most != nullptr ? *most : *least, "wrong-bound",
                    QuotedText(name) + " is better when " + (lower ? "lower" : "higher") +
                        ", so a tolerance is its " + (lower ? "largest" : "smallest") +
                        " good value",
                    lower ? "write atMost" : "write atLeast");
    return {};
  }
  return bound;
}

// The threshold against what the metric can be at all.
void CheckThresholdRange(const Clause& clause, const YamlNode& at, Problems* problems) {
  const double low = MetricMin(clause.metric);
  const double high = MetricMax(clause.metric);
  const std::string name = MetricName(clause.metric);
  const bool most = clause.bound == BoundKind::kAtMost;
  const std::string range =
      name + " lies between " + ShortestNumber(low) + " and " + ShortestNumber(high);
  if (most ? clause.threshold < low : clause.threshold > high) {
    problems->Error(at, "out-of-range",
                    "no " + name + " can be " + (most ? "at most " : "at least ") +
                        ShortestNumber(clause.threshold),
                    range);
  } else if (most ? clause.threshold >= high : clause.threshold <= low) {
    problems->Error(
        at, "vacuous",
        "the clause can never be violated: " + name + " is always " +
            (most ? "at most " + ShortestNumber(high) : "at least " + ShortestNumber(low)),
        "tighten the threshold or remove the clause");
  }
}

bool ReadThresholdValue(const MappingReader& mapping, ClauseDraft* draft, Problems* problems) {
  Clause& clause = draft->clause;
  const std::optional<BoundKind> bound = ReadBound(mapping, clause.metric, problems);
  if (!bound) return false;
  clause.bound = *bound;
  const YamlNode* value = mapping.Value(Name(*bound));
  if (value == nullptr) return false;
  draft->threshold = value;
  if (value->kind != YamlNode::Kind::kScalar) {
    problems->Error(*value, "wrong-type", Text(Name(*bound)) + " must be a number");
    return false;
  }
  if (!CheckPlain(*value, "a number", problems)) return false;
  const Result<double> threshold = ReadThreshold(value->text, clause.metric);
  if (!threshold.has_value()) {
    const std::string& message = threshold.error().message();
    const bool unit = message.find("wrong unit") != std::string::npos;
    ReportWithHint(*value, unit ? "wrong-unit" : "bad-number", message, problems);
    return false;
  }
  clause.threshold = *threshold + 0.0;  // -0 is 0
  CheckThresholdRange(clause, *value, problems);
  return true;
}

// Quantities of whole requests have no meaning on some of a request's tokens.
void CheckTokenSlice(const Clause& clause, const YamlNode& at, std::string_view slice,
                     Problems* problems) {
  if (!OfWholeRequests(*clause.metric.quantity)) return;
  problems->Error(at, "token-slice",
                  QuotedText(clause.metric.quantity->id) +
                      " belongs to whole requests, and slice " + QuotedText(slice) +
                      " selects tokens",
                  "use a slice over request fields");
}

void ReadSlices(const MappingReader& mapping, ClauseDraft* draft, SliceIndex* slices,
                Problems* problems) {
  Clause& clause = draft->clause;
  if (mapping.Key("slices") == nullptr) {
    clause.slices = {"all"};
    draft->slice_rows = {0};
    return;
  }
  for (const YamlNode* item : mapping.IdentifierList("slices")) {
    const auto found = slices->by_name.find(item->text);
    if (found == slices->by_name.end()) {
      // Enough to find a slip in any contract written by hand, and bounded for all others.
      constexpr size_t kCandidatesMax = 1000;
      std::vector<std::string_view> names = {"all"};
      for (size_t i = 1; i < std::min(slices->rows.size(), kCandidatesMax); ++i) {
        names.push_back(slices->rows[i].node->text);
      }
      const auto nearest = NearestWord(item->text, names);
      // A slip should not make its victim look unused as well.
      if (nearest) slices->rows[slices->by_name.find(*nearest)->second].used = true;
      problems->Error(
          *item, "unknown-slice", "unknown slice " + QuotedText(item->text),
          nearest ? "did you mean " + QuotedText(*nearest) + "?" : "define it under spec.slices");
      continue;
    }
    SliceIndex::Row& row = slices->rows[found->second];
    row.used = true;
    if (row.reads_token) CheckTokenSlice(clause, *item, item->text, problems);
    clause.slices.emplace_back(item->text);
    draft->slice_rows.push_back(found->second);
  }
  std::sort(draft->slice_rows.begin(), draft->slice_rows.end());
}

void ReadWindowAndBudget(const MappingReader& mapping, ClauseDraft* draft, Problems* problems) {
  Clause& clause = draft->clause;
  draft->exceedance = mapping.Value("exceedance");
  const std::optional<double> budget = mapping.Number("exceedance");
  clause.exceedance = budget.value_or(0) + 0.0;  // -0 is 0
  if (clause.exceedance == 1) {
    problems->Error(*draft->exceedance, "vacuous",
                    "the clause can never be violated: every window may exceed",
                    "lower the exceedance or remove the clause");
  }
  const YamlNode* window = mapping.Value("window");
  if (window == nullptr) return;
  const Result<Window> read =
      window->kind == YamlNode::Kind::kScalar
          ? ReadWindow(window->text)
          : InvalidError("a window is a text; write request, 100 requests or 1m");
  if (!read.has_value()) {
    ReportWithHint(*window, "bad-window", read.error().message(), problems);
  } else if (!clause.hard()) {
    clause.window = *read;
  } else if (draft->exceedance == nullptr || budget) {
    problems->Warning(*window, "window-ignored",
                      "a hard clause is judged over the whole slice, so its window is ignored",
                      "add an exceedance to make it soft, or remove the window");
  }
}

void ReadFields(const MappingReader& mapping, Clause* clause, Problems* problems) {
  const bool coverage = clause->metric.quantity->id == kCoverage;
  const YamlNode* key = mapping.Key("fields");
  if (key == nullptr) {
    if (coverage) {
      problems->Error(mapping.node(), "missing-key",
                      "trace_field_coverage needs the fields that must be there",
                      "add e.g. 'fields: [kernel_fingerprint, seed]'");
    }
    return;
  }
  if (!coverage) {
    problems->Error(
        *key, "unexpected-fields",
        "fields belong to trace_field_coverage, not to " + QuotedText(MetricName(clause->metric)),
        "remove the key");
    return;
  }
  for (const YamlNode* item : mapping.IdentifierList("fields")) {
    clause->fields.emplace_back(item->text);
  }
}

}  // namespace

void ReportWithHint(const YamlNode& at, std::string code, const std::string& message,
                    Problems* problems) {
  const size_t split = message.find("; ");
  problems->Error(at, std::move(code), message.substr(0, split),
                  split == std::string::npos ? "" : message.substr(split + 2));
}

std::optional<ClauseDraft> ReadClause(const MappingReader& mapping, Family family, OwnRows own,
                                      SliceIndex* slices, Problems* problems) {
  if (!mapping.is_mapping()) return {};
  ClauseDraft draft;
  Clause& clause = draft.clause;
  clause.mark = problems->MarkOf(mapping.node());
  clause.family = family;

  const std::optional<std::string> id = mapping.Text("id");
  if (id) clause.id = *id;
  draft.metric = mapping.Value("metric");
  const auto metric =
      draft.metric == nullptr ? std::nullopt : ReadMetric(*draft.metric, own, problems);

  ReadWindowAndBudget(mapping, &draft, problems);
  clause.level = mapping.EnumWord<ViolationLevel>("level").value_or(ViolationLevel::kL1);
  clause.action = mapping.EnumWord<Action>("action");
  clause.confidence = mapping.Number("confidence");
  clause.holdout = mapping.Boolean("holdout").value_or(false);
  clause.why = mapping.Text("why").value_or("");
  if (const auto samples = mapping.Mapping("minSamples")) {
    clause.min_samples.requests = samples->Integer("requests").value_or(0);
    clause.min_samples.tokens = samples->Integer("tokens").value_or(0);
  }
  if (const auto stages = mapping.WordList("stages")) {
    for (const size_t stage : *stages) clause.stages.push_back(static_cast<Stage>(stage));
    std::sort(clause.stages.begin(), clause.stages.end());
  } else {
    clause.stages = {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull};
  }

  // Without a metric the threshold means nothing, but the slices it names are still used.
  const Metric fallback{FindQuantity("kl"), Aggregate::kMean, Side::kInfer};
  clause.metric = metric.value_or(fallback);
  ReadSlices(mapping, &draft, slices, problems);
  if (!metric) return {};
  ReadFields(mapping, &clause, problems);
  if (!ReadThresholdValue(mapping, &draft, problems) || !id) return {};
  return draft;
}

}  // namespace kcc
