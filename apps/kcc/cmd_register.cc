// kcc register: looking into the register. Checking it: cmd_register_verify.cc; writing to it:
// cmd_register_add.cc.
#include "apps/kcc/commands.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/times.h"
#include "kcc/contract/canonical.h"
#include "kcc/register/event_body.h"
#include "kcc/register/kernel_class.h"

namespace kcc::cli {
namespace {

// A line without blanks at its end.
std::string Ended(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string Column(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text + "  ";
}

void PrintEntries(const std::vector<Entry>& entries, Console& console) {
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Key("entries").BeginArray();
    for (const Entry& entry : entries) {
      json.BeginObject().Field("id", entry.key.id).Field("added", entry.state.added);
      json.Field("changed", entry.state.changed).Key("event");
      WriteEvent(entry.event, &json);
      json.EndObject();
    }
    json.EndArray();
    PrintRegisterJson(json, console);
    return;
  }
  size_t width = 0;
  for (const Entry& entry : entries) width = std::max(width, Shown(ShortId(entry.key.id)).size());
  for (const Entry& entry : entries) {
    console.out << Ended(Column(Shown(ShortId(entry.key.id)), width) +
                         Column(TimeText(entry.event.time_ms), 20) + Shown(EntryWords(entry)));
  }
}

void PrintEntry(const Entry& entry, const std::vector<Event>& history, Console& console) {
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("table", Name(entry.key.table)).Field("id", entry.key.id);
    json.Key("event");
    WriteEvent(entry.event, &json);
    json.Key("added");
    WriteEvent(history[0], &json);
    PrintRegisterJson(json, console);
    return;
  }
  console.out << Singular(entry.key.table) << ' ' << Shown(entry.key.id) << '\n';
  for (const Event& event : history) {
    console.out << "  event " << event.sequence << ": " << event.kind << " by "
                << Shown(event.actor) << ", " << TimeText(event.time_ms) << '\n';
  }
  console.out << PrettyBody(entry.event.body);
}

// The digest of a contract named by file, digest or a beginning of it.
Result<std::string> ContractNamed(Register& source, const std::string& name, Console& console) {
  auto known = FindEntry(source, EntryTable::kContracts, name);
  if (known.has_value()) return std::move(known->key.id);
  const auto file = LoadContract(name, console);
  if (file.has_value() && file->outcome.contract) return ContractDigest(*file->outcome.contract);
  return std::move(known.error());
}

void PrintClasses(const std::vector<KernelClass>& classes, Console& console) {
  for (const KernelClass& of : classes) {
    console.out << "model " << Shown(of.model) << ", against " << Shown(of.train) << '\n';
    for (const ClassMember& member : of.members) {
      std::string stages;
      for (const auto& [stage, verdict] : member.stages) {
        stages += (stages.empty() ? "" : ", ") + stage + " " + verdict.verdict + " (evaluation " +
                  verdict.evaluation + ")";
      }
      const Style style = member.interchangeable ? Style::kGreen : Style::kRed;
      console.out << "  "
                  << Paint(style, member.interchangeable ? "yes" : "no ", console.colour_out)
                  << "  " << Shown(member.kernel) << ": "
                  << (stages.empty() ? "never judged" : Shown(stages)) << '\n';
    }
  }
  if (classes.empty()) {
    console.out << "no triple has this contract\n";
    return;
  }
  console.out << "Each kernel was judged against the training kernel, not against the others.\n";
}

void WriteClasses(const std::vector<KernelClass>& classes, JsonWriter* json) {
  json->Key("classes").BeginArray();
  for (const KernelClass& of : classes) {
    json->BeginObject()
        .Field("model", of.model)
        .Field("train", of.train)
        .Key("kernels")
        .BeginArray();
    for (const ClassMember& member : of.members) {
      json->BeginObject().Field("kernel", member.kernel).Field("triple", member.triple);
      json->Field("interchangeable", member.interchangeable).Key("stages").BeginObject();
      for (const auto& [stage, verdict] : member.stages) {
        json->Key(stage).BeginObject().Field("verdict", verdict.verdict);
        json->Field("evaluation", verdict.evaluation).EndObject();
      }
      json->EndObject().EndObject();
    }
    json->EndArray().EndObject();
  }
  json->EndArray();
}

}  // namespace

int RunRegisterLog(const RegisterOptions& options, Console& console) {
  if (!options.kind.empty() && FindEventKind(options.kind) == nullptr) {
    EventReader reader;  // it has the words for an unknown kind
    const auto facts = reader.Read({.sequence = 1,
                                    .time_ms = 0,
                                    .actor = "",
                                    .kind = options.kind,
                                    .body = "{}",
                                    .digest = ""});
    return ReportError(facts.error(), console);
  }
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  EventRange range{.first = options.from, .kind = options.kind};
  if (options.last > 0) {
    range.limit = options.last;
    range.newest_first = true;
  }
  Result<std::vector<Event>> events = source->ReadEvents(range);
  if (!events.has_value()) return ReportError(events.error(), console);
  if (range.newest_first) std::reverse(events->begin(), events->end());
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Key("events").BeginArray();
    for (const Event& event : *events) WriteEvent(event, &json);
    json.EndArray();
    PrintRegisterJson(json, console);
    return kExitOk;
  }
  EventReader reader;
  for (const Event& event : *events) {
    const auto facts = reader.Read(event);
    Entry as_entry;
    if (facts.has_value()) as_entry.key = facts->key;
    as_entry.event = event;
    const std::string key = ShortId(as_entry.key.id);
    console.out << Ended(Column(std::to_string(event.sequence), 5) +
                         Column(TimeText(event.time_ms), 20) + Column(Shown(event.actor), 8) +
                         Column(event.kind, 19) + Shown(key + "  " + EntryWords(as_entry)));
  }
  return kExitOk;
}

int RunRegisterList(const RegisterOptions& options, Console& console) {
  const Result<EntryTable> table = TableOf(options.table);
  if (!table.has_value()) return ReportError(table.error(), console);
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  EntryRange range{.table = *table, .subject = options.subject};
  if (options.last > 0) range.limit = options.last;
  const Result<std::vector<Entry>> entries = source->List(range);
  if (!entries.has_value()) return ReportError(entries.error(), console);
  PrintEntries(*entries, console);
  return kExitOk;
}

int RunRegisterShow(const RegisterOptions& options, Console& console) {
  const Result<EntryTable> table = TableOf(options.table);
  if (!table.has_value()) return ReportError(table.error(), console);
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  const Result<Entry> entry = FindEntry(*source, *table, options.id);
  if (!entry.has_value()) return ReportError(entry.error(), console);
  auto history = source->ReadEvents({.first = entry->state.added, .last = entry->state.added});
  if (!history.has_value()) return ReportError(history.error(), console);
  if (entry->state.changed != entry->state.added) history->push_back(entry->event);
  PrintEntry(*entry, *history, console);
  return kExitOk;
}

int RunRegisterClass(const RegisterOptions& options, Console& console) {
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  const Result<std::string> contract = ContractNamed(*source, options.id, console);
  if (!contract.has_value()) return ReportError(contract.error(), console);
  const auto classes = KernelClasses(*source, *contract);
  if (!classes.has_value()) return ReportError(classes.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    WriteClasses(*classes, &json);
    PrintRegisterJson(json, console);
  } else {
    PrintClasses(*classes, console);
  }
  return kExitOk;
}

}  // namespace kcc::cli
