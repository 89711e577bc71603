// kcc lab rl, and what is made of its runs: flags, by what they decide.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {
namespace {

CLI::Option* CountOption(CLI::App* app, const char* name, int64_t& target, int64_t least,
                         const char* help) {
  return app->add_option(name, target, help)
      ->type_name("N")
      ->check(Between(static_cast<double>(least), 1e9));
}

CLI::Option* RealOption(CLI::App* app, const char* name, double& target, const Check& check,
                        const char* help) {
  return app->add_option(name, target, help)->type_name("R")->check(check);
}

void DeclareRlKernels(CLI::App* app, LabRlOptions& options) {
  const auto kernel = [&](const char* name, std::string& target, const char* help) {
    app->add_option(name, target, help)->type_name("KERNEL");
  };
  kernel("--train", options.train, "The kernel that is trained (lab:f32)");
  kernel("--infer", options.infer, "The kernel that answers (lab:f32)");
  kernel("--recompute", options.recompute,
         "The kernel that computes the old log-probs; default: the one that is trained");
  AddSwitch(app, "--bypass", options.bypass,
            "Take the log-probs of the rollout as the old ones instead");
  CountOption(app, "--stale", options.stale, 0,
              "Answer with weights that are N updates behind (0)");
  DeclareCorrectionFlags(app, options.correction,
                         "A correction of old / rollout (docs/rl.md); default: none");
}

void DeclareRlRecipe(CLI::App* app, LabRlOptions& options) {
  CountOption(app, "--steps", options.steps, 1, "Steps of the run (300)");
  CountOption(app, "--problems", options.problems, 1, "Problems of a step (8)");
  CountOption(app, "--group", options.group, 1, "Answers to each (8)");
  AddChoice(app, "--algorithm", options.algorithm, {"grpo", "ppo"},
            "Advantages from the group, or from a value head");
  AddChoice(app, "--advantages", options.advantages, {"scaled", "centred"},
            "GRPO: divide by the standard deviation of the group, or not");
  RealOption(app, "--gamma", options.gamma, Between(0.0, 1.0), "PPO: discount of a token (1)");
  RealOption(app, "--lambda", options.lambda, Between(0.0, 1.0),
             "PPO: how far advantages look ahead (0.95)");
  RealOption(app, "--value-rate", options.value_rate, AboveZero(),
             "PPO: learning rate of the value head (0.001)");
  RealOption(app, "--clip-low", options.clip_low, Between(0.0, 1.0),
             "Ratios below 1 - R get no gradient that pushes them down further (0.2)");
  RealOption(app, "--clip-high", options.clip_high, AtLeastZero(),
             "Ratios above 1 + R get none that pushes them up further (0.2)");
  RealOption(app, "--dual-clip", options.dual_clip, AtLeastZero(),
             "Where the advantage is negative, ratios above R get no gradient either; 0: no such "
             "bound (0)");
  RealOption(app, "--kl", options.kl, AtLeastZero(),
             "Weight of the KL to the first weights in the loss (0)");
  AddChoice(app, "--loss-mean", options.loss_mean, {"tokens", "kept", "sequences"},
            "What the loss is the mean over: sampled tokens, those that rejection leaves, or "
            "answers");
}

void DeclareRlOptimizer(CLI::App* app, LabRlOptions& options) {
  RealOption(app, "--rate", options.rate, AboveZero(), "The highest learning rate (0.0001)");
  AddChoice(app, "--schedule", options.schedule, {"constant", "linear", "cosine"},
            "How the rate falls after the warmup");
  RealOption(app, "--floor", options.floor, Between(0.0, 1.0),
             "Where it falls to, as a share of the highest (0.02)");
  CountOption(app, "--warmup", options.warmup, 0, "Steps in which the rate rises (0)");
  RealOption(app, "--decay", options.decay, AtLeastZero(), "Weight decay of the matrices (0)");
  RealOption(app, "--clip", options.clip, AtLeastZero(), "Longest gradient (1); 0: no limit");
  CountOption(app, "--pack-tokens", options.pack_tokens, 1,
              "Tokens that are computed at once, which memory grows with (4096)");
  app->add_option("--seed", options.seed, "Seed of the problems' order and of the answers (1)")
      ->type_name("N");
}

void DeclareRlMeasurements(CLI::App* app, LabRlOptions& options) {
  app->add_option("--contract", options.contract, "A contract whose clauses are judged each step")
      ->type_name(std::string(kFileValue));
  AddChoice(app, "--orders", options.orders, {"follow", "log"},
            "What a violated clause orders: guard withholds the update, freeze and worse end the "
            "run; or only write it down");
  CountOption(app, "--eval-every", options.eval_every, 0,
              "Steps between two measurements on held-out problems (25); 0: none");
  CountOption(app, "--eval-problems", options.eval_problems, 1, "Held-out problems, at most (128)");
  AddChoice(app, "--eval-answers", options.eval_answers, {"greedy", "sampled"},
            "How they are answered");
  CountOption(app, "--reference-every", options.reference_every, 0,
              "Steps between two measurements of the KL to the first weights (1); 0: none");
  AddSwitch(app, "--score-all", options.score_all,
            "Measure answers without advantage too, which GRPO learns nothing from");
  AddSwitch(app, "--keep-steps", options.keep_steps,
            "Keep the arrays of each step, for kcc rl diagnose, judge and replay");
}

void DeclareLabCurves(Program& program, CLI::App* group) {
  auto& options = program.lab_curves;
  CLI::App* app = Declare(
      program, "curves", "Draw runs of kcc lab rl side by side on one page",
      "kcc lab curves exact int4 int4-truncated -o arms.html",
      [&options](Console& console) { return RunLabCurves(options, console); }, group);
  Argument(app, "RUN", options.runs, "DIR", "Folders of runs, finished or not")
      ->required()
      ->expected(1, 64);
  app->add_option("-o,--output", options.output, "The page")
      ->type_name(std::string(kFileValue))
      ->required();
}

void DeclareLabE3(Program& program, CLI::App* group) {
  auto& options = program.lab_e3;
  CLI::App* app = Declare(
      program, "e3", "Reward by kernel, correction and seed: experiment E3",
      "kcc lab e3 --list --full\n"
      "kcc lab e3 -o out\n"
      "kcc lab e3 -o out --full --cells 'exact,int4*' --jobs 4 --threads 1",
      [&options](Console& console) { return RunLabE3(options, console); }, group);
  app->add_option("-o,--output", options.output,
                  "Directory of the runs, the page, the table and the figures")
      ->type_name("DIR");
  AddSwitch(app, "--list", options.list, "Print the cells and what they cost, and run nothing");
  AddSwitch(app, "--full", options.full,
            "Every cell, 985 steps and 3 seeds; default: four cells, 60 steps and one seed");
  app->add_option("--cells", options.cells,
                  "Cells by name, with * for any text, as in 'exact,int4-*'")
      ->type_name("NAMES");
  CountOption(app, "--steps", options.steps, 1, "Steps of a run");
  CountOption(app, "--seeds", options.seeds, 1, "Runs of a cell; seeds are 10, 11 …");
  CountOption(app, "--eval-problems", options.held_out_problems, 1,
              "Held-out problems, at most (128)");
  app->add_option("--task", options.task, "products, json, or a requests file")->type_name("TASK");
  app->add_option("--model", options.model, "The checkpoint; default: the shipped model")
      ->type_name("DIR");
  app->add_option("--contract", options.contract,
                  "Clauses to judge each step; default: the shipped rl-post-training.yaml")
      ->type_name(std::string(kFileValue));
  app->add_option("--jobs", options.jobs, "Runs at once (1)")
      ->type_name("N")
      ->check(Between(1, 256));
  app->add_option("--threads", options.threads, "Threads of a run (2)")
      ->type_name("N")
      ->check(Between(1, 64));
}

}  // namespace

