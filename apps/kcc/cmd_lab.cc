// kcc lab: what the lab's kernels and switches are, and the experiments E1 and E2.
#include "apps/kcc/commands.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/published.h"
#include "apps/kcc/shipped.h"
#include "kcc/experiment/e1.h"
#include "kcc/experiment/e2.h"
#include "kcc/kernel/request_source.h"
#include "kcc/kernel/spread_requests.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/lab/switches.h"

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
};

Result<ExperimentInput> ReadInput(const LabOptions& options, const Console& console) {
  ExperimentInput input;
  std::string model = options.model;
  if (model.empty()) {
    KCC_TRY(model, ShippedModelOf(console)());
  }
  KCC_TRY(input.checkpoint, ReadCheckpoint(model));
  const std::string file = options.requests.empty() ? model + "/eval.jsonl" : options.requests;
  KCC_TRY(const auto source, OpenRequestFile(file, RequestUse::kScore));
  KernelRequest request;
  for (;;) {
    KCC_TRY(const bool more, source->Next(&request));
    if (!more) return input;
    input.requests.push_back(std::move(request));
    request = {};
  }
}

Result<> E1To(const LabOptions& options, const Contract& contract, const ExperimentInput& input,
              const ExperimentProgress& progress, Console& console) {
  E1Options e1;
  e1.slices = contract.slices;
  e1.progress = progress;
  size_t count = input.requests.size();
  if (options.quick) {
    count = 5;
    e1.preview = true;
    e1.long_requests = 5;
    e1.long_tokens = 256;
  }
  if (options.requests_max > 0) count = static_cast<size_t>(options.requests_max);
  KCC_TRY(const E1Result result,
          RunE1(input.checkpoint, SpreadRequests(input.requests, count), contract, e1));
  return Publish(options.output,
                 {"e1", E1Page(result), E1Markdown(result), E1Json(result), E1Text(result)},
                 console);
}

Result<> E2To(const LabOptions& options, const Contract& contract, const ExperimentInput& input,
              const ExperimentProgress& progress, Console& console) {
  E2Options e2 = options.quick ? E2Options::Quick() : E2Options::Default();
  e2.slices = contract.slices;
  e2.progress = progress;
  if (!options.engines.empty()) e2.engines = options.engines;
  if (!options.lengths.empty()) {
    const size_t requests = e2.lengths.back().requests;
    e2.lengths.clear();
    for (const size_t tokens : options.lengths) e2.lengths.push_back({tokens, requests});
  }
  for (E2Length& length : e2.lengths) {
    if (options.requests_max > 0) length.requests = static_cast<size_t>(options.requests_max);
    length.requests = std::min(length.requests, input.requests.size());
  }
  KCC_TRY(const E2Result result, RunE2(input.checkpoint, input.requests, contract, e2));
  return Publish(options.output,
                 {"e2", E2Page(result), E2Markdown(result), E2Json(result), E2Text(result)},
                 console);
}

int RunExperiment(const LabOptions& options, Console& console, decltype(&E1To) run) {
  int exit_code = kExitOk;
  const Result<std::string> path =
      options.contract.empty() ? ShippedLabContract(console) : options.contract;
  if (!path.has_value()) return ReportError(path.error(), console);
  const std::optional<ValidContract> contract = RequireContract(*path, console, &exit_code);
  if (!contract) return exit_code;
  const Result<ExperimentInput> input = ReadInput(options, console);
  if (!input.has_value()) return ReportError(input.error(), console);
  const SystemClock clock;
  Progress progress(console, clock, "steps");
  const auto show = [&](int64_t done, int64_t total) {
    progress.Show(done, total, 0);
    if (done == total) progress.Clear();
  };
  const Result<> done = run(options, contract->contract, *input, show, console);
  return done.has_value() ? kExitOk : ReportError(done.error(), console);
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
  return RunExperiment(options, console, E1To);
}

int RunLabE2(const LabOptions& options, Console& console) {
  return RunExperiment(options, console, E2To);
}

}  // namespace kcc::cli
