// kcc check: every problem of every file, and the identity of each document that is
// valid.
#include <algorithm>

#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"
#include "kcc/contract/strict.h"
#include "kcc/promotion/plan.h"

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

// A file of the command line with all that is to be said about it.
struct Checked {
  Document document;
  std::vector<Diagnostic> diagnostics;
};

void WriteJson(const Checked& file, const std::string& name, JsonWriter* json) {
  json->BeginObject();
  if (file.document.valid()) {
    WriteIdentity(file.document, name, json);
  } else {
    json->Field("file", name);
  }
  if (const auto& contract = file.document.contract) {
    json->Field("clauses", contract->clauses.size());
    json->Field("slices", contract->slices.size());
  }
  json->Field("valid", file.document.valid());
  json->Key("diagnostics");
  WriteDiagnostics(file.diagnostics, name, json);
  json->EndObject();
}

std::string StagesInForce(const PromotionPolicy& policy) {
  std::vector<std::string_view> names;
  for (const Stage stage : kStages) {
    if (policy.stage(stage).in_force) names.push_back(Name(stage));
  }
  return JoinWords(names);
}

// "minimal 1.0.0, 4 clauses on 1 slice".
std::string SummaryLine(const Document& document) {
  if (const auto& contract = document.contract) {
    return Shown(contract->name) + ' ' + Shown(contract->version) + ", " +
           Counted(contract->clauses.size(), "clause") + " on " +
           Counted(contract->slices.size(), "slice");
  }
  if (const auto& policy = document.promotion) {
    return Shown(policy->name) + ' ' + Shown(policy->version) +
           ", a promotion policy: " + StagesInForce(*policy);
  }
  if (const auto& gateway = document.gateway) {
    return Shown(gateway->name) + ' ' + Shown(gateway->version) +
           ", a gateway: " + Counted(gateway->kernels.size(), "kernel") + " behind " +
           AddressText(gateway->listen);
  }
  const MonitorPolicy& policy = *document.monitor;
  return Shown(policy.name) + ' ' + Shown(policy.version) +
         ", a monitor policy: " + Counted(policy.kernels.size(), "kernel") + ", " +
         FalseAlarmsText(policy.false_alarms);
}

void PrintVerdict(const Checked& file, const std::string& name, const Counts& counts,
                  Console& console) {
  if (!file.document.valid()) {
    console.err << Shown(name) << ": " << Paint(Style::kRed, "invalid", console.colour_err) << ": "
                << CountText(counts) << '\n';
    return;
  }
  console.out << Shown(name) << ": " << Paint(Style::kGreen, "ok", console.colour_out) << ": "
              << SummaryLine(file.document);
  if (counts.warnings > 0) console.out << ", " << CountText(counts);
  console.out << "\n  " << Paint(Style::kDim, DigestOf(file.document), console.colour_out) << '\n';
}

// What --strict asks beyond the contract's own diagnostics; each policy may find the same clause.
void AskStrictly(const Contract& contract, const std::vector<PromotionPolicy>& policies,
                 std::vector<Diagnostic>* diagnostics) {
  const auto add = [&](std::vector<Diagnostic> more) {
    diagnostics->insert(diagnostics->end(), more.begin(), more.end());
  };
  add(CheckStrictly(contract));
  for (const PromotionPolicy& policy : policies) add(CheckPolicyAgainst(policy, contract));
}

}  // namespace

int RunCheck(const CheckOptions& options, Console& console) {
  int exit_code = kExitOk;
  std::vector<PromotionPolicy> policies;  // that contracts are held against
  if (!options.policy.empty()) {
    auto policy = RequirePolicy(options.policy, console, &exit_code);
    if (!policy) return exit_code;
    policies.push_back(std::move(*policy));
  }
  // All are read before any is judged: a policy may stand after the contracts it is for.
  std::vector<Result<Document>> files;
  for (const std::string& path : options.files) {
    files.push_back(LoadDocument(path, console));
    if (files.back().has_value() && files.back()->promotion) {
      policies.push_back(*files.back()->promotion);
    }
  }
  JsonWriter json;
  json.BeginObject().Field("kccCheck", 1).Key("files").BeginArray();
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = DisplayName(options.files[i]);
    if (!files[i].has_value()) {
      // One document is printed for all files, so an unreadable one is an entry in it.
      Console quiet = console;
      quiet.json = false;
      exit_code = std::max(exit_code, ReportError(files[i].error(), quiet));
      json.BeginObject().Field("file", name).Field("valid", false);
      json.Field("error", files[i].error().message()).EndObject();
      continue;
    }
    Checked file{std::move(*files[i]), {}};
    file.diagnostics = file.document.diagnostics;
    const auto& contract = file.document.contract;
    if (options.strict && contract) AskStrictly(*contract, policies, &file.diagnostics);
    const Counts counts = Count(file.diagnostics);
    if (counts.errors > 0 || (options.strict && counts.warnings > 0)) {
      exit_code = std::max<int>(exit_code, kExitInvalid);
    }
    if (console.json) {
      WriteJson(file, name, &json);
    } else {
      PrintDiagnostics(file.diagnostics, name, file.document.text, console);
      PrintVerdict(file, name, counts, console);
    }
  }
  json.EndArray().Field("valid", exit_code == kExitOk).EndObject();
  if (console.json) console.out << json.Take();
  return exit_code;
}

}  // namespace kcc::cli
