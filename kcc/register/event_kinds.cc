#include "kcc/register/event_kinds.h"

#include <algorithm>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

struct TableName {
  std::string_view plural, singular;
};
constexpr std::array<TableName, kEntryTables.size()> kTableNames = {{
    {"models", "model"},
    {"kernels", "kernel"},
    {"contracts", "contract"},
    {"triples", "triple"},
    {"evaluations", "evaluation"},
    {"promotions", "promotion"},
    {"approvals", "approval"},
    {"incidents", "incident"},
    {"certificates", "certificate"},
    {"statements", "statement"},
    {"requests", "request"},
    {"removals", "removal"},
    {"routes", "route"},
}};

using enum EntryTable;
using enum EntryChange;
constexpr bool kOptional = false;

// Fields that a body must have, and those whose type is checked where they are there.
constexpr EventField kModelFields[] = {{"model"}, {"name", EventFieldType::kText, kOptional}};
constexpr EventField kKernelFields[] = {{"kernel"}, {"build", EventFieldType::kObject}};
constexpr EventField kContractFields[] = {{"contract", EventFieldType::kBlob},
                                          {"name"},
                                          {"source", EventFieldType::kBlob, kOptional},
                                          {"version", EventFieldType::kText, kOptional}};
constexpr EventField kTripleFields[] = {
    {"triple", EventFieldType::kDigest}, {"model"}, {"train"}, {"infer"}, {"contract"}};
constexpr EventField kEvaluationFields[] = {{"triple", EventFieldType::kDigest},
                                            {"stage"},
                                            {"verdict"},
                                            {"health", EventFieldType::kAny},
                                            {"clauses", EventFieldType::kList},
                                            {"evidence", EventFieldType::kList},
                                            {"summary", EventFieldType::kBlob, kOptional},
                                            {"report", EventFieldType::kBlob, kOptional},
                                            {"requests", EventFieldType::kBlob, kOptional}};
constexpr EventField kPromotionFields[] = {{"promotion"},
                                           {"triple", EventFieldType::kDigest},
                                           {"from"},
                                           {"to"},
                                           {"cause"},
                                           {"state", EventFieldType::kObject},
                                           {"policy", EventFieldType::kBlob, kOptional},
                                           {"evidence", EventFieldType::kBlob, kOptional}};
constexpr EventField kApprovalFields[] = {{"promotion"},
                                          {"stage", EventFieldType::kText, kOptional}};
constexpr EventField kIncidentOpenedFields[] = {{"incident"},
                                                {"what"},
                                                {"triple", EventFieldType::kDigest, kOptional},
                                                {"promotion", EventFieldType::kText, kOptional},
                                                {"evaluation", EventFieldType::kText, kOptional}};
constexpr EventField kIncidentClosedFields[] = {{"incident"}, {"what"}};
constexpr EventField kCertificateFields[] = {{"certificate", EventFieldType::kBlob},
                                             {"triple", EventFieldType::kDigest}};
constexpr EventField kStatementFields[] = {{"statement", EventFieldType::kBlob}, {"about"}};
constexpr EventField kRemovalFields[] = {{"blob", EventFieldType::kDigest}, {"why"}};
constexpr EventField kRouteFields[] = {{"contract", EventFieldType::kDigest},
                                       {"policy", EventFieldType::kDigest},
                                       {"gateway"},
                                       {"serves", EventFieldType::kAny},
                                       {"reason", EventFieldType::kAny}};
constexpr EventField kRequestFields[] = {{"request"},
                                         {"store"},
                                         {"triple", EventFieldType::kDigest, kOptional},
                                         {"blob", EventFieldType::kBlob, kOptional}};

// Entries that must exist before; a field that is missing refers to nothing.
constexpr EventReference kTripleReferences[] = {
    {"model", kModels}, {"train", kKernels}, {"infer", kKernels}, {"contract", kContracts}};
constexpr EventReference kOfTriple[] = {{"triple", kTriples}};
constexpr EventReference kOfContract[] = {{"contract", kContracts}};
constexpr EventReference kOfPromotion[] = {{"promotion", kPromotions}};
constexpr EventReference kOfIncident[] = {
    {"triple", kTriples}, {"promotion", kPromotions}, {"evaluation", kEvaluations}};

