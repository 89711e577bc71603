// kcc explain: what a clause demands, in plain words, and what it implies if it holds. A clause is
// a list of titled sentences; so is a stage of a promotion policy, or a part of a monitor policy.
#include <cmath>

#include "apps/kcc/commands.h"
#include "apps/kcc/gateway_words.h"
#include "apps/kcc/metric_words.h"
#include "apps/kcc/monitor_words.h"
#include "apps/kcc/policy_words.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"
#include "kcc/bounds/implied.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/certifiable.h"
#include "kcc/contract/values.h"
#include "kcc/promotion/plan.h"

namespace kcc::cli {
namespace {

// "fallback (serve from the fallback kernel)".
std::string ActionWords(Action action) {
  return std::string(Name(action)) + " (" + std::string(Meaning(action)) + ")";
}

std::string ActionSentence(const Contract& contract, const Clause& clause) {
  std::string text = ActionWords(ActionOf(contract.escalation, clause));
  if (clause.action) return text + ", as the clause itself orders";
  for (const ActionOverride& row : contract.escalation.overrides) {
    const bool family_fits = !row.family || *row.family == clause.family;
    const bool level_fits = !row.level || *row.level == clause.level;
    if (!family_fits || !level_fits) continue;
    text += ", by the override for";
    if (row.family) text.append(" ").append(Name(*row.family));
    if (row.level) text.append(" ").append(Name(*row.level));
    return text + (row.family || row.level ? " clauses" : " every clause");
  }
  return text.append(", as for every ").append(Name(clause.level)).append(" clause");
}

std::string WindowWords(const Window& window) {
  switch (window.kind) {
    case Window::Kind::kRequest:
      return "each request";
    case Window::Kind::kRequests:
      return "each run of " + WindowText(window) + " in a row";
    case Window::Kind::kTime:
      break;
  }
  return "each " + WindowText(window) + " of traffic";
}

std::string RequirementSentence(const Clause& clause) {
  std::string text = MetricWords(clause.metric);
  if (clause.hard()) {
    text += " of the slice";
  } else {
    text += ", taken in " + WindowWords(clause.window) + ",";
  }
  text += clause.bound == BoundKind::kAtMost ? " is at most " : " is at least ";
  text += AmountWords(clause.threshold, clause.metric);
  if (!clause.fields.empty()) {
    const std::vector<std::string_view> fields(clause.fields.begin(), clause.fields.end());
    text += (fields.size() == 1 ? ", for the field " : ", for the fields ") + JoinWords(fields);
  }
  return text;
}

std::string StrictnessSentence(const Clause& clause) {
  if (clause.hard()) return "hard: there is no budget; beyond the threshold is a violation";
  return "soft: up to " + PercentText(clause.exceedance) + " of the windows may breach it";
}

std::string SliceSentence(const Contract& contract, const std::string& name) {
  const Slice* slice = contract.FindSlice(name);
  if (slice == nullptr || !slice->where) return name + ": every request";
  return name + (slice->where->reads_token() ? ": tokens where " : ": requests where ") +
         slice->where->Canonical();
}

std::string StageSentence(const Clause& clause) {
  constexpr size_t kStageCount = 4;
  if (clause.stages.size() == kStageCount) return "judged in every stage";
  std::vector<std::string_view> names;
  for (const Stage stage : clause.stages) names.push_back(Name(stage));
  return "judged in " + JoinWords(names) + " only";
}

bool IsAboutTraffic(const Contract& contract, const Clause& clause) {
  if (contract.decision.about) return *contract.decision.about == Population::kTraffic;
  return clause.stages != std::vector<Stage>{Stage::kOffline};
}

std::string DecisionSentence(const Contract& contract, const Clause& clause) {
  const std::string confidence =
      PercentText(clause.confidence.value_or(contract.decision.confidence));
  const std::string traffic = "a sample of traffic, decided with " + confidence + " confidence";
  std::string text;
  if (!contract.decision.about) {
    text =
        "the evaluation set offline, where the evidence is the whole population; in shadow, "
        "canary and full " +
        traffic;
  } else if (*contract.decision.about == Population::kTraffic) {
    text = traffic;
  } else {
    text = "the evaluation set: the evidence is the whole population";
  }
  const MinSamples& least = clause.min_samples;
  if (least.requests > 0)
    text += "; needs at least " + std::to_string(least.requests) + " requests";
  if (least.tokens > 0) {
    text += least.requests > 0 ? " and " : "; needs at least ";
    text += std::to_string(least.tokens) + " tokens";
  }
  return text;
}

std::string_view CautionWords(Certifiable certifiable) {
  switch (certifiable) {
    case Certifiable::kYes:
      break;
    case Certifiable::kNotExtreme:
      return "samples of traffic can refute this clause but never certify it, since the next "
             "request "
             "may be the worst; a percentile, or an exceedance, can be certified";
    case Certifiable::kNotUnboundedMean:
      return "samples of traffic can refute this clause but never certify it, since one unseen "
             "request could move the mean by any amount; a percentile, or an exceedance, can be "
             "certified";
  }
  return "";
}

// What reward and gradient may lose while the clause holds (docs/bounds.md).
void AddImplications(const Contract& contract, const Clause& clause,
                     std::vector<PlanSentence>* rows) {
  const std::vector<Implication> implied = ImplicationsOf(contract, clause);
  if (implied.empty()) return;
  for (const Implication& row : implied) {
    rows->push_back({&row == &implied.front() ? "implies" : "",
                     row.text + ": at most " + ReadableNumber(row.value) +
                         (row.vacuous ? " (says nothing)" : "")});
  }
  const auto missing = AssumptionsMissing(contract.assumptions);
  if (missing.empty()) return;
  rows->push_back({"", "more would follow with assumptions." + JoinWords(missing)});
}

// Of a metric that the contract defines itself: what it says about it, and what its range does.
void AddOwn(const Contract& contract, const Quantity& quantity, std::vector<PlanSentence>* rows) {
  for (const OwnDefinition& definition : contract.metrics) {
    if (definition.row != &quantity) continue;
    std::string text = "spec.metrics";
    if (!quantity.own->version.empty()) text += ", version " + quantity.own->version;
    if (std::isfinite(quantity.min)) text += ", at least " + ShortestNumber(quantity.min);
    if (std::isfinite(quantity.max)) text += ", at most " + ShortestNumber(quantity.max);
    if (std::isfinite(quantity.min) || std::isfinite(quantity.max)) {
      text += "; a value outside is an error";
    }
    rows->push_back({"defined in", text});
    if (!definition.doc.empty()) rows->push_back({"", definition.doc});
  }
}

std::vector<PlanSentence> Explain(const Contract& contract, const Clause& clause) {
  std::vector<PlanSentence> rows;
  rows.push_back({"requires", RequirementSentence(clause)});
  rows.push_back({"quantity", QuantityWords(*clause.metric.quantity, clause.metric.side)});
  AddOwn(contract, *clause.metric.quantity, &rows);
  rows.push_back({"evidence", EvidenceWords(*clause.metric.quantity)});
  rows.push_back({"strictness", StrictnessSentence(clause)});
  for (const std::string& slice : clause.slices) {
    rows.push_back(
        {&slice == &clause.slices.front() ? "slices" : "", SliceSentence(contract, slice)});
  }
  rows.push_back({"if violated", ActionSentence(contract, clause)});
  if (std::string owner = OwnerOf(contract, clause); !owner.empty()) {
    rows.push_back({"owner", std::move(owner)});
  }
  rows.push_back({"stages", StageSentence(clause)});
  rows.push_back({"speaks of", DecisionSentence(contract, clause)});
  const std::string_view caution =
      CautionWords(CertifiableForTraffic(clause, contract.assumptions));
  if (IsAboutTraffic(contract, clause) && !caution.empty()) {
    rows.push_back({"caution", std::string(caution)});
  }
  AddImplications(contract, clause, &rows);
  if (clause.holdout) rows.push_back({"holdout", "never to be used as a training signal"});
  if (!clause.why.empty()) rows.push_back({"why", clause.why});
  return rows;
}

void PrintClause(const Contract& contract, const Clause& clause, Console& console) {
  constexpr size_t kColumn = 15;
  console.out << Paint(Style::kBold, Shown(clause.id), console.colour_out) << "  "
              << Name(clause.family) << ", " << (clause.hard() ? "hard" : "soft") << ", "
              << Name(clause.level) << ": " << MetricName(clause.metric) << ' '
              << (clause.bound == BoundKind::kAtMost ? "<= " : ">= ")
              << ShortestNumber(clause.threshold) << '\n';
  for (const PlanSentence& row : Explain(contract, clause)) {
    console.out << "  " << Paint(Style::kCyan, row.title, console.colour_out)
                << std::string(kColumn - 2 - row.title.size(), ' ')
                << WrapText(row.text, kColumn, 100) << '\n';
  }
}

void WriteClause(const Contract& contract, const Clause& clause, JsonWriter* json) {
  json->BeginObject().Field("id", clause.id).Field("family", Name(clause.family));
  json->Field("metric", MetricName(clause.metric)).Field("level", Name(clause.level));
  json->Field("hard", clause.hard()).Field("bound", Name(clause.bound));
  json->Field("threshold", clause.threshold).Field("exceedance", clause.exceedance);
  if (!clause.hard()) json->Field("window", WindowText(clause.window));
  json->Key("slices").BeginArray();
  for (const std::string& slice : clause.slices) json->Value(slice);
  json->EndArray().Field("action", Name(ActionOf(contract.escalation, clause)));
  WriteSentences("words", Explain(contract, clause), json);
  json->Key("implies").BeginArray();
  for (const Implication& row : ImplicationsOf(contract, clause)) {
    json->BeginObject().Field("quantity", row.quantity).Field("text", row.text);
    json->Field("atMost", row.value).Field("vacuous", row.vacuous);
    if (row.exceedance > 0) {
      json->Field("exceedance", row.exceedance).Field("window", WindowText(clause.window));
    }
    json->EndObject();
  }
  json->EndArray().EndObject();
}

int UnknownClause(const Contract& contract, const ExplainOptions& options, Console& console) {
  std::vector<std::string_view> ids;
  for (const Clause& clause : contract.clauses) ids.push_back(clause.id);
  std::string message = "there is no clause '" + options.id + "'";
  if (const auto nearest = NearestWord(options.id, ids)) {
    message += "; did you mean '" + std::string(*nearest) + "'?";
  } else {
    message += "; it has " + JoinWords(ids);
  }
  return ReportError(InvalidError(message, Place{DisplayName(options.file)}), console);
}

// What policies are explained by: stages or parts, each with a name.
std::string_view NameOf(const StagePlan& plan) { return Name(plan.stage); }
std::string_view NameOf(const DocumentPart& part) { return part.name; }

// Prints their names for --ids, and leaves only the one that was asked for. The exit code where
// that is all, or where there is none of that name.
template <class Part>
std::optional<int> Choose(const ExplainOptions& options, std::string_view noun,
                          std::vector<Part>* parts, Console& console) {
  std::vector<std::string_view> names;
  for (const Part& part : *parts) names.push_back(NameOf(part));
  if (options.ids) {
    for (const std::string_view name : names) console.out << name << '\n';
    return kExitOk;
  }
  if (options.id.empty()) return std::nullopt;
  std::erase_if(*parts, [&](const Part& part) { return NameOf(part) != options.id; });
  if (!parts->empty()) return std::nullopt;
  return ReportError(InvalidError("there is no " + std::string(noun) + " '" + options.id +
                                      "'; it has " + JoinWords(names),
                                  Place{DisplayName(options.file)}),
                     console);
}

template <class Policy>
void PrintTitle(const Policy& policy, std::string_view rule, Console& console) {
  console.out << Shown(policy.name) << ' ' << Shown(policy.version) << ": " << rule << ".\n";
  if (policy.description.empty()) return;
  console.out << WrapText(Shown(policy.description), 0, 100) << '\n';
}

// A document that is made of parts; `identity` writes what it is, under `noun`, and `rule` is what
// one should know of it first.
template <class Meant, class Identity>
int ExplainParts(const Meant& meant, std::vector<DocumentPart> parts, std::string_view noun,
                 std::string_view rule, Identity identity, const ExplainOptions& options,
                 Console& console) {
  if (const auto done = Choose(options, "part", &parts, console)) return *done;
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccExplain", 1).Key(noun).BeginObject();
    identity(meant, DisplayName(options.file), &json);
    json.EndObject().Key("parts").BeginArray();
    for (const DocumentPart& part : parts) {
      json.BeginObject().Field("part", part.name);
      WriteSentences("words", part.sentences, &json);
      json.EndObject();
    }
    json.EndArray().EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  if (options.id.empty()) PrintTitle(meant, rule, console);
  for (const DocumentPart& part : parts) {
    console.out << Paint(Style::kBold, part.name, console.colour_out) << '\n';
    PrintPlanSentences(part.sentences, console);
  }
  return kExitOk;
}

int ExplainMonitor(const MonitorPolicy& policy, const ExplainOptions& options, Console& console) {
  return ExplainParts(
      policy, MonitorParts(policy), "policy",
      "a kernel is left on evidence, and comes back on evidence alone",
      [](const MonitorPolicy& one, std::string_view file, JsonWriter* json) {
        WritePolicyIdentity(one, file, json);
      },
      options, console);
}

int ExplainGateway(const GatewayConfig& config, const ExplainOptions& options, Console& console) {
  return ExplainParts(config, GatewayParts(config), "gateway",
                      "clients are answered by the kernel that the evidence allows",
                      WriteGatewayIdentity, options, console);
}

int ExplainPolicy(const PromotionPolicy& policy, const ExplainOptions& options, Console& console) {
  std::vector<StagePlan> plans = PlanOf(policy, nullptr);
  if (const auto done = Choose(options, "stage", &plans, console)) return *done;
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccExplain", 1).Key("policy").BeginObject();
    WritePolicyIdentity(policy, DisplayName(options.file), &json);
    json.EndObject().Key("stages");
    WriteStagePlans(plans, &json);
    json.EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  if (options.id.empty()) {
    PrintTitle(policy, "a stage is left only when its own evidence is satisfied", console);
  }
  PrintStagePlans(plans, console);
  if (options.id.empty()) PrintPlanSentences(PolicySentences(policy), console);
  return kExitOk;
}

}  // namespace

int RunExplain(const ExplainOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto source = RequireDocument(options.file, console, &exit_code);
  if (!source) return exit_code;
  if (source->promotion) return ExplainPolicy(*source->promotion, options, console);
  if (source->monitor) return ExplainMonitor(*source->monitor, options, console);
  if (source->gateway) return ExplainGateway(*source->gateway, options, console);
  const Contract& contract = *source->contract;
  std::vector<const Clause*> chosen;
  for (const Clause& clause : contract.clauses) {
    if (options.id.empty() || clause.id == options.id) chosen.push_back(&clause);
  }
  if (chosen.empty() && !options.id.empty()) return UnknownClause(contract, options, console);

  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccExplain", 1).Key("contract").BeginObject();
    WriteContractIdentity(contract, DisplayName(options.file), &json);
    json.EndObject().Key("clauses").BeginArray();
    for (const Clause* clause : chosen) WriteClause(contract, *clause, &json);
    json.EndArray().EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  if (options.ids) {
    for (const Clause* clause : chosen) console.out << Shown(clause->id) << '\n';
    return kExitOk;
  }
  if (options.id.empty()) {
    console.out << Shown(contract.name) << ' ' << Shown(contract.version) << ": "
                << Counted(contract.clauses.size(), "clause") << "; the pair conforms if every one "
                << "is satisfied on every slice it names.\n";
    if (!contract.description.empty())
      console.out << WrapText(contract.description, 0, 100) << '\n';
  }
  for (const Clause* clause : chosen) {
    if (options.id.empty()) console.out << '\n';
    PrintClause(contract, *clause, console);
  }
  return kExitOk;
}

}  // namespace kcc::cli
