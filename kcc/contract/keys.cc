#include "kcc/contract/keys.h"

#include <algorithm>
#include <array>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"
#include "kcc/contract/key_rows.h"

namespace kcc {
namespace {

using enum ValueType;

constexpr std::array<std::string_view, 2> kPopulations = {"evaluation-set", "traffic"};
constexpr std::array<std::string_view, 2> kAdvantages = {"outcome", "token"};

// clang-format off
constexpr KeyRow kDocument[] = {
    {"apiVersion", kWord, kRequired, "", "version of the contract language", kApiVersions},
    {"kind", kWord, kRequired, "", "what the document is", KindWordAt(0)},
    {"metadata", kMapping, kRequired, "", "name and version of the contract",
     {}, -kInf, kInf, kClosed, kClosed, "metadata"},
    {"spec", kMapping, kRequired, "", "the contract itself: (N, S, R, O, escalation)",
     {}, -kInf, kInf, kClosed, kClosed, "spec"},
};

constexpr KeyRow kMetadata[] = {
    {"name", kName, kRequired, "", "name of the contract, e.g. qwen3-8b-fp8-serving"},
    {"version", kVersion, kRequired, "", "version of the contract, MAJOR.MINOR.PATCH"},
    {"owner", kText, kOptional, "", "team or person that answers for the contract"},
    {"description", kText, kOptional, "", "what the contract is for"},
    {"reviewBy", kDate, kOptional, "", "day by which somebody looks at the thresholds again, e.g. 2027-06-30"},
    {"labels", kTextMap, kOptional, "", "free texts for your own tools"},
};

constexpr KeyRow kSpec[] = {
    {"binds", kMapping, kOptional, "", "the model and the two kernels the contract is about",
     {}, -kInf, kInf, kClosed, kClosed, "binds"},
    {"evidence", kMapping, kOptional, "", "what evidence is believed",
     {}, -kInf, kInf, kClosed, kClosed, "evidence"},
    {"assumptions", kMapping, kOptional, "", "numbers that bounds rest on",
     {}, -kInf, kInf, kClosed, kClosed, "assumptions"},
    {"decision", kMapping, kOptional, "", "what a verdict speaks about, and how surely",
     {}, -kInf, kInf, kClosed, kClosed, "decision"},
    {"metrics", kMappingList, kOptional, "", "metrics of your own, beside those that `kcc metrics` lists",
     {}, -kInf, kInf, kClosed, kClosed, "ownMetric"},
    {"slices", kMappingList, kOptional, "", "named subsets of requests or tokens; `all` is always defined",
     {}, -kInf, kInf, kClosed, kClosed, "slice"},
    {"numerical", kMappingList, kOptional, "", "family N: how far logits and probabilities may differ",
     {}, -kInf, kInf, kClosed, kClosed, "clause"},
    {"statistical", kMappingList, kOptional, "", "family S: how far behaviour may differ",
     {}, -kInf, kInf, kClosed, kClosed, "clause"},
    {"runtime", kMappingList, kOptional, "", "family R: latency, throughput, memory, failures",
     {}, -kInf, kInf, kClosed, kClosed, "clause"},
    {"observability", kMappingList, kOptional, "", "family O: what every request must record",
     {}, -kInf, kInf, kClosed, kClosed, "clause"},
    {"escalation", kMapping, kOptional, "", "what a violation orders",
     {}, -kInf, kInf, kClosed, kClosed, "escalation"},
    {"owners", kTextMap, kOptional, "", "who answers for a clause (by its id), a source of error (operator, precision, batch, route) or a family; `kcc register blame` names them"},
};

constexpr KeyRow kBinds[] = {
    {"model", kBinding, kOptional, "", "the weights: name, digest"},
    {"train", kBinding, kOptional, "", "the training kernel: engine, dtype, attention"},
    {"infer", kBinding, kOptional, "", "the inference kernel: engine, dtype, attention, kvCache"},
    {"requests", kText, kOptional, "", "digest of the evaluation set, as kcc trace verify prints it"},
};

constexpr KeyRow kEvidence[] = {
    {"trust", kIdentifierList, kOptional, "", "fields that are believed though only the infer side recorded them"},
};

constexpr KeyRow kAssumptions[] = {
    {"temperature", kNumber, kOptional, "1", "temperature of the compared distributions",
     {}, 0, kInf, kOpen},
    {"rewardMax", kNumber, kOptional, "", "largest |reward| of a request", {}, 0, kInf},
    {"rewardBinary", kBoolean, kOptional, "false", "true: a reward is 0 or rewardMax and nothing else, so that mean_reward and reward_drift have exact tests for traffic"},
    {"advantageMax", kNumber, kOptional, "", "largest |advantage| of a token", {}, 0, kInf},
    {"scoreNormMax", kNumber, kOptional, "", "largest norm of a token's score, the gradient of its log-probability", {}, 0, kInf},
    {"tokensMax", kInteger, kOptional, "", "most output tokens of a request; needed to certify token rates for traffic", {}, 1, 1e9},
    {"advantages", kWord, kOptional, "outcome", "what an advantage may depend on. outcome: the whole continuation, as in GRPO; token: its prefix and its token only. What is stated for outcome holds for both", kAdvantages},
};

constexpr KeyRow kDecision[] = {
    {"about", kWord, kOptional, "", "evaluation-set: the evidence is the population; traffic: it is a sample. By default evaluation-set offline and traffic in shadow, canary and full", kPopulations},
    {"confidence", kRatio, kOptional, "0.95", "how sure a verdict about traffic must be",
     {}, 0.5, 1, kClosed, kOpen},
};

constexpr KeyRow kOwnMetric[] = {
    {"name", kIdentifier, kRequired, "", "its name, which clauses use with an aggregate: p95_NAME, mean_train_NAME"},
    {"of", kWord, kOptional, "request", "what has one value of it", kOwnLevelWords},
    {"from", kExpression, kRequired, "", "a field, or arithmetic over fields, e.g. \"latency_ms - ttft_ms\""},
    {"unit", kWord, kOptional, "", "unit of its values; without it, a pure number",
     kUnitWords, -kInf, kInf, kClosed, kClosed, {}, true},
    {"direction", kWord, kRequired, "", "which way is good; signed: bad on either side", kDirectionWords},
    {"min", kNumber, kOptional, "", "smallest value it can have; a value below is an error"},
    {"max", kNumber, kOptional, "", "largest value it can have; a value above is an error"},
    {"version", kText, kOptional, "", "what made the field, where a program did: a version or a digest"},
    {"doc", kText, kOptional, "", "what it means"},
};

constexpr KeyRow kSlice[] = {
    {"name", kIdentifier, kRequired, "", "name that clauses refer to"},
    {"where", kPredicate, kOptional, "", "which requests or tokens belong, e.g. \"prompt_tokens >= 8192\"; without it, everything"},
};

constexpr KeyRow kClause[] = {
    {"id", kIdentifier, kRequired, "", "name of the clause, unique in the contract"},
    {"metric", kMetric, kRequired, "", "aggregate_quantity, e.g. p99_logit_linf"},
    {"atMost", kThreshold, kOptional, "", "largest value that is still good; a clause has atMost or atLeast"},
    {"atLeast", kThreshold, kOptional, "", "smallest value that is still good"},
    {"slices", kIdentifierList, kOptional, "[all]", "slices on each of which the clause must hold"},
    {"exceedance", kRatio, kOptional, "0", "share of windows that may break the threshold; 0 makes the clause hard",
     {}, 0, 1},
    {"window", kWindow, kOptional, "request", "what the metric of a soft clause is taken over: request, 100 requests, 1m"},
    {"level", kWord, kRequired, "", "L1 logged, L2 guard or freeze, L3 fallback", kLevelWords},
    {"action", kWord, kOptional, "", "what a violation orders, in place of what escalation gives", kActionWords},
    {"minSamples", kMapping, kOptional, "", "least evidence for a verdict",
     {}, -kInf, kInf, kClosed, kClosed, "minSamples"},
    {"confidence", kRatio, kOptional, "", "in place of decision.confidence",
     {}, 0.5, 1, kClosed, kOpen},
    {"stages", kWordList, kOptional, "[offline, shadow, canary, full]", "stages in which the clause is judged", kStageWords},
    {"fields", kIdentifierList, kOptional, "", "trace_field_coverage only: the request fields that must be there"},
    {"holdout", kBoolean, kOptional, "false", "true: never to be used as a training signal"},
    {"why", kText, kOptional, "", "where the threshold comes from"},
};

constexpr KeyRow kMinSamples[] = {
    {"requests", kInteger, kOptional, "0", "least number of requests", {}, 0, 1e15},
    {"tokens", kInteger, kOptional, "0", "least number of tokens", {}, 0, 1e15},
};

constexpr KeyRow kEscalation[] = {
    {"L1", kWord, kOptional, "log", "action for a violated clause of level L1", kActionWords},
    {"L2", kWord, kOptional, "guard", "action for a violated clause of level L2", kActionWords},
    {"L3", kWord, kOptional, "fallback", "action for a violated clause of level L3", kActionWords},
    {"overrides", kMappingList, kOptional, "", "exceptions; the first that matches wins",
     {}, -kInf, kInf, kClosed, kClosed, "override"},
    {"onInconclusive", kWord, kOptional, "guard", "action where the evidence does not decide", kActionWords},
    {"onError", kWord, kOptional, "guard", "action where the evidence is broken", kActionWords},
};

constexpr KeyRow kOverride[] = {
    {"family", kWord, kOptional, "", "family it applies to; without it, any", kFamilyWords},
    {"level", kWord, kOptional, "", "level it applies to; without it, any", kLevelWords},
    {"action", kWord, kRequired, "", "the action instead", kActionWords},
};

constexpr MappingTable kTables[] = {
    {"document", "a kernel contract", kDocument},
    {"metadata", "what identifies the contract", kMetadata},
    {"spec", "the contract: four families of clauses and the escalation policy", kSpec},
    {"binds", "what the contract is about", kBinds},
    {"evidence", "what evidence is believed", kEvidence},
    {"assumptions", "what bounds may assume", kAssumptions},
    {"decision", "what a verdict means", kDecision},
    {"ownMetric", "a metric of your own", kOwnMetric},
    {"slice", "a named subset", kSlice},
    {"clause", "one requirement", kClause},
    {"minSamples", "least evidence for a verdict", kMinSamples},
    {"escalation", "from violations to actions", kEscalation},
    {"override", "an exception to the level's action", kOverride},
};
// clang-format on

static_assert(std::all_of(std::begin(kTables), std::end(kTables), [](const MappingTable& table) {
  return table.keys.size() <= kMappingKeysMax;
}));

}  // namespace

std::string_view Describe(ValueType type) {
  switch (type) {
    case kMapping:
      return "a mapping";
    case kMappingList:
      return "a list of mappings";
    case kText:
      return "a text";
    case kTextList:
      return "a list of texts";
    case kIdentifier:
      return "a name of letters, digits, '-', '_' and '.'";
    case kIdentifierList:
      return "a list of names";
    case kName:
      return "a name of lower-case letters, digits, '-' and '.'";
    case kVersion:
      return "a version MAJOR.MINOR.PATCH";
    case kWord:
      return "a word";
    case kWordList:
      return "a list of words";
    case kNumber:
      return "a number";
    case kNumberList:
      return "a list of numbers";
    case kInteger:
      return "a whole number";
    case kRatio:
      return "a ratio (0..1 or 1%)";
    case kThreshold:
      return "a number in the metric's unit";
    case kBoolean:
      return "true or false";
    case kMetric:
      return "a metric";
    case kPredicate:
      return "a slice expression";
    case kExpression:
      return "an arithmetic expression";
    case kWindow:
      return "a window (request, 100 requests or 1m)";
    case kDuration:
      return "a time (90s, 30m or 24h)";
    case kRate:
      return "a rate (5 per s)";
    case kSize:
      return "a size (512KiB or 1MiB)";
    case kAlarmBudget:
      return "a budget (1 per 10^6 requests, or 1 per 30d)";
    case kDate:
      return "a date (2027-06-30)";
    case kTextMap:
    case kBinding:
    case kJsonMap:
      return "a mapping of scalars";
    case kPath:
      return "a path";
    case kAddress:
      return "an address (127.0.0.1:8080)";
    case kUrl:
      return "an address (http://127.0.0.1:8000)";
    case kSource:
      return "a source (header:NAME or body:NAME)";
    case kSourceList:
      return "a list of sources (header:NAME or body:NAME)";
  }
  KCC_CHECK(false);
  return {};
}

std::span<const MappingTable> MappingTables() { return kTables; }

const MappingTable& TableOf(std::string_view name) {
  const MappingTable* found = nullptr;
  for (const auto tables : {MappingTables(), PolicyTables(), MonitorTables(), GatewayTables()}) {
    for (const MappingTable& table : tables) {
      if (table.name == name) found = &table;
    }
  }
  KCC_CHECK(found != nullptr);
  return *found;
}

const KeyRow& KeyOf(const MappingTable& table, std::string_view key) {
  const auto found = std::find_if(table.keys.begin(), table.keys.end(),
                                  [&](const KeyRow& row) { return row.name == key; });
  KCC_CHECK(found != table.keys.end());
  return *found;
}

}  // namespace kcc
