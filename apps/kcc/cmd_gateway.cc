// kcc gateway: the configuration, checked; and the gateway that it describes.
#include <algorithm>

#include "apps/kcc/commands.h"
#include "apps/kcc/commands_gateway.h"
#include "apps/kcc/safe_output.h"
#include "kcc/control/gateway_files.h"
#include "kcc/control/gateway_process.h"

namespace kcc::cli {
namespace {

int64_t CountOf(const LoadedGateway& loaded, DiagnosticKind kind) {
  return std::count_if(
      loaded.findings.begin(), loaded.findings.end(),
      [&](const GatewayFinding& finding) { return finding.diagnostic.kind == kind; });
}

void PrintFindings(const LoadedGateway& loaded, Console& console) {
  for (const GatewayFinding& finding : loaded.findings) {
    PrintDiagnostics({finding.diagnostic}, DisplayName(finding.file), finding.source, console);
  }
}

void PrintCheckJson(const std::string& file, const LoadedGateway& loaded,
                    const std::vector<std::string>& unreached, Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccGatewayCheck", 1).Field("file", file);
  json.Field("valid", loaded.documents.has_value()).Key("findings").BeginArray();
  for (const GatewayFinding& finding : loaded.findings) {
    const Diagnostic& one = finding.diagnostic;
    json.BeginObject().Field("file", finding.file).Field("line", one.mark.line);
    json.Field("column", one.mark.column);
    json.Field("kind", one.kind == DiagnosticKind::kError ? "error" : "warning");
    json.Field("code", one.code).Field("message", one.message).Field("hint", one.hint).EndObject();
  }
  json.EndArray().Key("unreached").BeginArray();
  for (const std::string& one : unreached) json.Value(one);
  console.out << json.EndArray().EndObject().Take();
}

int CheckOnly(const GatewayCommandOptions& options, const LoadedGateway& loaded, Console& console) {
  std::vector<std::string> unreached;
  if (options.reach && loaded.documents) unreached = ReachKernels(*loaded.documents);
  for (const std::string& one : unreached) PrintError(IoError(one), console);
  if (console.json) {
    PrintCheckJson(options.file, loaded, unreached, console);
  } else if (loaded.documents) {
    const GatewayConfig& config = loaded.documents->config;
    const int64_t warnings = CountOf(loaded, DiagnosticKind::kWarning);
    console.out << Shown(options.file) << ": valid, " << Counted(config.kernels.size(), "kernel")
                << (options.reach && unreached.empty() ? ", all of them answer" : "")
                << (warnings == 0 ? "" : ", " + Counted(static_cast<size_t>(warnings), "warning"))
                << '\n';
  }
  if (!loaded.documents) return kExitInvalid;
  return unreached.empty() ? kExitOk : kExitError;
}

// Flushed, since whoever started the gateway waits for the address.
void PrintStarted(const GatewayStarted& started, Console& console) {
  if (console.json) {
    JsonWriter json(JsonWriter::Style::kCompact);
    json.BeginObject().Field("kccGateway", 1).Field("url", started.url);
    json.Field("adminUrl", started.admin_url).Field("model", started.model).EndObject();
    console.out << json.Take();
  } else {
    console.out << "serving " << Shown(started.model) << " at " << started.url << '\n'
                << "admin at " << started.admin_url << '\n';
  }
  console.out.flush();
}

}  // namespace

int RunGatewayCommand(const GatewayCommandOptions& options, Console& console) {
  if (options.file.empty()) {
    return ReportError(
        InvalidError("name the configuration: kcc gateway gateway.yaml; docs/gateway.md has one to "
                     "copy"),
        console);
  }
  if (options.reach && !options.check) {
    return ReportError(InvalidError("--reach belongs to --check"), console);
  }
  LoadedGateway loaded = LoadGateway(options.file);
  PrintFindings(loaded, console);
  if (options.check) return CheckOnly(options, loaded, console);
  if (!loaded.documents) {
    if (console.json) PrintCheckJson(options.file, loaded, {}, console);
    return kExitInvalid;
  }
  GatewayRun run;
  run.documents = std::move(*loaded.documents);
  run.kcc_version = Version();
  run.started = [&](const GatewayStarted& started) { PrintStarted(started, console); };
  const Result<> done = RunGateway(std::move(run));
  return done.has_value() ? kExitOk : ReportError(done.error(), console);
}

}  // namespace kcc::cli
