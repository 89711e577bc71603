// What the cli_*.cc files share: the program that the parser fills in, and how a command is
// declared. They are the only files that include CLI11 (a heavy header).
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/kcc/cli_checks.h"
#include "apps/kcc/command_spec.h"
#include "apps/kcc/commands.h"
#include "apps/kcc/commands_gateway.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/commands_monitor.h"
#include "apps/kcc/register_statement.h"
#include "kcc/base/check.h"

namespace kcc::cli {

struct Command {
  CLI::App* app;
  std::function<int(Console&)> run;
};

// Of the commands of kcc rl.
struct RlProgram {
  RlJudgeOptions judge;
  RlDiagnoseOptions diagnose;
  RlLintOptions lint;
  RlDialectsOptions dialects;
  RlDialectFlags translate;
  RlCorrectOptions correct;
  RlReplayCommandOptions replay;
  RlConformOptions conform;
};

// Owns what the parser writes into; lives as long as the parse.
struct Program {
  explicit Program(Console& io) : console(io) {}
  Console& console;
  CLI::App root{
      "Measure the gap between a training and a serving kernel, and judge it under a contract.",
      "kcc"};
  bool version = false;
  std::vector<Command> commands;
  CheckOptions check;
  FmtOptions fmt;
  DiffOptions diff;
  SchemaOptions schema;
  MetricsOptions metrics;
  ExplainOptions explain;
  MeasureCommandOptions measure;
  MergeOptions merge;
  JudgeCommandOptions judge;
  RunOptions run;
  ScoreOptions score;
  ScoreOptions generate;
  AttributeOptions attribute;
  ReplayCommandOptions replay;
  LabOptions lab;
  LabServeOptions lab_serve;
  LabTrainOptions lab_train;
  LabRlOptions lab_rl;
  LabCurvesOptions lab_curves;
  LabE3Options lab_e3;
  LabVerifyOptions lab_verify;
  ReportOptions report;
  CompareOptions compare;
  BoundOptions bound;
  CalibrateOptions calibrate;
  AuthorOptions author;
  TraceOptions trace;
  ImportCommandOptions import;
  RlProgram rl;
  RegisterOptions registers;
  RegisterAddOptions register_add;
  RequestsMakeOptions requests_make;
  StatementProgram statement;
  DoctorOptions doctor;
  PromoteExplainOptions promote_explain;
  PromoteOptions promote;
  MonitorRunOptions monitor_run;
  MonitorReplayOptions monitor_replay;
  MonitorExplainOptions monitor_explain;
  MonitorSimulateOptions monitor_simulate;
  GatewayCommandOptions gateway;
  GatewayWhyOptions gateway_why;
  StatusOptions status;
  CompletionOptions completion;
  CommandSpec spec;
};

// A flag without a value; `--json=false` is an error, not a second spelling.
inline CLI::Option* AddSwitch(CLI::App* app, const char* names, bool& target, const char* help) {
  return app->add_flag(names, target, help)->disable_flag_override();
}

// CLI11 copies the names of commands, and the words it compares with them, in a function that must
// not throw: a copy that needs memory would end the process where there is none. So it gets names
// that a string holds without memory, and RunProgram gives it the words to match.
inline constexpr size_t kNameBytesMax = 15;
inline constexpr std::array<std::string_view, 1> kLongNames = {"verify-attestation"};

// What CLI11 calls the command.
inline std::string_view ShortName(std::string_view name) { return name.substr(0, kNameBytesMax); }

// What everybody else calls it.
inline std::string CommandName(const CLI::App& app) {
  for (const std::string_view name : kLongNames) {
    if (app.get_name() == ShortName(name)) return std::string(name);
  }
  return app.get_name();
}

// A command, of the program itself or of a group of commands.
inline CLI::App* Declare(Program& program, const char* name, const char* help, const char* examples,
                         std::function<int(Console&)> run, CLI::App* group = nullptr) {
  KCC_CHECK(std::string_view(name).size() <= kNameBytesMax ||
            std::find(kLongNames.begin(), kLongNames.end(), name) != kLongNames.end());
  CLI::App* app = (group == nullptr ? &program.root : group)
                      ->add_subcommand(std::string(ShortName(name)), help);
  app->footer(examples);
  program.commands.push_back({app, std::move(run)});
  AddSwitch(app, "--json", program.console.json, "Print data instead of text");
  return app;
}

template <class Target>
CLI::Option* Argument(CLI::App* app, const char* name, Target& target, std::string_view value,
                      const char* help) {
  return app->add_option(name, target, help)->type_name(std::string(value));
}

// The two kernels of every command that compares a pair: as arguments or as flags.
inline void DeclarePair(CLI::App* app, std::string& train, std::string& infer) {
  Argument(app, "TRAIN,--train", train, "KERNEL", "The training kernel")->required();
  Argument(app, "INFER,--infer", infer, "KERNEL", "The inference kernel")->required();
}

// "a|b|c". Not by CLI::detail::join: it writes into a stream, which keeps to itself that there was
// no memory, and a part would pass for the whole.
inline std::string Choices(const std::vector<std::string>& words) {
  std::string choices;
  for (const std::string& word : words) choices += (choices.empty() ? "" : "|") + word;
  return choices;
}

// A flag that takes one of a few words.
inline CLI::Option* AddChoice(CLI::App* app, const char* names, std::string& target,
                              const std::vector<std::string>& words, const char* help) {
  return app->add_option(names, target, help)->type_name(Choices(words))->check(OneOf(words));
}

CLI::Option* DeclareKernelFlags(CLI::App* app, KernelFlags& flags);  // gives --requests
void DeclareRegisterFlags(CLI::App* app, RegisterFlags& flags, bool required);
void DeclareSigningFlags(CLI::App* app, SigningFlags& flags);
void DeclareJudgeFlags(CLI::App* app, JudgeFlags& flags);
void DeclareStoreFlags(CLI::App* app, JudgeFlags& flags);
void DeclareCorrectionFlags(CLI::App* app, RlCorrectionFlags& flags, const char* help);
void DeclareMeasureFlags(CLI::App* app, MeasureFlags& flags);

void DeclareScore(Program& program);
void DeclareGenerate(Program& program);
void DeclareAttribute(Program& program);
void DeclareReplay(Program& program);
void DeclareLab(Program& program);
void DeclareLabRl(Program& program, CLI::App* group);
void DeclareReport(Program& program);
void DeclareCompare(Program& program);
void DeclareTrace(Program& program);
void DeclareImport(Program& program);
void DeclareRl(Program& program);
void DeclareRegister(Program& program);
void DeclareStatementCommands(Program& program, CLI::App* group);
void DeclareRequests(Program& program);
void DeclareDoctor(Program& program);
void DeclareCompletion(Program& program);
void DeclarePromote(Program& program);
void DeclareMonitor(Program& program);
void DeclareGateway(Program& program);
void DeclareStatus(Program& program);

}  // namespace kcc::cli
