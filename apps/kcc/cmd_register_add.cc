// kcc register: everything that writes to the register or copies it.
#include "apps/kcc/commands.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/times.h"
#include "kcc/base/file.h"
#include "kcc/register/gc.h"
#include "kcc/register/record.h"
#include "kcc/register/register_page.h"
#include "kcc/register/transfer.h"

namespace kcc::cli {
namespace {

// One event of a kind, whose body is made of the texts that are not empty.
int AddEvent(const RegisterAddOptions& options, const char* kind,
             const std::vector<std::pair<const char*, std::string>>& members, Console& console) {
  const Result<Stamp> stamp = StampOf(options.flags, console);
  if (!stamp.has_value()) return ReportError(stamp.error(), console);
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  for (const auto& [key, value] : members) {
    if (!value.empty()) json.Field(key, value);
  }
  json.EndObject();
  return AddEvents(options.flags, {{{stamp->time_ms, stamp->actor, kind, json.Take()}}, {}},
                   console);
}

int ReportTransfer(const Result<Transfer>& done, const char* verb, const std::string& where,
                   Console& console) {
  if (!done.has_value()) return ReportError(done.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("head", HeadText(done->head)).Field("events", done->events);
    json.Field("blobs", done->blobs);
    PrintRegisterJson(json, console);
  } else {
    console.out << Shown(where) << ": " << verb << ' '
                << Counted(static_cast<size_t>(done->events), "event") << " and "
                << Counted(static_cast<size_t>(done->blobs), "blob") << "\n  head "
                << HeadText(done->head) << '\n';
  }
  return kExitOk;
}

void PrintRemovals(const std::vector<Removal>& removals, bool dry_run, Console& console) {
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Key("removals").BeginArray();
    for (const Removal& removal : removals) {
      json.BeginObject().Field("blob", removal.blob).Field("bytes", removal.bytes);
      json.Field("why", removal.why).EndObject();
    }
    json.EndArray();
    PrintRegisterJson(json, console);
    return;
  }
  for (const Removal& removal : removals) {
    console.out << (dry_run ? "would remove " : "removed ") << removal.blob << ", "
                << Counted(static_cast<size_t>(removal.bytes), "byte") << ": " << removal.why
                << '\n';
  }
  if (removals.empty()) console.out << "nothing to remove\n";
}

int ReportWritten(const Result<>& written, const std::string& file, size_t bytes,
                  Console& console) {
  if (!written.has_value()) return ReportError(written.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("file", file).Field("bytes", bytes);
    PrintRegisterJson(json, console);
  } else {
    console.out << Shown(file) << ": " << Counted(bytes, "byte") << '\n';
  }
  return kExitOk;
}

}  // namespace

int RunRegisterInit(const RegisterOptions& options, Console& console) {
  Register::Created created;
  const Result<Register> made = Register::Create(options.flags.uri, &created);
  if (!made.has_value()) return ReportError(made.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("register", made->name()).Field("new", created.is_new);
    json.Field("version", kRegisterVersion).Field("versionBefore", created.version_before);
    PrintRegisterJson(json, console);
    return kExitOk;
  }
  const std::string version = std::to_string(kRegisterVersion);
  console.out << Shown(made->name()) << ": "
              << (created.is_new ? "a new register, version " + version
                  : created.version_before < kRegisterVersion
                      ? "brought from version " + std::to_string(created.version_before) + " to " +
                            version
                      : "is a register of version " + version + " already")
              << '\n';
  return kExitOk;
}

int RunRegisterAddModel(const RegisterAddOptions& options, Console& console) {
  return AddEvent(options, "model.added", {{"model", options.id}, {"name", options.name}}, console);
}

int RunRegisterAddKernel(const RegisterAddOptions& options, Console& console) {
  const Result<Stamp> stamp = StampOf(options.flags, console);
  if (!stamp.has_value()) return ReportError(stamp.error(), console);
  std::map<std::string, std::string> build;
  for (size_t i = 0; i < kKernelBuildWords.size(); ++i) {
    if (!options.build[i].empty()) build[kKernelBuildWords[i]] = options.build[i];
  }
  return AddEvents(options.flags,
                   {{KernelAdded(options.id, build, stamp->actor, stamp->time_ms)}, {}}, console);
}

int RunRegisterAddContract(const RegisterAddOptions& options, Console& console) {
  const Result<Stamp> stamp = StampOf(options.flags, console);
  if (!stamp.has_value()) return ReportError(stamp.error(), console);
  int exit_code = kExitOk;
  const auto contract = RequireContract(options.id, console, &exit_code);
  if (!contract) return exit_code;
  ContractEvent added =
      ContractAdded(contract->contract, contract->text, stamp->actor, stamp->time_ms);
  return AddEvents(options.flags, {{std::move(added.event)}, std::move(added.blobs)}, console);
}

