#include "kcc/contract/reader.h"

#include <algorithm>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/contract/clause_reader.h"
#include "kcc/contract/mapping_reader.h"
#include "kcc/contract/override_cover.h"
#include "kcc/contract/own_reader.h"
#include "kcc/contract/predicate_reader.h"
#include "kcc/contract/read_document.h"
#include "kcc/contract/validate.h"
#include "kcc/contract/words.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {
namespace {

constexpr std::string_view kAll = "all";

void ReadMetadata(const MappingReader& mapping, Contract* contract) {
  contract->name = mapping.Text("name").value_or("");
  contract->version = mapping.Text("version").value_or("");
  contract->owner = mapping.Text("owner").value_or("");
  contract->description = mapping.Text("description").value_or("");
  contract->review_by = mapping.Text("reviewBy").value_or("");
  contract->labels = mapping.TextMap("labels");
}

Assumptions ReadAssumptions(const MappingReader& mapping) {
  Assumptions assumptions;
  assumptions.temperature = mapping.Number("temperature").value_or(assumptions.temperature);
  assumptions.reward_max = mapping.Number("rewardMax");
  assumptions.reward_binary = mapping.Boolean("rewardBinary").value_or(false);
  assumptions.advantage_max = mapping.Number("advantageMax");
  assumptions.score_norm_max = mapping.Number("scoreNormMax");
  assumptions.tokens_max = mapping.Integer("tokensMax");
  assumptions.advantages =
      mapping.EnumWord<AdvantageKind>("advantages").value_or(assumptions.advantages);
  return assumptions;
}

Decision ReadDecision(const MappingReader& mapping) {
  Decision decision;
  decision.about = mapping.EnumWord<Population>("about");
  decision.confidence = mapping.Number("confidence").value_or(decision.confidence);
  return decision;
}

// A wrong predicate still defines its slice, so that clauses that name it are not wrong as well.
void ReadSlice(const YamlDocument& document, const MappingReader& mapping, Contract* contract,
               SliceIndex* index, Problems* problems) {
  const std::optional<std::string> name = mapping.Text("name");
  if (!name) return;
  Slice slice{*name, {}, problems->MarkOf(mapping.node())};
  const YamlNode* where = mapping.Value("where");
  if (where != nullptr) slice.where = ReadPredicate(document, "where", *where, problems);
  const YamlNode* node = mapping.Value("name");

  if (slice.name == kAll && where != nullptr) {
    problems->Error(*where, "all-redefined", "slice 'all' is everything and takes no where",
                    "give the slice another name");
    return;
  }
  const auto [found, fresh] =
      index->by_name.emplace(node->text, static_cast<uint32_t>(contract->slices.size()));
  if (fresh) {
    index->rows.push_back({node, slice.where && slice.where->reads_token(), false});
    contract->slices.push_back(std::move(slice));
    return;
  }
  SliceIndex::Row& row = index->rows[found->second];
  if (row.node != nullptr) {
    problems->Error(*node, "duplicate-slice", "slice '" + *name + "' is defined twice",
                    "the first one is on line " + std::to_string(problems->MarkOf(*row.node).line));
    return;
  }
  row.node = node;  // `all`, written out
  contract->slices[found->second].mark = slice.mark;
}

void CheckEscalation(const MappingReader& mapping, const Escalation& escalation,
                     Problems* problems) {
  for (size_t level = 1; level < escalation.by_level.size(); ++level) {
    const std::string_view name = Name(static_cast<ViolationLevel>(level));
    const std::string_view below = Name(static_cast<ViolationLevel>(level - 1));
    const YamlNode* at = mapping.Key(name) != nullptr ? mapping.Key(name) : mapping.Key(below);
    if (at != nullptr && escalation.by_level[level] < escalation.by_level[level - 1]) {
      problems->Warning(
          *at, "escalation-order",
          std::string(name) + " orders '" + std::string(Name(escalation.by_level[level])) +
              "', which is milder than '" + std::string(Name(escalation.by_level[level - 1])) +
              "' for " + std::string(below),
          "actions rise: log, guard, freeze, fallback, rollback");
    }
  }
}

Escalation ReadEscalation(const YamlDocument& document, const MappingReader& mapping,
                          Problems* problems) {
  Escalation escalation;
  for (size_t level = 0; level < escalation.by_level.size(); ++level) {
    const auto action = mapping.EnumWord<Action>(Name(static_cast<ViolationLevel>(level)));
    if (action) escalation.by_level[level] = *action;
  }
  CheckEscalation(mapping, escalation, problems);
  escalation.on_inconclusive =
      mapping.EnumWord<Action>("onInconclusive").value_or(escalation.on_inconclusive);
  escalation.on_error = mapping.EnumWord<Action>("onError").value_or(escalation.on_error);

  OverrideCover cover;
  for (const YamlNode* item : mapping.Items("overrides")) {
    if (problems->full()) break;
    const MappingReader row(document, *item, TableOf("override"), problems);
    if (!row.is_mapping()) continue;
    ActionOverride read;
    read.family = row.EnumWord<Family>("family");
    read.level = row.EnumWord<ViolationLevel>("level");
    read.action = row.EnumWord<Action>("action").value_or(Action::kLog);
    read.mark = problems->MarkOf(*item);
    if (!cover.Add(read.family, read.level)) {
      problems->Warning(*item, "unreachable-override",
                        "earlier overrides catch everything that this one would",
                        "move it up or remove it");
    }
    escalation.overrides.push_back(read);
  }
  return escalation;
}

std::string Quoted(std::string_view text) { return "'" + std::string(text.substr(0, 64)) + "'"; }

// A key of owners that stands for nothing would name nobody when it counts.
void CheckOwners(const YamlDocument& document, const MappingReader& spec,
                 const std::vector<ClauseDraft>& drafts, Problems* problems) {
  const YamlNode* owners = spec.Value("owners");
  if (owners == nullptr) return;
  std::vector<std::string_view> known(kFamilyWords.begin(), kFamilyWords.end());
  known.insert(known.end(), kErrorSourceWords.begin(), kErrorSourceWords.end());
  for (const ClauseDraft& draft : drafts) known.push_back(draft.clause.id);
  for (size_t i = 0; i < document.size(*owners); ++i) {
    const YamlNode& key = document.key(*owners, i);
    if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
    const auto nearest = NearestWord(key.text, known);
    problems->Error(
        key, "unknown-owned",
        "owners: " + Quoted(key.text) + " is neither a clause, a source of error nor a family",
        nearest ? "did you mean " + Quoted(*nearest) + "?"
                : "sources are operator, precision, batch and route");
  }
}

void ReadSpec(const YamlDocument& document, const MappingReader& spec, Contract* contract,
              Problems* problems) {
  if (const auto binds = spec.Mapping("binds")) {
    contract->model = binds->TextMap("model");
    contract->train = binds->TextMap("train");
    contract->infer = binds->TextMap("infer");
    contract->request_set = binds->Text("requests").value_or("");
    if (!contract->request_set.empty() && !IsSha256(contract->request_set)) {
      problems->Error(*binds->Value("requests"), "bad-digest",
                      "requests must be a digest, sha256: and 64 hexadecimal digits",
                      "kcc trace verify prints it");
    }
  }
  if (const auto mapping = spec.Mapping("evidence")) {
    for (const YamlNode* item : mapping->IdentifierList("trust"))
      contract->trust.emplace_back(item->text);
    std::sort(contract->trust.begin(), contract->trust.end());
    contract->trust.erase(std::unique(contract->trust.begin(), contract->trust.end()),
                          contract->trust.end());
  }
  if (const auto mapping = spec.Mapping("assumptions")) {
    contract->assumptions = ReadAssumptions(*mapping);
  }
  if (const auto mapping = spec.Mapping("decision")) contract->decision = ReadDecision(*mapping);
  if (const auto mapping = spec.Mapping("escalation")) {
    contract->escalation = ReadEscalation(document, *mapping, problems);
  }

  const std::vector<const YamlNode*> own_names =
      ReadOwnMetrics(document, spec.Items("metrics"), contract, problems);
  const std::vector<const Quantity*> own = contract->own_rows();

  contract->slices.push_back({std::string(kAll), {}, {}});
  SliceIndex slices;
  slices.rows.push_back({nullptr, false, true});
  slices.by_name.emplace(kAll, 0);
  for (const YamlNode* item : spec.Items("slices")) {
    if (problems->full()) return;
    const MappingReader mapping(document, *item, TableOf("slice"), problems);
    ReadSlice(document, mapping, contract, &slices, problems);
  }

  std::vector<ClauseDraft> drafts;
  DistinctNames ids("two clauses have the id", problems);
  bool any_clause = false;
  for (const Family family :
       {Family::kNumerical, Family::kStatistical, Family::kRuntime, Family::kObservability}) {
    for (const YamlNode* item : spec.Items(Name(family))) {
      if (problems->full()) return;
      any_clause = true;
      const MappingReader mapping(document, *item, TableOf("clause"), problems);
      ids.Add(mapping.Value("id"));
      if (auto draft = ReadClause(mapping, family, own, &slices, problems)) {
        drafts.push_back(std::move(*draft));
      }
    }
  }
  if (!any_clause && spec.is_mapping()) {
    problems->Warning(spec.node(), "no-clauses", "the contract asks for nothing",
                      "add a clause under numerical, statistical, runtime or observability");
  }
  contract->owners = spec.TextMap("owners");
  if (!problems->any_error()) CheckOwners(document, spec, drafts, problems);
  CheckContract(*contract, drafts, slices, own_names, problems);
  contract->clauses.reserve(drafts.size());
  for (ClauseDraft& draft : drafts) contract->clauses.push_back(std::move(draft.clause));
}

}  // namespace

ReadOutcome ReadContract(std::string_view yaml) {
  ReadOutcome outcome;
  outcome.diagnostics = ReadDocument(
      yaml,
      [](const YamlDocument& document, Problems* problems) {
        const MappingReader root(document, document.root(), TableOf("document"), problems);
        Contract contract;
        (void)root.Word("apiVersion");
        (void)root.Word("kind");
        if (const auto metadata = root.Mapping("metadata")) ReadMetadata(*metadata, &contract);
        if (const auto spec = root.Mapping("spec")) ReadSpec(document, *spec, &contract, problems);
        return contract;
      },
      &outcome.contract);
  return outcome;
}

Result<ContractFile> ReadContractFile(const std::string& path) {
  KCC_TRY(std::string text, ReadFile(path, kContractBytesMax));
  ContractFile file;
  file.outcome = ReadContract(text);
  file.text = std::move(text);
  return file;
}

}  // namespace kcc
