// The commands of `kcc rl`.
#include "apps/kcc/cli_program.h"
#include "kcc/rl/dialect.h"
#include "kcc/rl/dialect_settings.h"

namespace kcc::cli {
namespace {

std::vector<std::string> DialectIds() {
  std::vector<std::string> ids;
  for (const Dialect* dialect : Dialects()) ids.emplace_back(dialect->id);
  return ids;
}

void AddFunctionAndOptions(CLI::App* app, RlDialectFlags& flags) {
  app->add_option("--function", flags.function, "The framework's function; its first without")
      ->type_name("NAME");
  app->add_option("--options", flags.options, "The framework's own options, a JSON object")
      ->type_name("JSON");
}

}  // namespace

void DeclareCorrectionFlags(CLI::App* app, RlCorrectionFlags& flags, const char* help) {
  app->add_option("--rule", flags.rule, help)->type_name("JSON");
  AddChoice(app, "--dialect", flags.framework.dialect, DialectIds(),
            "Or a framework's options instead");
  AddFunctionAndOptions(app, flags.framework);
}

namespace {

// A command of the group whose work is done with its own options.
template <class Options>
CLI::App* DeclareIn(Program& program, CLI::App* group, const char* name, const char* help,
                    const char* example, int (*run)(const Options&, Console&),
                    const Options& options) {
  return Declare(
      program, name, help, example,
      [&options, run](Console& console) { return run(options, console); }, group);
}

void AddStep(CLI::App* app, RlStepFlags& flags) {
  Argument(app, "DUMP", flags.files, kFileValue,
           ".npz, .npy, .safetensors, .pt or .jsonl with train and rollout log-probs, verl's "
           "DataProto, a directory of prime-rl token exports, or two traces")
      ->required();
  app->add_option(
         "--map", flags.names,
         "The array THEIRS is OURS (train, rollout, mask, old, advantages, rewards, slice); "
         "repeatable")
      ->type_name("THEIRS=OURS")
      ->allow_extra_args(false);
  app->add_option("--slice-by", flags.slice_by, "A field of the requests or rows that slices them")
      ->type_name("FIELD");
  app->add_option("--threads", flags.threads, "Threads; results do not depend on them")
      ->type_name("N")
      ->check(Between(1, 1024));
}

void AddOutput(CLI::App* app, std::string& output, const char* help) {
  app->add_option("-o,--output", output, help)->type_name(std::string(kFileValue));
}

void DeclareJudge(Program& program, CLI::App* group) {
  RlJudgeOptions& options = program.rl.judge;
  CLI::App* app =
      DeclareIn(program, group, "judge",
                "Judge a dump under a contract: verdict, report and exit code of run",
                "kcc rl judge contracts/rl-post-training.yaml step.pt --report out\n"
                "kcc rl judge contract.yaml step.npz --map logp_new=train --map logp_vllm=rollout",
                RunRlJudge, options);
  Argument(app, "CONTRACT", options.contract, kFileValue, "The contract")->required();
  AddStep(app, options.step);
  app->add_option("--summary", options.summary, "Keep the summary here")
      ->type_name(std::string(kFileValue));
  app->add_option("--temperature", options.temperature,
                  "Of the distributions that the log-probs are of; default: 1")
      ->type_name("T")
      ->check(AboveZero());
  app->add_option(
         "--sampling-temperature", options.sampling_temperature,
         "At which the tokens were sampled, from the whole distribution; without it nothing is "
         "estimated from them")
      ->type_name("T")
      ->check(AtLeastZero());
  app->add_option("--train-fingerprint", options.train_fingerprint, "What trained, for the report")
      ->type_name("NAME");
  app->add_option("--infer-fingerprint", options.infer_fingerprint, "What sampled, for the report")
      ->type_name("NAME");
  DeclareJudgeFlags(app, options.flags);
}

void DeclareDiagnose(Program& program, CLI::App* group) {
  RlDiagnoseOptions& options = program.rl.diagnose;
  CLI::App* app =
      DeclareIn(program, group, "diagnose", "Metrics of the gap by level and slice; judge limits",
                "kcc rl diagnose step.npz --limit 'token.mean_k3<=0.001'\n"
                "kcc rl diagnose rank0.kccrl rank1.kccrl --json",
                RunRlDiagnose, options);
  AddStep(app, options.step);
  app->add_option("--limit", options.limits, "METRIC<=NUMBER or METRIC>=NUMBER; repeatable")
      ->type_name("LIMIT");
  AddOutput(app, options.output, "Keep the exact summary (.kccrl), which merges with others");
}

void DeclareLint(Program& program, CLI::App* group) {
  RlLintOptions& options = program.rl.lint;
  CLI::App* app =
      DeclareIn(program, group, "lint", "Name the semantic fault behind a gap, with its evidence",
                "kcc rl lint step.npz\n"
                "kcc rl lint step.npz --rule '{\"weight\": {\"mode\": \"truncate\", \"high\": 2}}'",
                RunRlLint, options);
  AddStep(app, options.step);
  DeclareCorrectionFlags(app, options.correction,
                         "Also lint this correction, a JSON object (docs/rl.md)");
  AddSwitch(app, "--bypass", options.bypass,
            "The loss takes the rollout's log-probs as old ones: say what such a gap did in E3");
}

void DeclareDialects(Program& program, CLI::App* group) {
  RlDialectsOptions& options = program.rl.dialects;
  CLI::App* app =
      DeclareIn(program, group, "dialects", "The frameworks whose functions and options are known",
                "kcc rl dialects", RunRlDialects, options);
  AddSwitch(app, "--markdown", options.markdown, "Print the tables of docs/rl-dialects.md");
}

void DeclareTranslate(Program& program, CLI::App* group) {
  RlDialectFlags& options = program.rl.translate;
  CLI::App* app = DeclareIn(program, group, "translate",
                            "A framework's options in canonical words, with warnings",
                            "kcc rl translate verl --options '{\"rollout_rs\": \"token_k1\", "
                            "\"rollout_rs_threshold\": \"0.6_1.6\"}'",
                            RunRlTranslate, options);
  AddChoice(app, "DIALECT", options.dialect, DialectIds(), "The framework")->required();
  AddFunctionAndOptions(app, options);
}

void DeclareCorrect(Program& program, CLI::App* group) {
  RlCorrectOptions& options = program.rl.correct;
  CLI::App* app =
      DeclareIn(program, group, "correct", "Weights and mask of a correction, and what it costs",
                "kcc rl correct step.npz --rule '{\"weight\": {\"mode\": \"truncate\", "
                "\"high\": 2}}' -o weights.safetensors",
                RunRlCorrect, options);
  AddStep(app, options.step);
  DeclareCorrectionFlags(app, options.correction, "The correction, a JSON object (docs/rl.md)");
  AddOutput(app, options.output, "Write weights and mask as safetensors");
}

void DeclareReplay(Program& program, CLI::App* group) {
  RlReplayCommandOptions& options = program.rl.replay;
  CLI::App* app = DeclareIn(program, group, "replay",
                            "Every correction on one dump: kept, bias, variance, and which to take",
                            "kcc rl replay step.npz -o replay.html\n"
                            "kcc rl replay step.npz --for verl",
                            RunRlReplay, options);
  AddStep(app, options.step);
  AddOutput(app, options.output, "Write the page with the picture");
  app->add_option("--kept-min", options.kept_min,
                  "Least share of a slice's tokens to keep; default: 0.9")
      ->type_name("SHARE")
      ->check(Between(0.0, 1.0));
  app->add_option("--ess-min", options.ess_min, "Least effective sample size")
      ->type_name("SHARE")
      ->check(Between(0.0, 1.0));
  AddSwitch(app, "--token-advantages", options.token_advantages,
            "Advantages differ by token: judge the bias at fixed context");
  app->add_option("--epsilon", options.epsilon, "PPO's clip range; default: 0.2")
      ->type_name("EPSILON")
      ->check(AboveZero());
  std::vector<std::string> frameworks;
  for (const std::string_view id : SettingsDialects()) frameworks.emplace_back(id);
  AddChoice(app, "--for", options.framework, frameworks,
            "Print the framework's settings for the recommendation");
}

void DeclareConform(Program& program, CLI::App* group) {
  RlConformOptions& options = program.rl.conform;
  CLI::App* app = DeclareIn(program, group, "conform",
                            "Run golden files of the frameworks' own numbers through the dialects",
                            "kcc rl conform tests/data/rl/verl.json", RunRlConform, options);
  Argument(app, "FILE", options.files, kFileValue, "Golden files, named by their dialect")
      ->required();
  AddSwitch(app, "--float64", options.float64, "Compare with upstream run in float64 too");
}

}  // namespace

void DeclareRl(Program& program) {
  CLI::App* group = program.root.add_subcommand(
      "rl", "RL steps: trainer against rollout engine, from sampled log-probs");
  group->footer(
      "kcc rl judge contracts/rl-post-training.yaml step.npz --report out\n"
      "kcc rl diagnose step.npz\nkcc rl replay step.npz -o replay.html");
  group->require_subcommand(1);
  DeclareJudge(program, group);
  DeclareDiagnose(program, group);
  DeclareLint(program, group);
  DeclareDialects(program, group);
  DeclareTranslate(program, group);
  DeclareCorrect(program, group);
  DeclareReplay(program, group);
  DeclareConform(program, group);
}

}  // namespace kcc::cli
