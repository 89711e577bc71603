#include "apps/kcc/registers.h"

#include "apps/kcc/safe_output.h"
#include "apps/kcc/times.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/register/event_body.h"

namespace kcc::cli {
namespace {

constexpr size_t kShortDigest = std::string_view("sha256:").size() + 12;

std::string KernelWords(const std::string& body) {
  std::string words;
  for (const auto& [name, value] : BodyTexts(body, "build")) {
    words += (words.empty() ? "" : ", ") + name + " " + value;
  }
  return words.empty() ? "build not said" : words;
}

std::string EvaluationWords(const std::string& body) {
  const RecordedEvaluation read = ReadRecordedEvaluation(body);
  std::string words = read.stage + " " + read.verdict;
  if (read.health) words += ", health " + ReadableNumber(*read.health);
  return words + ", triple " + ShortId(read.triple);
}

}  // namespace

Result<Stamp> StampOf(const RegisterFlags& flags, const Console& console) {
  Stamp stamp{flags.actor.empty() ? console.user : flags.actor, 0};
  if (!flags.time.empty()) {
    KCC_TRY(stamp.time_ms, ParseTime(flags.time));
  } else {
    stamp.time_ms = (console.clock != nullptr ? *console.clock : TheSystemClock()).NowMs();
  }
  return stamp;
}

std::string ShortId(std::string_view id) {
  return IsSha256(id) ? std::string(id.substr(0, kShortDigest)) + "…" : std::string(id);
}

std::string EntryWords(const Entry& entry) {
  const std::string& body = entry.event.body;
  const auto text = [&](std::string_view key) { return BodyText(body, key); };
  switch (entry.key.table) {
    case EntryTable::kModels:
      return text("name");
    case EntryTable::kKernels:
      return KernelWords(body);
    case EntryTable::kContracts:
      return text("name") + " " + text("version");
    case EntryTable::kTriples:
      return ShortId(text("model")) + ", " + ShortId(text("train")) + " → " +
             ShortId(text("infer")) + ", " + ShortId(text("contract"));
    case EntryTable::kEvaluations:
      return EvaluationWords(body);
    case EntryTable::kPromotions:
      return text("from") + " → " + text("to") + ": " + text("cause") + ", triple " +
             ShortId(text("triple"));
    case EntryTable::kApprovals:
      return "by " + entry.event.actor + ", promotion " + text("promotion");
    case EntryTable::kIncidents:
      return (entry.event.kind == "incident.closed" ? "closed: " : "open: ") + text("what");
    case EntryTable::kCertificates:
      return "triple " + ShortId(text("triple"));
    case EntryTable::kStatements:
      return "about " + text("about");
    case EntryTable::kRequests:
      return "store " + text("store");
    case EntryTable::kRemovals:
      return text("why") + (text("reason").empty() ? "" : ": " + text("reason"));
    case EntryTable::kRoutes:
      return (text("serves").empty() ? "no kernel serves" : text("serves") + " serves") + ": " +
             text("reason");
  }
  return "";
}

JsonWriter RegisterJson() {
  constexpr int kVersion = 1;
  JsonWriter json;
  json.BeginObject().Field("kccRegister", kVersion);
  return json;
}

void PrintRegisterJson(JsonWriter& json, Console& console) {
  json.EndObject();
  console.out << json.Take();
}

void WriteEvent(const Event& event, JsonWriter* json) {
  json->BeginObject().Field("sequence", event.sequence).Field("time", event.time_ms);
  json->Field("actor", event.actor).Field("kind", event.kind);
  json->Key("body").Raw(event.body).Field("digest", event.digest).EndObject();
}

Result<EntryTable> TableOf(const std::string& name) {
  if (const EntryTable* table = FindTable(name)) return *table;
  std::vector<std::string_view> known;
  known.reserve(std::size(kEntryTables));
  for (const EntryTable table : kEntryTables) known.push_back(Name(table));
  const auto nearest = NearestWord(name, known);
  return InvalidError("'" + name + "' is not a table of the register; " +
                      (nearest ? "did you mean '" + std::string(*nearest) + "'?"
                               : "there are " + JoinWords(known)));
}

Result<Entry> FindEntry(Register& source, EntryTable table, const std::string& id) {
  KCC_TRY(auto exact, source.Find({table, id}));
  if (exact) return std::move(*exact);
  constexpr int64_t kTwo = 2;
  for (const std::string& prefix : {id, "sha256:" + id}) {
    if (id.empty()) break;
    KCC_TRY(auto found, source.List({.table = table, .id_prefix = prefix, .limit = kTwo}));
    if (found.size() == 1) return std::move(found[0]);
    if (found.size() > 1) {
      return InvalidError("several " + std::string(Name(table)) + " begin with '" + id +
                          "'; write more of the id");
    }
  }
  return InvalidError("there is no " + std::string(Singular(table)) + " '" + id +
                      "' in the register; `kcc register list " + std::string(Name(table)) +
                      "` lists what there is");
}

int AddEvents(const RegisterFlags& flags, const Batch& batch, Console& console) {
  Result<Register> target = Register::Open(flags.uri);
  if (!target.has_value()) return ReportError(target.error(), console);
  const Result<Head> head = target->Update([&](Register&) -> Result<Batch> { return batch; });
  if (!head.has_value()) return ReportError(head.error(), console);
  const int64_t first = head->sequence - static_cast<int64_t>(batch.events.size()) + 1;
  const auto events = target->ReadEvents({.first = first, .last = head->sequence});
  if (!events.has_value()) return ReportError(events.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("head", HeadText(*head)).Key("events").BeginArray();
    for (const Event& event : *events) WriteEvent(event, &json);
    json.EndArray();
    PrintRegisterJson(json, console);
    return kExitOk;
  }
  EventReader reader;
  for (const Event& event : *events) {
    const auto facts = reader.Read(event);
    console.out << "event " << event.sequence << ": " << event.kind
                << (facts.has_value() ? " " + Shown(KeyText(facts->key)) : "") << '\n';
  }
  return kExitOk;
}

}  // namespace kcc::cli
