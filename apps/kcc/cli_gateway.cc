// kcc gateway and kcc status.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {
namespace {

constexpr const char* kGatewayValue = "GATEWAY";

void DeclareToken(CLI::App* app, GatewayAddressFlags& flags) {
  app->add_option("--token-file", flags.token_file,
                  "A file with the admin token; default: what the configuration names")
      ->type_name(std::string(kFileValue));
}

void DeclareGatewayWhy(Program& program, CLI::App* group) {
  auto& options = program.gateway_why;
  CLI::App* app = Declare(
      program, "why", "Say why a request was answered by whom, or what served when",
      "kcc gateway why 2026-11-18T08:30:00Z --admin gateway.yaml\n"
      "kcc gateway why REQUEST --admin http://127.0.0.1:8081",
      [&](Console& console) { return RunGatewayWhy(options, console); }, group);
  Argument(app, "WHAT", options.what, "WHAT",
           "A time (2026-11-18T08:30:00Z), or the x-request-id of an answer")
      ->required();
  app->add_option("--admin", options.gateway.where,
                  "The gateway: address of its admin port, or its configuration; default: "
                  "gateway.yaml")
      ->type_name(kGatewayValue);
  DeclareToken(app, options.gateway);
}

}  // namespace

void DeclareGateway(Program& program) {
  auto& options = program.gateway;
  CLI::App* app = program.root.add_subcommand(
      "gateway", "Serve through kernels that a contract judges while they serve");
  app->footer(
      "kcc gateway gateway.yaml\n"
      "kcc gateway gateway.yaml --check --reach\n"
      "kcc gateway why 2026-11-18T08:30:00Z --admin gateway.yaml");
  AddSwitch(app, "--json", program.console.json, "Print data instead of text");
  Argument(app, "FILE", options.file, kFileValue, "The configuration, a document of kind Gateway");
  AddSwitch(app, "--check", options.check, "Say what is wrong with it, and start nothing");
  AddSwitch(app, "--reach", options.reach, "With --check: ask the kernels too");
  // Before the group itself, which is parsed whenever its command is.
  DeclareGatewayWhy(program, app);
  program.commands.push_back(
      {app, [&](Console& console) { return RunGatewayCommand(options, console); }});
}

void DeclareStatus(Program& program) {
  auto& options = program.status;
  CLI::App* app = Declare(program, "status", "Say how the kernels behind a running gateway stand",
                          "kcc status gateway.yaml\n"
                          "kcc status http://127.0.0.1:8081 --token-file admin.token",
                          [&](Console& console) { return RunStatus(options, console); });
  Argument(app, "GATEWAY,--admin", options.gateway.where, kGatewayValue,
           "Address of its admin port, or its configuration; default: gateway.yaml");
  DeclareToken(app, options.gateway);
}

}  // namespace kcc::cli
