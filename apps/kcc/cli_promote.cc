// The commands about promotions.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {
namespace {

using RunPromote = int (*)(const PromoteOptions&, Console&);

struct PromoteCommand {
  const char* name;
  const char* help;
  const char* example;
  RunPromote run;
};

constexpr PromoteCommand kOfOne[] = {
    {"advance", "Take the evaluations recorded since the last time, and the time",
     "kcc promote advance fp8-1 --register r.db\n"
     "kcc promote advance fp8-1 --watch --until 2026-11-20 --register r.db",
     RunPromoteAdvance},
    {"approve", "Agree to the next stage",
     "kcc promote approve fp8-1 --role release-manager --register r.db", RunPromoteApprove},
    {"answer", "Say what a hook answered, where kcc did not call it",
     "kcc promote answer fp8-1 --hook change-window --yes --register r.db", RunPromoteAnswer},
    {"freeze", "Stop it where it is", "kcc promote freeze fp8-1 --why 'holidays' --register r.db",
     RunPromoteFreeze},
    {"unfreeze", "Let it go on", "kcc promote unfreeze fp8-1 --register r.db", RunPromoteUnfreeze},
    {"abort", "End it; what served before serves again",
     "kcc promote abort fp8-1 --why 'wrong build' --register r.db", RunPromoteAbort},
    {"history", "Print every change, with who and why", "kcc promote history fp8-1 --register r.db",
     RunPromoteHistory},
};

void DeclareWatch(CLI::App* app, PromoteOptions& options) {
  AddSwitch(app, "--watch", options.watch,
            "Look again whenever something was recorded, until it is over");
  app->add_option("--interval", options.interval_s, "Seconds between two looks; default: 10")
      ->type_name("SECONDS")
      ->check(Between(0.1, 86400));
  app->add_option("--until", options.until, "Stop watching then")->type_name("TIME");
}

void DeclareStart(Program& program, CLI::App* group) {
  auto& options = program.promote;
  CLI::App* app = Declare(
      program, "start", "Propose a triple for promotion",
      "kcc promote start fp8-1 --lane chat --policy policies/promotion.yaml --candidate sha256:… "
      "--register r.db",
      [&](Console& console) { return RunPromoteStart(options, console); }, group);
  Argument(app, "PROMOTION", options.id, "NAME", "Its name; default: the lane and the time");
  DeclareRegisterFlags(app, options.flags, true);
  DeclareSigningFlags(app, options.signing);
  app->add_option("--lane", options.lane, "What it is to serve; promotions of a lane take turns")
      ->type_name("NAME")
      ->required();
  app->add_option("--policy", options.policy, "The promotion policy")
      ->type_name(std::string(kFileValue))
      ->required();
  app->add_option("--candidate", options.candidate, "The triple, or a beginning of its digest")
      ->type_name("ID")
      ->required();
  app->add_option("--incumbent", options.incumbent, "The triple that serves, if this is the first")
      ->type_name("ID");
  app->add_option("--routing", options.routing, "Which routing, where that changes")
      ->type_name("TEXT");
  app->add_option("--hardware", options.hardware, "Which hardware, where that changes")
      ->type_name("TEXT");
}

}  // namespace

void DeclarePromote(Program& program) {
  auto& options = program.promote;
  CLI::App* group = program.root.add_subcommand(
      "promote", "Bring a change to traffic, stage by stage, on evidence");
  group->footer(
      "kcc promote explain policies/promotion.yaml contract.yaml\n"
      "kcc promote status --register r.db");
  group->require_subcommand(1);
  auto& explain = program.promote_explain;
  CLI::App* explaining = Declare(
      program, "explain", "Say what each stage of a policy asks of a contract, and cannot decide",
      "kcc promote explain policies/promotion.yaml contract.yaml",
      [&explain](Console& console) { return RunPromoteExplain(explain, console); }, group);
  Argument(explaining, "POLICY", explain.policy, kFileValue, "The promotion policy")->required();
  Argument(explaining, "CONTRACT", explain.contract, kFileValue, "The contract")->required();
  DeclareStart(program, group);
  CLI::App* status = Declare(
      program, "status", "Say where promotions are and what they wait for",
      "kcc promote status --register r.db\nkcc promote status fp8-1 --register r.db",
      [&](Console& console) { return RunPromoteStatus(options, console); }, group);
  Argument(status, "PROMOTION", options.id, "NAME", "Only this one");
  DeclareRegisterFlags(status, options.flags, true);
  for (const PromoteCommand& command : kOfOne) {
    CLI::App* app = Declare(
        program, command.name, command.help, command.example,
        [&options, run = command.run](Console& console) { return run(options, console); }, group);
    Argument(app, "PROMOTION", options.id, "NAME", "Its name")->required();
    DeclareRegisterFlags(app, options.flags, true);
    const std::string_view name = command.name;
    if (name == "history") continue;
    DeclareSigningFlags(app, options.signing);
    if (name == "approve" || name == "advance") {
      app->add_option("--keyring", options.keyring, "Whose signatures of approvals count")
          ->type_name(std::string(kFileValue));
    }
    if (name == "advance") {
      DeclareWatch(app, options);
      continue;
    }
    app->add_option("--why", options.why, "The reason, for the log")->type_name("TEXT");
    if (name == "approve") {
      app->add_option("--role", options.role, "In which role")->type_name("NAME");
    }
    if (name != "answer") continue;
    app->add_option("--hook", options.hook, "The hook's name in the policy")
        ->type_name("NAME")
        ->required();
    AddSwitch(app, "--yes", options.yes, "It said yes");
    AddSwitch(app, "--no", options.no, "It said no");
  }
}

}  // namespace kcc::cli