int RunRegisterAddTriple(const RegisterAddOptions& options, Console& console) {
  const Result<Stamp> stamp = StampOf(options.flags, console);
  if (!stamp.has_value()) return ReportError(stamp.error(), console);
  const Triple triple{options.model, options.train, options.infer, options.contract};
  return AddEvents(options.flags, {{TripleAdded(triple, stamp->actor, stamp->time_ms)}, {}},
                   console);
}

int RunRegisterAddIncident(const RegisterAddOptions& options, Console& console) {
  return AddEvent(options, options.close ? "incident.closed" : "incident.opened",
                  {{"incident", options.id},
                   {"what", options.what},
                   {"triple", options.triple},
                   {"promotion", options.promotion},
                   {"evaluation", options.evaluation}},
                  console);
}

int RunRegisterAddEvent(const RegisterAddOptions& options, Console& console) {
  const Result<Stamp> stamp = StampOf(options.flags, console);
  if (!stamp.has_value()) return ReportError(stamp.error(), console);
  const Result<std::string> body = ReadInput(options.id, kEventBodyBytesMax, console);
  if (!body.has_value()) return ReportError(body.error(), console);
  Batch batch{{{stamp->time_ms, stamp->actor, options.kind, *body}}, {}};
  for (const std::string& file : options.blobs) {
    Result<std::string> bytes = ReadFile(file, kBlobBytesMax);
    if (!bytes.has_value()) return ReportError(bytes.error(), console);
    batch.blobs.push_back(std::move(*bytes));
  }
  return AddEvents(options.flags, batch, console);
}

int RunRegisterExport(const RegisterOptions& options, Console& console) {
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  return ReportTransfer(ExportRegister(*source, options.directory), "wrote", options.directory,
                        console);
}

int RunRegisterImport(const RegisterOptions& options, Console& console) {
  Result<Register> target = Register::Open(options.flags.uri);
  if (!target.has_value()) return ReportError(target.error(), console);
  return ReportTransfer(ImportRegister(*target, options.directory), "imported", target->name(),
                        console);
}

int RunRegisterGc(const RegisterOptions& options, Console& console) {
  const Result<Stamp> stamp = StampOf(options.flags, console);
  if (!stamp.has_value()) return ReportError(stamp.error(), console);
  GcOptions how;
  how.now_ms = stamp->time_ms;
  how.redact = options.redact;
  const auto read = [&](const std::string& text, std::optional<int64_t>* time) -> Result<> {
    if (text.empty()) return {};
    KCC_TRY(*time, ParseTime(text));
    return {};
  };
  for (const Result<>& done : {read(options.evidence_before, &how.evidence_before_ms),
                               read(options.requests_before, &how.requests_before_ms)}) {
    if (!done.has_value()) return ReportError(done.error(), console);
  }
  Result<Register> target = Register::Open(options.flags.uri);
  if (!target.has_value()) return ReportError(target.error(), console);
  std::vector<Removal> removals;
  const Result<Head> done = target->Update([&](Register& source) -> Result<Batch> {
    KCC_TRY(removals, FindRemovals(source, how));
    if (options.dry_run) return Batch{};
    return RemovalBatch(removals, options.reason, stamp->actor, stamp->time_ms);
  });
  if (!done.has_value()) return ReportError(done.error(), console);
  PrintRemovals(removals, options.dry_run, console);
  return kExitOk;
}

int RunRegisterPage(const RegisterOptions& options, Console& console) {
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  const Result<std::string> page = RegisterPage(*source, TimeText);
  if (!page.has_value()) return ReportError(page.error(), console);
  return ReportWritten(WriteFileAtomically(options.output, *page), options.output, page->size(),
                       console);
}

int RunRegisterBlob(const RegisterOptions& options, Console& console) {
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  const Result<std::optional<std::string>> bytes = source->ReadBlob(options.id);
  if (!bytes.has_value()) return ReportError(bytes.error(), console);
  if (!*bytes) {
    return ReportError(InvalidError("blob " + options.id + " is not in the register"), console);
  }
  return ReportWritten(WriteFileAtomically(options.output, **bytes), options.output,
                       (*bytes)->size(), console);
}

int RunRegisterRebuild(const RegisterOptions& options, Console& console) {
  Result<Register> target = Register::Open(options.flags.uri);
  if (!target.has_value()) return ReportError(target.error(), console);
  const Result<int64_t> entries = target->Rebuild();
  if (!entries.has_value()) return ReportError(entries.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("entries", *entries);
    PrintRegisterJson(json, console);
  } else {
    console.out << Shown(target->name()) << ": " << *entries << " entries made anew\n";
  }
  return kExitOk;
}

}  // namespace kcc::cli
