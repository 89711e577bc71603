// kcc check: every problem of every file, and the identity of each contract that is valid.
#include <algorithm>

#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/contract/canonical.h"

namespace kcc::cli {
namespace {

struct Counts {
  size_t errors = 0;
  size_t warnings = 0;
};

Counts Count(const std::vector<Diagnostic>& diagnostics) {
  const auto errors = std::count_if(diagnostics.begin(), diagnostics.end(), [](const auto& row) {
    return row.kind == DiagnosticKind::kError;
  });
  return {static_cast<size_t>(errors), diagnostics.size() - static_cast<size_t>(errors)};
}

std::string CountText(const Counts& counts) {
  std::string text;
  if (counts.errors > 0) text = Counted(counts.errors, "error");
  if (counts.warnings > 0) {
    text += (text.empty() ? "" : ", ") + Counted(counts.warnings, "warning");
  }
  return text;
}

void WriteJson(const ContractFile& file, const std::string& name, JsonWriter* json) {
  json->BeginObject();
  if (file.outcome.contract) {
    WriteContractIdentity(*file.outcome.contract, name, json);
    json->Field("clauses", file.outcome.contract->clauses.size());
    json->Field("slices", file.outcome.contract->slices.size());
  } else {
    json->Field("file", name);
  }
  json->Field("valid", file.outcome.contract.has_value());
  json->Key("diagnostics");
  WriteDiagnostics(file.outcome.diagnostics, name, json);
  json->EndObject();
}

void PrintVerdict(const ContractFile& file, const std::string& name, const Counts& counts,
                  Console& console) {
  if (!file.outcome.contract) {
    console.err << Shown(name) << ": " << Paint(Style::kRed, "invalid", console.colour_err) << ": "
                << CountText(counts) << '\n';
    return;
  }
  const Contract& contract = *file.outcome.contract;
  console.out << Shown(name) << ": " << Paint(Style::kGreen, "ok", console.colour_out) << ": "
              << Shown(contract.name) << ' ' << Shown(contract.version) << ", "
              << Counted(contract.clauses.size(), "clause") << " on "
              << Counted(contract.slices.size(), "slice");
  if (counts.warnings > 0) console.out << ", " << CountText(counts);
  console.out << "\n  " << Paint(Style::kDim, ContractDigest(contract), console.colour_out) << '\n';
}

}  // namespace

int RunCheck(const CheckOptions& options, Console& console) {
  int exit_code = kExitOk;
  JsonWriter json;
  json.BeginObject().Field("kccCheck", 1).Key("files").BeginArray();
  for (const std::string& path : options.files) {
    const std::string name = DisplayName(path);
    const Result<ContractFile> file = LoadContract(path, console);
    if (!file.has_value()) {
      // One document is printed for all files, so an unreadable one is an entry in it.
      Console quiet = console;
      quiet.json = false;
      exit_code = std::max(exit_code, ReportError(file.error(), quiet));
      json.BeginObject().Field("file", name).Field("valid", false);
      json.Field("error", file.error().message()).EndObject();
      continue;
    }
    const Counts counts = Count(file->outcome.diagnostics);
    if (counts.errors > 0 || (options.strict && counts.warnings > 0)) {
      exit_code = std::max<int>(exit_code, kExitInvalid);
    }
    if (console.json) {
      WriteJson(*file, name, &json);
    } else {
      PrintDiagnostics(file->outcome.diagnostics, name, file->text, console);
      PrintVerdict(*file, name, counts, console);
    }
  }
  json.EndArray().Field("valid", exit_code == kExitOk).EndObject();
  if (console.json) console.out << json.Take();
  return exit_code;
}

}  // namespace kcc::cli