constexpr EventKind kEventKinds[] = {
    {"model.added", kModels, kAdd, "model", "", kModelFields, {}, "weights, by their digest"},
    {"kernel.added",
     kKernels,
     kAdd,
     "kernel",
     "",
     kKernelFields,
     {},
     "a kernel build, by its fingerprint, and what it says of itself"},
    {"contract.added",
     kContracts,
     kAdd,
     "contract",
     "",
     kContractFields,
     {},
     "a contract, by its digest"},
    {"triple.added", kTriples, kAdd, "triple", "contract", kTripleFields, kTripleReferences,
     "a model, a training and an inference kernel, and a contract"},
    {"evaluation.recorded", kEvaluations, kAdd, "", "triple", kEvaluationFields, kOfTriple,
     "a triple was judged on evidence"},
    {"promotion.changed", kPromotions, kPut, "promotion", "triple", kPromotionFields, kOfTriple,
     "a promotion has a new state"},
    {"approval.given", kApprovals, kAdd, "", "promotion", kApprovalFields, kOfPromotion,
     "somebody approved of a promotion"},
    {"incident.opened", kIncidents, kAdd, "incident", "triple", kIncidentOpenedFields, kOfIncident,
     "something went wrong"},
    {"incident.closed",
     kIncidents,
     kChange,
     "incident",
     "",
     kIncidentClosedFields,
     {},
     "it was dealt with"},
    {"certificate.added", kCertificates, kAdd, "certificate", "triple", kCertificateFields,
     kOfTriple, "a certificate of a triple"},
    {"statement.added",
     kStatements,
     kAdd,
     "statement",
     "about",
     kStatementFields,
     {},
     "a signed statement about an entry"},
    {"request.stored", kRequests, kPut, "request", "triple", kRequestFields, kOfTriple,
     "a request was kept, to be run again; again after it was removed, or for less time"},
    {"blob.removed",
     kRemovals,
     kPut,
     "blob",
     "",
     kRemovalFields,
     {},
     "a blob was removed: gc, retention or redaction"},
    {"route.changed", kRoutes, kPut, "contract", "", kRouteFields, kOfContract,
     "the gateway that decides sends requests elsewhere, or in other shares"},
};

std::string_view EventFieldTypeName(EventFieldType type) {
  switch (type) {
    case EventFieldType::kText:
      return "a text";
    case EventFieldType::kDigest:
    case EventFieldType::kBlob:
      return "a digest, sha256:…";
    case EventFieldType::kObject:
      return "an object";
    case EventFieldType::kList:
      return "a list";
    case EventFieldType::kAny:
      return "a value";
  }
  return "";
}

bool HasType(json::element value, EventFieldType type) {
  switch (type) {
    case EventFieldType::kText:
      return value.is_string() && value.get_string().value_unsafe().size() > 0;
    case EventFieldType::kDigest:
    case EventFieldType::kBlob:
      return value.is_string() && IsSha256(value.get_string().value_unsafe());
    case EventFieldType::kObject:
      return value.is_object();
    case EventFieldType::kList:
      return value.is_array();
    case EventFieldType::kAny:
      return true;
  }
  return false;
}

std::string UnknownKind(std::string_view name) {
  std::vector<std::string_view> known;
  for (const EventKind& kind : kEventKinds) known.push_back(kind.name);
  std::string message = "'" + std::string(name) + "' is not a kind of event";
  if (const auto nearest = NearestWord(name, known)) {
    return message.append("; did you mean '").append(*nearest).append("'?");
  }
  return message.append("; there are ").append(JoinWords(known));
}

}  // namespace

std::string_view Name(EntryTable table) { return kTableNames[static_cast<size_t>(table)].plural; }
std::string_view Singular(EntryTable table) {
  return kTableNames[static_cast<size_t>(table)].singular;
}

const EntryTable* FindTable(std::string_view name) {
  const auto found = std::find_if(kEntryTables.begin(), kEntryTables.end(), [&](EntryTable table) {
    return Name(table) == name || Singular(table) == name;
  });
  return found == kEntryTables.end() ? nullptr : &*found;
}

std::span<const EventKind> EventKinds() { return kEventKinds; }

const EventKind* FindEventKind(std::string_view name) {
  const auto found = std::find_if(std::begin(kEventKinds), std::end(kEventKinds),
                                  [&](const EventKind& kind) { return kind.name == name; });
  return found == std::end(kEventKinds) ? nullptr : &*found;
}

std::string KeyText(const EntryKey& key) { return std::string(Singular(key.table)) + " " + key.id; }

struct EventReader::Parser {
  json::parser parser;
};

EventReader::EventReader() : parser_(std::make_unique<Parser>()) {}
EventReader::~EventReader() = default;

Result<EventFacts> EventReader::Read(const Event& event) {
  EventFacts facts;
  facts.kind = FindEventKind(event.kind);
  if (facts.kind == nullptr) return InvalidError(UnknownKind(event.kind));
  KCC_TRY(const json::element root, ParseJson(parser_->parser, event.body));
  if (!root.is_object()) return InvalidError("the body of " + event.kind + " is not an object");
  const json::object body = root.get_object().value_unsafe();
  for (const EventField& field : facts.kind->fields) {
    const auto value = JsonMember(body, field.name);
    if (!value && !field.required) continue;
    if (!value || !HasType(*value, field.type)) {
      return InvalidError(event.kind + ": '" + std::string(field.name) + "' must be " +
                          std::string(EventFieldTypeName(field.type)) +
                          (value ? ", and is " + std::string(JsonTypeName(*value)) : ""));
    }
    if (field.type == EventFieldType::kBlob) facts.blobs.emplace_back(JsonText(value));
  }
  facts.key = {facts.kind->table, facts.kind->id.empty()
                                      ? std::to_string(event.sequence)
                                      : std::string(JsonText(JsonMember(body, facts.kind->id)))};
  if (!facts.kind->subject.empty()) {
    facts.subject = JsonText(JsonMember(body, facts.kind->subject));
  }
  for (const EventReference& reference : facts.kind->references) {
    const std::string_view id = JsonText(JsonMember(body, reference.field));
    if (!id.empty()) facts.references.push_back({reference.table, std::string(id)});
  }
  if (facts.kind->table == kRemovals) facts.removed_blob = facts.key.id;
  return facts;
}

}  // namespace kcc
