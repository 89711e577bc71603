// kcc lab rl: a run of reinforcement learning through the lab's own kernels.
#include <algorithm>

#include "apps/kcc/commands.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/shipped.h"
#include "kcc/base/strings.h"
#include "kcc/rltrain/rl_run.h"
#include "kcc/rltrain/task.h"

namespace kcc::cli {
namespace {

// `answers`: sequences that run at once, where the kernel does not say how many.
Result<LabSwitches> SwitchesOf(const std::string& kernel, int64_t answers) {
  KCC_TRY(const LabUri uri, ParseLabUri(kernel));
  if (!uri.model.empty())
    return InvalidError("the kernel names a model; the run starts from --model");
  KCC_TRY(LabSwitches switches, ResolveSwitches(uri.kernel, uri.options));
  const bool said = std::any_of(uri.options.begin(), uri.options.end(),
                                [](const auto& option) { return option.first == "concurrency"; });
  if (!said) switches.concurrency = static_cast<size_t>(answers);
  switches.audit = AuditLevel::kOff;  // nobody reads it
  return switches;
}

Result<> AddKernels(const LabRlOptions& options, RlTrainOptions* made) {
  const int64_t answers = std::min<int64_t>(options.problems * options.group, 1024);
  KCC_TRY(made->train, SwitchesOf(options.train, answers));
  KCC_TRY(made->infer, SwitchesOf(options.infer, answers));
  if (!options.recompute.empty()) {
    KCC_TRY(made->recompute, SwitchesOf(options.recompute, answers));
  }
  const size_t threads =
      options.threads > 0 ? static_cast<size_t>(options.threads) : made->train.threads;
  made->train.threads = made->infer.threads = threads;
  if (options.bypass) made->old_policy = OldPolicy::kBypass;
  return {};
}

Result<RlTrainOptions> RecipeOf(const LabRlOptions& options, Console& console) {
  RlTrainOptions made;
  KCC_TRY_VOID(AddKernels(options, &made));
  if (!options.correction.rule.empty() || !options.correction.framework.dialect.empty()) {
    KCC_TRY(made.correction, RlCorrectionOf(options.correction, console));
  }
  if (options.algorithm == "ppo")
    made.ppo = ValueOptions{options.gamma, options.lambda, options.value_rate};
  made.scale_advantages = options.advantages == "scaled";
  made.loss.clip_low = options.clip_low;
  made.loss.clip_high = options.clip_high;
  made.loss.dual_clip = options.dual_clip;
  made.loss.kl = options.kl;
  KCC_TRY(made.loss.mean, ParseLossMean(options.loss_mean));
  made.problems = options.problems;
  made.group = options.group;
  made.stale = options.stale;
  made.score_all = options.score_all;
  made.reference_every = options.reference_every;
  made.adamw.decay = options.decay;
  KCC_TRY(const ScheduleKind kind, ParseScheduleKind(options.schedule));
  made.schedule = {kind, options.rate, options.floor, options.warmup, options.steps};
  made.clip = options.clip;
  made.pack_tokens = static_cast<size_t>(options.pack_tokens);
  made.seed = options.seed;
  made.held_out = {options.eval_every, options.eval_problems, options.eval_answers == "greedy"};
  made.obey = options.orders == "follow";
  return made;
}

struct RlRun {
  RlRunPlan plan;
  RlRunResult run;
};

Result<RlRun> RunPlanned(const LabRlOptions& options, std::optional<Contract> contract,
                         Console& console) {
  RlRun made;
  made.plan.folder = options.output;
  made.plan.resume = options.resume;
  made.plan.save_every = options.save_every;
  made.plan.dtype = options.dtype == "bf16" ? DType::kBF16 : DType::kF32;
  made.plan.keep_steps = options.keep_steps;
  made.plan.contract = std::move(contract);
  KCC_TRY(made.plan.options, RecipeOf(options, console));
  made.plan.threads = made.plan.options.train.threads;
  KCC_TRY(const RlTask task, RlTask::Make(options.task));
  std::string model = options.model;
  if (model.empty()) {
    KCC_TRY(model, ShippedModelOf(console)());
  }
  KCC_TRY(const TrainStart start, StartFromCheckpoint(model));
  const Interruptible interruptible(console);
  const SystemClock clock;
  Progress progress(console, clock, "steps");
  RlRunHooks hooks;
  hooks.step = [&](const RlStepReport& report) { progress.Show(report.step, options.steps, 0); };
  hooks.stop = [&] { return interruptible.stop_asked(); };
  KCC_TRY(made.run, RunRl(start, task, made.plan, hooks));
  return made;
}

void PrintRlRun(const RlRun& made, Console& console) {
  const RlRunResult& run = made.run;
  const std::string folder = Shown(made.plan.folder);
  const int64_t steps = made.plan.options.schedule.steps;
  if (run.step == run.resumed_from) {
    console.out << "the run was at its end, step " << run.step << '\n';
  } else {
    console.out << "steps " << run.resumed_from + 1 << " to " << run.step << " of " << steps
                << ": reward " << ReadableNumber(run.first_reward) << " to "
                << ReadableNumber(run.last_reward) << '\n';
  }
  for (const auto& report : {run.first, run.last}) {
    if (!report) continue;
    console.out << "held out, after step " << report->step << ": "
                << ReadableNumber(report->reward_train) << " trained kernel, "
                << ReadableNumber(report->reward_infer) << " answering kernel\n";
    if (run.first->step == run.last->step) break;
  }
  if (run.withheld > 0) {
    console.out << Counted(static_cast<size_t>(run.withheld), "update")
                << " withheld by the contract\n";
  }
  if (run.stopped_by) {
    console.out << Paint(Style::kRed, "stopped by the contract", console.colour_out) << " ("
                << Name(*run.stopped_by->order) << "): " << Shown(run.stopped_by->violated)
                << "; the same command with --resume goes on after this step\n";
  } else if (run.stopped) {
    console.out << "stopped early; the same command with --resume goes on\n";
  } else {
    console.out << "checkpoint in " << folder << ": kcc run … --infer 'lab:f32?model=" << folder
                << "'\n";
  }
}

void WriteHeldOut(std::string_view key, const std::optional<HeldOutReport>& report,
                  JsonWriter* json) {
  json->Key(key);
  if (!report) {
    json->Null();
    return;
  }
  json->BeginObject().Field("step", report->step).Field("problems", report->problems);
  json->Field("rewardTrain", report->reward_train);
  json->Field("rewardInfer", report->reward_infer).EndObject();
}

void PrintRlRunJson(const RlRun& made, Console& console) {
  const RlRunResult& run = made.run;
  JsonWriter json;
  json.BeginObject().Field("kccLabRl", 1).Field("folder", made.plan.folder);
  json.Field("steps", made.plan.options.schedule.steps).Field("resumedFrom", run.resumed_from);
  json.Field("step", run.step).Field("updates", run.updates).Field("stopped", run.stopped);
  json.Key("stoppedBy");
  if (run.stopped_by) {
    json.BeginObject().Field("action", Name(*run.stopped_by->order));
    json.Field("violated", run.stopped_by->violated).EndObject();
  } else {
    json.Null();
  }
  json.Field("withheld", run.withheld);
  json.Key("reward");
  if (run.step == run.resumed_from) {
    json.Null();
  } else {
    json.BeginObject().Field("first", run.first_reward).Field("last", run.last_reward).EndObject();
  }
  json.Key("heldOut").BeginObject();
  WriteHeldOut("first", run.first, &json);
  WriteHeldOut("last", run.last, &json);
  json.EndObject().Key("modelDigest");
  if (run.stopped) {
    json.Null();
  } else {
    json.Value(run.digest);
  }
  console.out << json.EndObject().Take();
}

}  // namespace

int RunLabRl(const LabRlOptions& options, Console& console) {
  std::optional<Contract> contract;
  if (!options.contract.empty()) {
    int exit_code = kExitOk;
    auto valid = RequireContract(options.contract, console, &exit_code);
    if (!valid) return exit_code;
    contract = std::move(valid->contract);
  }
  const Result<RlRun> made = RunPlanned(options, std::move(contract), console);
  if (!made.has_value()) return ReportError(made.error(), console);
  if (console.json) {
    PrintRlRunJson(*made, console);
  } else {
    PrintRlRun(*made, console);
  }
  return made->run.stopped_by ? kExitViolated : kExitOk;
}

}  // namespace kcc::cli
