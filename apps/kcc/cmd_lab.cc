// kcc lab: what the lab's kernels and switches are, and the experiments E1 and E2.
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/progress.h"
#include "kcc/base/file.h"
#include "kcc/kernel/request_source.h"
#include "kcc/lab/experiment.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/lab/switches.h"
#include "kcc/report/page_assets.h"

namespace kcc::cli {
namespace {

void ListJson(Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccLab", 1).Key("kernels").BeginArray();
  for (const LabPreset& kernel : LabPresets()) {
    json.BeginObject().Field("name", kernel.name).Field("meaning", kernel.meaning);
    json.Field("settings", kernel.settings).EndObject();
  }
  json.EndArray().Key("switches").BeginArray();
  for (const SwitchInfo& info : SwitchTable()) {
    json.BeginObject().Field("name", info.name).Field("source", Name(info.source));
    json.Field("meaning", info.meaning).Key("values").BeginArray();
    for (const SwitchValue& value : info.values) {
      json.BeginObject().Field("value", value.value).Field("meaning", value.meaning).EndObject();
    }
    json.EndArray().EndObject();
  }
  console.out << json.EndArray().EndObject().Take();
}

struct ExperimentInput {
  Checkpoint checkpoint;
  std::vector<KernelRequest> requests;
  ExperimentOptions options;
};

Result<ExperimentInput> ReadInput(const LabOptions& options, const Contract& contract) {
  ExperimentInput input;
  const std::string model = options.model.empty() ? std::string(kLabModelDirectory) : options.model;
  KCC_TRY(input.checkpoint, ReadCheckpoint(model));
  const std::string file = options.requests.empty() ? model + "/eval.jsonl" : options.requests;
  KCC_TRY(const auto source, OpenRequestFile(file, RequestUse::kScore));
  const int64_t total = source->totals().requests;
  const int64_t most = options.requests_max > 0 ? options.requests_max : total;
  KernelRequest request;
  for (int64_t i = 0;; ++i) {
    KCC_TRY(const bool more, source->Next(&request));
    if (!more) break;
    if ((i + 1) * most / total != i * most / total) input.requests.push_back(std::move(request));
    request = {};
  }
  input.options.slices = contract.slices;
  std::error_code failed;
  const std::string scratch = std::filesystem::temp_directory_path(failed).string();
  if (!scratch.empty()) input.options.scratch = scratch;
  return input;
}

// Writes page and table, and prints the table.
Result<> Publish(const std::string& directory, const std::string& name, const std::string& page,
                 const std::string& table, Console& console) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  KCC_TRY_VOID(WriteFileAtomically(directory + "/" + name + ".html", page));
  KCC_TRY_VOID(WriteFileAtomically(directory + "/" + name + ".md", table));
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccLab", 1).Field("page", directory + "/" + name + ".html");
    console.out << json.Field("table", directory + "/" + name + ".md").EndObject().Take();
  } else {
    console.out << table << "\nopen " << directory << "/" << name << ".html\n";
  }
  return {};
}

int RunExperiment(const LabOptions& options, Console& console, bool first) {
  int exit_code = kExitOk;
  const std::string path = options.contract.empty() ? "contracts/lab.yaml" : options.contract;
  const std::optional<ValidContract> contract = RequireContract(path, console, &exit_code);
  if (!contract) return exit_code;
  Result<ExperimentInput> input = ReadInput(options, contract->contract);
  if (!input.has_value()) return ReportError(input.error(), console);
  const SystemClock clock;
  Progress progress(console.err, console.terminal_err, clock);
  input->options.progress = [&](int64_t done, int64_t total) { progress.Show(done, total, 0); };
  Result<> published;
  if (first) {
    const auto result = RunE1(input->checkpoint, input->requests, input->options);
    if (!result.has_value()) return ReportError(result.error(), console);
    progress.Clear();
    published = Publish(options.output, "e1", E1Page(*result, kPage_style_css), E1Markdown(*result),
                        console);
  } else {
    const auto result =
        RunE2(input->checkpoint, input->requests, options.threshold, input->options);
    if (!result.has_value()) return ReportError(result.error(), console);
    progress.Clear();
    published = Publish(options.output, "e2", E2Page(*result, kPage_style_css), E2Markdown(*result),
                        console);
  }
  return published.has_value() ? kExitOk : ReportError(published.error(), console);
}

}  // namespace

int RunLabList(Console& console) {
  if (console.json) {
    ListJson(console);
    return kExitOk;
  }
  console.out << "Kernels, as lab:NAME or lab:NAME?switch=value&…\n";
  for (const LabPreset& kernel : LabPresets()) {
    console.out << "  lab:" << kernel.name << std::string(16 - kernel.name.size(), ' ')
                << kernel.meaning << '\n';
  }
  ErrorSource source = ErrorSource::kNone;
  bool started = false;
  for (const SwitchInfo& info : SwitchTable()) {
    if (!started || info.source != source) {
      const std::string_view name = Name(info.source);
      console.out << "\nSwitches of "
                  << (name.empty() ? "no source: they shape the engine"
                                   : "the source " + std::string(name))
                  << '\n';
      source = info.source;
      started = true;
    }
    console.out << "  " << info.name << ": " << info.meaning << '\n';
    for (const SwitchValue& value : info.values) {
      console.out << "    " << value.value;
      if (!value.meaning.empty()) {
        const size_t width = std::max<size_t>(value.value.size(), 12);
        console.out << std::string(width - value.value.size() + 1, ' ') << value.meaning;
      }
      console.out << '\n';
    }
  }
  return kExitOk;
}

int RunLabE1(const LabOptions& options, Console& console) {
  return RunExperiment(options, console, /*first=*/true);
}

int RunLabE2(const LabOptions& options, Console& console) {
  return RunExperiment(options, console, /*first=*/false);
}

}  // namespace kcc::cli
