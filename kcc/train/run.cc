#include "kcc/train/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/train/initial_weights.h"
#include "kcc/train/state_file.h"

namespace kcc {
namespace {

constexpr size_t kConfigBytesMax = size_t{1} << 20;
constexpr size_t kLogBytesMax = size_t{1} << 30;

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

// log.jsonl. Lines beyond the state that a run resumes from are of steps that will be taken again.
class RunLog {
 public:
  static Result<RunLog> Open(const std::string& path, int64_t lines) {
    std::string kept;
    if (lines > 0) {
      KCC_TRY(const std::string text, ReadRegularFile(path, kLogBytesMax));
      size_t end = 0;
      for (int64_t i = 0; i < lines; ++i) {
        end = text.find('\n', end);
        if (end == std::string::npos) {
          return BrokenEvidenceError(
              "the log ends before step " + std::to_string(lines) + ", at which the state stands",
              Place{path});
        }
        ++end;
      }
      kept = text.substr(0, end);
    }
    KCC_TRY_VOID(WriteFileAtomically(path, kept));
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
    if (file.get() < 0) return Failed(path);
    return RunLog(path, std::move(file));
  }

  Result<> Append(std::string_view line) {
    while (!line.empty()) {
      const ssize_t written = ::write(file_.get(), line.data(), line.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed(path_);
      line.remove_prefix(static_cast<size_t>(written));
    }
    return {};
  }
  // Before the state says that these lines are there.
  Result<> Sync() {
    if (::fsync(file_.get()) != 0) return Failed(path_);
    return {};
  }

 private:
  RunLog(std::string path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  static Error Failed(const std::string& path) {
    return IoError(std::string("cannot write the log: ") + std::strerror(errno), Place{path});
  }
  std::string path_;
  FileDescriptor file_;
};

Result<> PrepareFolder(const RunPlan& plan, const std::string& state) {
  std::error_code failed;
  std::filesystem::create_directories(plan.folder, failed);
  if (failed) return IoError("cannot make the directory: " + failed.message(), Place{plan.folder});
  const bool there = std::filesystem::exists(state, failed);
  if (there && !plan.resume) {
    return InvalidError(
        "the folder holds a training run; --resume goes on with it, and a new run needs another "
        "folder",
        Place{plan.folder});
  }
  if (!there && plan.resume)
    return InvalidError("the folder holds no training run to resume", Place{plan.folder});
  if (!there && std::filesystem::exists(plan.folder + "/model.safetensors", failed)) {
    return InvalidError(
        "the folder holds a checkpoint, which the run would replace; choose another folder",
        Place{plan.folder});
  }
  return {};
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
  const std::string state_path = plan.folder + "/state.safetensors";
  const RunSettings settings = SettingsOf(plan.options, examples, start.checkpoint.digest);
  ForkJoin pool(plan.threads);
  KCC_TRY(const auto trainer,
          Trainer::Make(start.checkpoint, plan.options, examples.examples, pool));
  KCC_TRY_VOID(PrepareFolder(plan, state_path));
  if (plan.resume) {
    KCC_TRY(TrainState state, ReadState(state_path, config, settings));
    KCC_TRY_VOID(trainer->Resume(std::move(state)));
  } else {
    KCC_TRY_VOID(WriteState(state_path, config, settings, trainer->state()));
  }
  RunResult result;
  result.resumed_from = trainer->state().step;
  KCC_TRY(RunLog log, RunLog::Open(plan.folder + "/log.jsonl", result.resumed_from));
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
