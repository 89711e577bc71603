#include "kcc/train/run.h"

#include <filesystem>
#include <utility>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/train/initial_weights.h"
#include "kcc/train/run_folder.h"
#include "kcc/train/state_file.h"

namespace kcc {
namespace {

constexpr size_t kConfigBytesMax = size_t{1} << 20;

std::string LineOf(const StepReport& report) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject()
      .Field("step", report.step)
      .Field("loss", report.loss)
      .Field("rate", report.rate);
  json.Field("gradientLength", report.gradient_length).Field("examples", report.examples);
  json.Field("tokens", report.tokens).EndObject();
  return json.Take();
}

}  // namespace

Result<TrainStart> StartFromCheckpoint(const std::string& directory) {
  TrainStart start;
  KCC_TRY(start.checkpoint, ReadCheckpoint(directory));
  KCC_TRY(start.config_json, ReadRegularFile(directory + "/config.json", kConfigBytesMax));
  KCC_TRY(start.companions, ReadCompanions(directory));
  return start;
}

Result<TrainStart> StartFromConfig(const std::string& path, uint64_t seed) {
  TrainStart start;
  KCC_TRY(start.config_json, ReadFile(path, kConfigBytesMax));
  KCC_TRY(start.checkpoint.config, ParseModelConfig(start.config_json, path));
  static_cast<ModelWeights&>(start.checkpoint) = InitialWeights(start.checkpoint.config, seed);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  KCC_TRY(start.companions, ReadCompanions(folder.empty() ? "." : folder));
  start.checkpoint.digest = Sha256Of(start.config_json + "\nseed " + std::to_string(seed));
  return start;
}

Result<RunResult> RunTraining(const TrainStart& start, const ExampleSet& examples,
                              const RunPlan& plan, const RunHooks& hooks) {
  const ModelConfig& config = start.checkpoint.config;
  const std::string state_path = StatePath(plan.folder);
  const RunSettings settings = SettingsOf(plan.options, examples, start.checkpoint.digest);
  ForkJoin pool(plan.threads);
  KCC_TRY(const auto trainer,
          Trainer::Make(start.checkpoint, plan.options, examples.examples, pool));
  KCC_TRY_VOID(PrepareRunFolder(plan.folder, plan.resume));
  if (plan.resume) {
    KCC_TRY(TrainState state, ReadState(state_path, config, settings));
    KCC_TRY_VOID(trainer->Resume(std::move(state)));
  } else {
    KCC_TRY_VOID(WriteState(state_path, config, settings, trainer->state()));
  }
  RunResult result;
  result.resumed_from = trainer->state().step;
  KCC_TRY(TrainingLog log, TrainingLog::Open(plan.folder + "/log.jsonl", result.resumed_from));
  const int64_t steps = plan.options.schedule.steps;
  while (trainer->state().step < steps && !result.stopped) {
    KCC_TRY(const StepReport report, trainer->Step());
    KCC_TRY_VOID(log.Append(LineOf(report)));
    if (report.step == result.resumed_from + 1) result.first_loss = report.loss;
    result.last_loss = report.loss;
    if (hooks.step) hooks.step(report);
    result.stopped = report.step < steps && hooks.stop && hooks.stop();
    if (report.step % plan.save_every == 0 || report.step == steps || result.stopped) {
      KCC_TRY_VOID(log.Sync());
      KCC_TRY_VOID(WriteState(state_path, config, settings, trainer->state()));
    }
  }
  result.step = trainer->state().step;
  if (result.stopped) return result;
  KCC_TRY_VOID(WriteCheckpoint(plan.folder, start.config_json, config, trainer->state().weights,
                               plan.dtype, start.companions));
  // Read as every kernel will read it.
  KCC_TRY(const Checkpoint written, ReadCheckpoint(plan.folder));
  result.digest = written.digest;
  return result;
}

}  // namespace kcc