void DeclareLabRl(Program& program, CLI::App* group) {
  auto& options = program.lab_rl;
  CLI::App* app = Declare(
      program, "rl", "Train a policy on verifiable tasks, with rollouts of any kernel",
      "kcc lab rl products -o run --infer 'lab:int4?batch=invariant' --steps 300\n"
      "kcc lab rl products -o run --infer lab:fp8 --dialect verl "
      "--options '{\"rollout_is\": \"token\"}'\n"
      "kcc lab rl json -o run --algorithm ppo --contract contracts/rl-post-training.yaml",
      [&options](Console& console) { return RunLabRl(options, console); }, group);
  Argument(app, "TASK", options.task, "TASK",
           "products, json, or a requests file whose outputs are the answers")
      ->required();
  app->add_option("-o,--output", options.output,
                  "Folder of the run, and of the checkpoint it makes")
      ->type_name("DIR")
      ->required();
  app->add_option("--model", options.model,
                  "The checkpoint to start from; default: the shipped model")
      ->type_name("DIR");
  AddSwitch(app, "--resume", options.resume, "Go on with the run in the folder");
  DeclareRlKernels(app, options);
  DeclareRlRecipe(app, options);
  DeclareRlOptimizer(app, options);
  DeclareRlMeasurements(app, options);
  CountOption(app, "--save-every", options.save_every, 1, "Steps between two saved states (25)");
  AddChoice(app, "--dtype", options.dtype, {"f32", "bf16"}, "Format of the checkpoint's weights");
  app->add_option("--threads", options.threads,
                  "Number of threads; default: the trained kernel's, 2")
      ->type_name("N")
      ->check(Between(1, 64));
  DeclareLabCurves(program, group);
  DeclareLabE3(program, group);
}

}  // namespace kcc::cli
