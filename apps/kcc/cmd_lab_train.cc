// kcc lab train: a training run through the lab's own forward pass.
#include "apps/kcc/commands.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/shipped.h"
#include "kcc/base/strings.h"
#include "kcc/train/examples.h"
#include "kcc/train/run.h"

namespace kcc::cli {
namespace {

Result<RunPlan> PlanOf(const LabTrainOptions& options, const ExampleSet& examples) {
  KCC_TRY(const LabUri uri, ParseLabUri(options.kernel));
  if (!uri.model.empty())
    return InvalidError("the kernel names a model; the run starts from --model");
  RunPlan plan;
  plan.folder = options.output;
  plan.resume = options.resume;
  plan.save_every = options.save_every;
  plan.dtype = options.dtype == "bf16" ? DType::kBF16 : DType::kF32;
  TrainOptions& train = plan.options;
  KCC_TRY(train.kernel, ResolveSwitches(uri.kernel, uri.options));
  plan.threads = options.threads > 0 ? static_cast<size_t>(options.threads) : train.kernel.threads;
  train.adamw.decay = options.decay;
  KCC_TRY(train.schedule.kind, ParseScheduleKind(options.schedule));
  train.schedule.rate = options.rate;
  train.schedule.floor = options.floor;
  train.schedule.warmup = options.warmup;
  train.clip = options.clip;
  train.prompt_weight = options.prompt_weight;
  train.batch_tokens = static_cast<size_t>(options.batch_tokens);
  train.pack_tokens = static_cast<size_t>(options.pack_tokens);
  train.seed = options.seed;
  train.schedule.steps = options.steps > 0 ? options.steps
                                           : BatchesOf(examples.examples, options.seed,
                                                       train.batch_tokens, options.epochs);
  return plan;
}

Result<TrainStart> StartOf(const LabTrainOptions& options, const Console& console) {
  if (!options.config.empty()) {
    if (!options.model.empty()) {
      return InvalidError("--model and --config are two places to start from; give one");
    }
    return StartFromConfig(options.config, options.seed);
  }
  if (!options.model.empty()) return StartFromCheckpoint(options.model);
  KCC_TRY(const std::string shipped, ShippedModelOf(console)());
  return StartFromCheckpoint(shipped);
}

struct Trained {
  ExampleSet examples;
  RunPlan plan;
  RunResult run;
};

Result<Trained> Train(const LabTrainOptions& options, Console& console) {
  Trained made;
  KCC_TRY(made.examples, ReadExamples(options.examples));
  KCC_TRY(made.plan, PlanOf(options, made.examples));
  KCC_TRY(const TrainStart start, StartOf(options, console));
  const Interruptible interruptible(console);
  const SystemClock clock;
  Progress progress(console, clock, "steps");
  const int64_t steps = made.plan.options.schedule.steps;
  RunHooks hooks;
  hooks.step = [&](const StepReport& report) { progress.Show(report.step, steps, 0); };
  hooks.stop = [&] { return interruptible.stop_asked(); };
  KCC_TRY(made.run, RunTraining(start, made.examples, made.plan, hooks));
  return made;
}

void PrintTrained(const Trained& made, Console& console) {
  const RunResult& run = made.run;
  const std::string folder = Shown(made.plan.folder);
  const int64_t steps = made.plan.options.schedule.steps;
  if (run.step == run.resumed_from) {
    console.out << "the run was at its end, step " << run.step << '\n';
  } else {
    console.out << "steps " << run.resumed_from + 1 << " to " << run.step << " of " << steps
                << ", on " << Counted(made.examples.examples.size(), "example") << " of "
                << Counted(static_cast<size_t>(made.examples.tokens), "token") << ": loss "
                << ReadableNumber(run.first_loss) << " to " << ReadableNumber(run.last_loss)
                << '\n';
  }
  if (run.stopped) {
    console.out << "stopped early; the same command with --resume goes on\n";
  } else {
    console.out << "checkpoint in " << folder << ": kcc run … --infer 'lab:f32?model=" << folder
                << "'\n";
  }
}

void PrintTrainedJson(const Trained& made, Console& console) {
  const RunResult& run = made.run;
  JsonWriter json;
  json.BeginObject().Field("kccLabTrain", 1).Field("folder", made.plan.folder);
  json.Field("steps", made.plan.options.schedule.steps).Field("resumedFrom", run.resumed_from);
  json.Field("step", run.step).Field("stopped", run.stopped);
  json.Field("examples", made.examples.examples.size()).Field("tokens", made.examples.tokens);
  json.Field("examplesDigest", made.examples.digest);
  json.Key("loss");
  if (run.step == run.resumed_from) {
    json.Null();
  } else {
    json.BeginObject().Field("first", run.first_loss).Field("last", run.last_loss).EndObject();
  }
  json.Key("modelDigest");
  if (run.stopped) {
    json.Null();
  } else {
    json.Value(run.digest);
  }
  console.out << json.EndObject().Take();
}

}  // namespace

int RunLabTrain(const LabTrainOptions& options, Console& console) {
  const Result<Trained> made = Train(options, console);
  if (!made.has_value()) return ReportError(made.error(), console);
  if (console.json) {
    PrintTrainedJson(*made, console);
  } else {
    PrintTrained(*made, console);
  }
  return kExitOk;
}

}  // namespace kcc::cli
