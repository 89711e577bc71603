#include "kcc/rltrain/rl_run.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "kcc/base/file.h"
#include "kcc/contract/canonical.h"
#include "kcc/lab/checkpoint_writer.h"
#include "kcc/rltrain/curves.h"
#include "kcc/rltrain/rl_log.h"
#include "kcc/rltrain/rl_state.h"
#include "kcc/rltrain/step_arrays.h"
#include "kcc/train/run_folder.h"

namespace kcc {
namespace {

// Whether held-out problems are answered after so many steps.
bool IsHeldOutStep(const RlTrainOptions& options, int64_t step) {
  const int64_t every = options.held_out.every;
  return every > 0 && (step % every == 0 || step == options.schedule.steps);
}

int64_t HeldOutLines(const RlTrainOptions& options, int64_t step) {
  int64_t lines = 0;
  for (int64_t s = 0; s <= step; ++s) lines += IsHeldOutStep(options, s);
  return lines;
}

std::string StepFile(const std::string& folder, int64_t step) {
  const std::string digits = std::to_string(step);
  return folder + "/steps/" + std::string(8 - std::min<size_t>(8, digits.size()), '0') + digits +
         ".safetensors";
}

// A run while it goes on.
class RunUnderWay {
 public:
  static Result<RunUnderWay> Open(const TrainStart& start, const RlTask& task,
                                  const RlRunPlan& plan, RlTrainer& trainer) {
    const ModelConfig& config = start.checkpoint.config;
    const std::string state_path = StatePath(plan.folder);
    RunSettings settings = SettingsOf(plan.options, task, start.checkpoint.digest,
                                      plan.contract ? ContractDigest(*plan.contract) : "");
    KCC_TRY_VOID(PrepareRunFolder(plan.folder, plan.resume));
    const bool first = !plan.resume;
    if (first) {
      KCC_TRY_VOID(WriteRlState(state_path, config, settings, trainer.state()));
    } else {
      RlState state = StartState(config, start.checkpoint, plan.options);
      KCC_TRY_VOID(ReadRlState(state_path, config, settings, &state));
      trainer.Resume(std::move(state));
    }
    const int64_t step = trainer.state().step;
    KCC_TRY(TrainingLog log, TrainingLog::Open(plan.folder + "/log.jsonl", step));
    // Before the first step nothing says that the first line was written.
    const int64_t lines = step == 0 ? 0 : HeldOutLines(plan.options, step);
    KCC_TRY(TrainingLog held_out, TrainingLog::Open(plan.folder + "/held-out.jsonl", lines));
    return RunUnderWay(plan, config, std::move(settings), trainer, std::move(log),
                       std::move(held_out));
  }

  Result<> AnswerHeldOut(RlRunResult* result) {
    if (!IsHeldOutStep(plan_.options, trainer_.state().step)) return {};
    KCC_TRY(const HeldOutReport report, trainer_.HeldOut());
    if (!result->first) result->first = report;
    result->last = report;
    return held_out_.Append(HeldOutLine(report, plan_.options.held_out.greedy));
  }

  Result<RlStepReport> Step() {
    KCC_TRY(RlStepReport report, trainer_.Step());
    KCC_TRY_VOID(log_.Append(StepLine(report)));
    if (!plan_.keep_steps || report.tokens_scored == 0) return report;
    std::error_code failed;
    std::filesystem::create_directories(plan_.folder + "/steps", failed);
    KCC_TRY_VOID(WriteFileAtomically(StepFile(plan_.folder, report.step), DumpBytes(report.dump)));
    return report;
  }

  Result<> Save() {
    KCC_TRY_VOID(log_.Sync());
    KCC_TRY_VOID(held_out_.Sync());
    return WriteRlState(StatePath(plan_.folder), config_, settings_, trainer_.state());
  }

 private:
  RunUnderWay(const RlRunPlan& plan, const ModelConfig& config, RunSettings settings,
              RlTrainer& trainer, TrainingLog log, TrainingLog held_out)
      : plan_(plan),
        config_(config),
        settings_(std::move(settings)),
        trainer_(trainer),
        log_(std::move(log)),
        held_out_(std::move(held_out)) {}

  const RlRunPlan& plan_;
  const ModelConfig& config_;
  RunSettings settings_;
  RlTrainer& trainer_;
  TrainingLog log_, held_out_;
};

// Of all steps so far, those before an interruption included.
Result<> WritePage(const std::string& folder, const RlTask& task, const RlTrainOptions& options) {
  const std::string what = std::string(options.ppo ? "PPO" : "GRPO") + " on " + task.name();
  KCC_TRY(const RunCurves run, ReadRunCurves(folder, what));
  const std::string corrected = DescribeCorrection(options.correction);
  const std::string lead =
      std::string(options.old_policy == OldPolicy::kBypass ? "Old log-probs of the rollout"
                                                           : "Old log-probs recomputed") +
      ", correction: " + corrected + ". " + std::to_string(options.problems) + " problems of " +
      std::to_string(options.group) + " answers a step.";
  return WriteFileAtomically(folder + "/curves.html", CurvesPage({&run, 1}, what, lead));
}

void Count(const RlStepReport& report, bool obey, RlRunResult* result) {
  if (report.step == result->resumed_from + 1) result->first_reward = report.reward;
  result->last_reward = report.reward;
  if (!obey || !report.judgement) return;
  result->withheld += report.judgement->withholds();
  if (report.judgement->stops()) result->stopped_by = report.judgement;
}

}  // namespace

Result<RlRunResult> RunRl(const TrainStart& start, const RlTask& task, const RlRunPlan& plan,
                          const RlRunHooks& hooks) {
  const RlTrainOptions& options = plan.options;
  ForkJoin pool(plan.threads);
  KCC_TRY(const auto trainer,
          RlTrainer::Make(start.checkpoint, options, task, plan.contract, pool));
  KCC_TRY(RunUnderWay run, RunUnderWay::Open(start, task, plan, *trainer));
  RlRunResult result;
  result.resumed_from = trainer->state().step;
  if (result.resumed_from == 0) KCC_TRY_VOID(run.AnswerHeldOut(&result));
  const int64_t steps = options.schedule.steps;
  while (trainer->state().step < steps && !result.stopped) {
    KCC_TRY(const RlStepReport report, run.Step());
    KCC_TRY_VOID(run.AnswerHeldOut(&result));
    Count(report, options.obey, &result);
    if (hooks.step) hooks.step(report);
    result.stopped = result.stopped_by || (report.step < steps && hooks.stop && hooks.stop());
    if (report.step % plan.save_every == 0 || report.step == steps || result.stopped)
      KCC_TRY_VOID(run.Save());
  }
  result.step = trainer->state().step;
  result.updates = trainer->state().updates;
  KCC_TRY_VOID(WritePage(plan.folder, task, options));
  if (result.stopped) return result;
  KCC_TRY_VOID(WriteCheckpoint(plan.folder, start.config_json, start.checkpoint.config,
                               trainer->state().weights, plan.dtype, start.companions));
  // Read as every kernel will read it.
  KCC_TRY(const Checkpoint written, ReadCheckpoint(plan.folder));
  result.digest = written.digest;
  return result;
}

}  // namespace kcc
