// The commands of `kcc rl`.
#include "apps/kcc/cli_program.h"
#include "kcc/rl/dialect.h"

namespace kcc::cli {
namespace {

std::vector<std::string> DialectIds() {
  std::vector<std::string> ids;
  for (const DialectInfo& info : Dialects()) ids.emplace_back(info.id);
  return ids;
}

void DeclareRlDialect(CLI::App* app, RlOptions& options) {
  app->add_option("--function", options.function, "The framework's function; its first without")
      ->type_name("NAME");
  app->add_option("--options", options.options, "The framework's own options, a JSON object")
      ->type_name("JSON");
}

}  // namespace

void DeclareRl(Program& program) {
  auto& options = program.rl;
  CLI::App* group = program.root.add_subcommand(
      "rl", "RL steps: trainer against rollout engine, from sampled log-probs");
  group->footer("kcc rl diagnose step.npz\nkcc rl replay step.npz -o replay.html");
  group->require_subcommand(1);
  const auto declare = [&](const char* name, const char* help, const char* example,
                           int (*run)(const RlOptions&, Console&)) {
    return Declare(
        program, name, help, example,
        [&options, run](Console& console) { return run(options, console); }, group);
  };
  const auto add_dump = [&](CLI::App* app) {
    Argument(
        app, "DUMP", options.inputs, kFileValue,
        ".npz, .npy, .safetensors, .pt or .jsonl with train and rollout log-probs, a directory "
        "of prime-rl token exports, or two traces")
        ->required();
    app->add_option("--slice-by", options.slice_by, "A request field that slices traces")
        ->type_name("FIELD");
    app->add_option("--threads", options.threads, "Threads; results do not depend on them")
        ->type_name("N")
        ->check(CLI::Range(1, 1024));
  };
  const auto add_output = [&](CLI::App* app, const char* help) {
    app->add_option("-o,--output", options.output, help)->type_name(std::string(kFileValue));
  };

  CLI::App* app = declare("diagnose", "Metrics of the gap by level and slice; judge limits",
                          "kcc rl diagnose step.npz --limit 'token.mean_k3<=0.001'\n"
                          "kcc rl diagnose rank0.kccrl rank1.kccrl --json",
                          RunRlDiagnose);
  add_dump(app);
  app->add_option("--limit", options.limits, "METRIC<=NUMBER or METRIC>=NUMBER; repeatable")
      ->type_name("LIMIT");
  add_output(app, "Keep the exact summary (.kccrl), which merges with others");

  const auto add_correction = [&](CLI::App* to, const char* help) {
    to->add_option("--rule", options.rule, help)->type_name("JSON");
    AddChoice(to, "--dialect", options.dialect, DialectIds(), "Or a framework's options instead");
    DeclareRlDialect(to, options);
  };
  app = declare("lint", "Name the semantic fault behind a gap, with its evidence",
                "kcc rl lint step.npz\n"
                "kcc rl lint step.npz --rule '{\"weight\": {\"mode\": \"truncate\", \"high\": 2}}'",
                RunRlLint);
  add_dump(app);
  add_correction(app, "Also lint this correction, a JSON object (docs/rl.md)");

  app = declare("translate", "A framework's options in canonical words, with warnings",
                "kcc rl translate verl --options '{\"rollout_rs\": \"token_k1\", "
                "\"rollout_rs_threshold\": \"0.6_1.6\"}'",
                RunRlTranslate);
  AddChoice(app, "DIALECT", options.dialect, DialectIds(), "The framework")->required();
  DeclareRlDialect(app, options);

  app = declare("correct", "Weights and mask of a correction, and what it costs",
                "kcc rl correct step.npz --rule '{\"weight\": {\"mode\": \"truncate\", "
                "\"high\": 2}}' -o weights.safetensors",
                RunRlCorrect);
  add_dump(app);
  add_correction(app, "The correction, a JSON object (docs/rl.md)");
  add_output(app, "Write weights and mask as safetensors");

  app = declare("replay", "Every correction on one dump: kept, bias, variance, and which to take",
                "kcc rl replay step.npz -o replay.html", RunRlReplay);
  add_dump(app);
  add_output(app, "Write the page with the picture");
  app->add_option("--kept-min", options.kept_min, "Least share of a slice's tokens to keep")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  app->add_option("--ess-min", options.ess_min, "Least effective sample size")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  AddSwitch(app, "--token-advantages", options.token_advantages,
            "Advantages differ by token: judge the bias at fixed context");

  app = declare("conform", "Run golden files of the frameworks' own numbers through the dialects",
                "kcc rl conform tests/data/rl/verl.json", RunRlConform);
  Argument(app, "FILE", options.inputs, kFileValue, "Golden files, named by their dialect")
      ->required();
  AddSwitch(app, "--float64", options.float64, "Compare with upstream run in float64 too");
}

}  // namespace kcc::cli
