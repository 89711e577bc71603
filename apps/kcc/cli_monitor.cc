// The commands about the monitor.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {
namespace {

void DeclarePolicy(CLI::App* app, std::string& policy) {
  app->add_option("--policy", policy, "The monitor policy")
      ->type_name(std::string(kFileValue))
      ->required();
}

void DeclareMonitorRun(Program& program, CLI::App* group) {
  auto& options = program.monitor_run;
  CLI::App* app = Declare(
      program, "run", "Judge observations as they come; print what changes, and where it ends",
      "kcc monitor run contract.yaml --policy policy.yaml < observations.jsonl\n"
      "tail -F observations.jsonl | kcc monitor run contract.yaml --policy policy.yaml --log "
      "d.jsonl "
      "--state d.state",
      [&](Console& console) { return RunMonitorRun(options, console); }, group);
  Argument(app, "CONTRACT", options.contract, kFileValue, "The contract")->required();
  Argument(app, "OBSERVATIONS", options.observations, kFileValue,
           "JSON lines; default: standard input");
  DeclarePolicy(app, options.policy);
  app->add_option("--log", options.log, "Append every decision here; go on where the log ends")
      ->type_name(std::string(kFileValue));
  app->add_option("--state", options.state, "Keep the state here; go on from it")
      ->type_name(std::string(kFileValue));
  app->add_option("--sync", options.sync_every,
                  "Observations after which the log is synced; changes are at once; default: 1000")
      ->type_name("N")
      ->check(Between(1, 1e9));
  app->add_option("--save", options.save_every,
                  "Observations after which the state is saved; default: 100000")
      ->type_name("N")
      ->check(Between(1, 1e9));
  AddSwitch(app, "--skip-folded", options.skip_folded,
            "The input begins at its start again: skip what log or state have folded");
  AddSwitch(app, "--strict", options.strict,
            "End the run at a line that cannot be read; default: count it and go on");
  AddChoice(app, "--stage", options.stage, {"offline", "shadow", "canary", "full"},
            "Judge the clauses of this stage; default: full");
}

void DeclareMonitorReplay(Program& program, CLI::App* group) {
  auto& options = program.monitor_replay;
  CLI::App* app = Declare(
      program, "replay", "Decide a log again and compare every byte",
      "kcc monitor replay d.jsonl --contract contract.yaml --policy policy.yaml",
      [&](Console& console) { return RunMonitorReplay(options, console); }, group);
  Argument(app, "LOG", options.logs, kFileValue,
           "What kcc monitor run --log or a gateway wrote; of a log of several files, all in their "
           "order")
      ->required();
  app->add_option("-c,--contract", options.contract, "The contract")
      ->type_name(std::string(kFileValue))
      ->required();
  DeclarePolicy(app, options.policy);
  app->add_option("--head", options.head, "What the log must end with, as kcc monitor run said it")
      ->type_name("DIGEST");
}

void DeclareMonitorExplain(Program& program, CLI::App* group) {
  auto& options = program.monitor_explain;
  CLI::App* app = Declare(
      program, "explain", "Say what the gate will do, how soon, and what it costs",
      "kcc monitor explain contract.yaml --policy policy.yaml",
      [&](Console& console) { return RunMonitorExplain(options, console); }, group);
  Argument(app, "CONTRACT", options.contract, kFileValue, "The contract")->required();
  DeclarePolicy(app, options.policy);
  app->add_option("--audited-rate", options.audited_rate,
                  "Share of requests that are audited; default: the policy's")
      ->type_name("X")
      ->check(Between(0, 1));
  AddChoice(app, "--stage", options.stage, {"offline", "shadow", "canary", "full"},
            "The clauses of this stage; default: full");
}

void DeclareMonitorSimulate(Program& program, CLI::App* group) {
  auto& options = program.monitor_simulate;
  CLI::App* app = Declare(
      program, "simulate", "Draw how soon a clause's detector sees shifts, and its false alarms",
      "kcc monitor simulate contract.yaml --policy policy.yaml --clause N-1 -o curves",
      [&](Console& console) { return RunMonitorSimulate(options, console); }, group);
  Argument(app, "CONTRACT", options.contract, kFileValue, "The contract")->required();
  DeclarePolicy(app, options.policy);
  app->add_option("--clause", options.clause, "Whose detector")->type_name("ID")->required();
  app->add_option("--runs", options.runs, "Simulated streams for each shift; default: 400")
      ->type_name("N")
      ->check(Between(1, 1e6));
  app->add_option("--observations", options.observations_max, "Longest stream; default: 50000")
      ->type_name("N")
      ->check(Between(1, 1e9));
  app->add_option("--seed", options.seed, "Of the streams; default: 1")->type_name("N");
  app->add_option("-o,--output", options.output, "Directory for operating.html and operating.json")
      ->type_name("DIR")
      ->required();
  AddChoice(app, "--stage", options.stage, {"offline", "shadow", "canary", "full"},
            "The clauses of this stage; default: full");
}

}  // namespace

void DeclareMonitor(Program& program) {
  CLI::App* group =
      program.root.add_subcommand("monitor", "Judge a kernel while it serves, line by line");
  group->footer("kcc monitor run contract.yaml --policy policy.yaml < observations.jsonl");
  group->require_subcommand(1);
  DeclareMonitorRun(program, group);
  DeclareMonitorReplay(program, group);
  DeclareMonitorExplain(program, group);
  DeclareMonitorSimulate(program, group);
}

}  // namespace kcc::cli
