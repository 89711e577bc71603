// All commands and flags, one declaration each. The only file that includes CLI11 (a heavy header):
// what it knows is read into a CommandSpec, from which help and completion are written.
//
// A new command: fill in a Declare function like those below, and add it to DeclareAll.
#include "apps/kcc/cli.h"

#include <CLI/CLI.hpp>
#include <functional>

#include "apps/kcc/command_spec.h"
#include "apps/kcc/commands.h"
#include "kcc/base/strings.h"

namespace kcc::cli {
namespace {

struct Command {
  CLI::App* app;
  std::function<int(Console&)> run;
};

// Owns what the parser writes into; lives as long as the parse.
struct Program {
  explicit Program(Console& io) : console(io) {}
  Console& console;
  CLI::App root{"Kernel contracts: which gap between training and serving kernels you tolerate.",
                "kcc"};
  bool version = false;
  std::vector<Command> commands;
  CheckOptions check;
  FmtOptions fmt;
  DiffOptions diff;
  SchemaOptions schema;
  MetricsOptions metrics;
  ExplainOptions explain;
  CompletionOptions completion;
  CommandSpec spec;
};

// A flag without a value; `--json=false` is an error, not a second spelling.
CLI::Option* AddSwitch(CLI::App* app, const char* names, bool& target, const char* help) {
  return app->add_flag(names, target, help)->disable_flag_override();
}

CLI::App* Declare(Program& program, const char* name, const char* help, const char* examples,
                  std::function<int(Console&)> run) {
  CLI::App* app = program.root.add_subcommand(name, help);
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

void DeclareCheck(Program& program) {
  auto& options = program.check;
  CLI::App* app = Declare(program, "check", "Validate contracts; list every problem in one run",
                          "kcc check contracts/*.yaml\n"
                          "kcc check --json - < contract.yaml",
                          [&](Console& console) { return RunCheck(options, console); });
  Argument(app, "FILE", options.files, kFileValue, "Contracts; - is standard input")->required();
  AddSwitch(app, "--strict", options.strict, "Fail on warnings too");
}

void DeclareFmt(Program& program) {
  auto& options = program.fmt;
  CLI::App* app =
      Declare(program, "fmt", "Print a contract in the standard layout",
              "kcc fmt contract.yaml\n"
              "kcc fmt -i contracts/*.yaml\n"
              "kcc fmt --check contracts/*.yaml   # exit code 1 if one would change\n"
              "kcc fmt --json contract.yaml       # the canonical form that is digested",
              [&](Console& console) { return RunFmt(options, console); });
  Argument(app, "FILE", options.files, kFileValue, "Contracts; - is standard input")->required();
  auto* in_place = AddSwitch(app, "-i,--in-place", options.in_place,
                             "Replace each file, atomically, instead of printing it");
  AddSwitch(app, "--check", options.check, "Write nothing; name the files that would change")
      ->excludes(in_place);
  AddSwitch(app, "--drop-comments", options.drop_comments, "Leave all comments out");
}

void DeclareDiff(Program& program) {
  auto& options = program.diff;
  CLI::App* app = Declare(program, "diff", "Say what became looser, tighter, new or gone",
                          "kcc diff old.yaml new.yaml\n"
                          "git show HEAD:contract.yaml | kcc diff - contract.yaml",
                          [&](Console& console) { return RunDiff(options, console); });
  Argument(app, "BEFORE", options.before, kFileValue, "The old contract")->required();
  Argument(app, "AFTER", options.after, kFileValue, "The new contract")->required();
}

void DeclareSchema(Program& program) {
  auto& options = program.schema;
  CLI::App* app = Declare(program, "schema", "Print the contract language's JSON Schema",
                          "kcc schema > kernel-contract.schema.json",
                          [&](Console& console) { return RunSchema(options, console); });
  AddSwitch(app, "--markdown", options.markdown, "Print the keys as tables for docs/contract.md");
}

void DeclareMetrics(Program& program) {
  auto& options = program.metrics;
  CLI::App* app = Declare(program, "metrics", "List quantities, or explain one or a metric",
                          "kcc metrics\n"
                          "kcc metrics kl\n"
                          "kcc metrics p99_logit_linf",
                          [&](Console& console) { return RunMetrics(options, console); });
  Argument(app, "NAME", options.name, kMetricValue, "A quantity or a metric");
  AddSwitch(app, "--markdown", options.markdown, "Print the catalog as tables for docs/metrics.md");
  AddSwitch(app, "--names", options.names, "Print every metric's name, one a line");
}

void DeclareExplain(Program& program) {
  auto& options = program.explain;
  CLI::App* app = Declare(program, "explain", "Say in plain words what a contract's clauses mean",
                          "kcc explain contract.yaml\n"
                          "kcc explain contract.yaml N-1",
                          [&](Console& console) { return RunExplain(options, console); });
  Argument(app, "FILE", options.file, kFileValue, "A contract; - is standard input")->required();
  Argument(app, "ID", options.id, kClauseValue, "A clause; without it, all of them");
  AddSwitch(app, "--ids", options.ids, "Print the clauses' ids, one a line");
}

void DeclareCompletion(Program& program) {
  auto& options = program.completion;
  const std::vector<std::string> shells = {"bash", "zsh"};
  CLI::App* app =
      Declare(program, "completion", "Print a shell completion script",
              "source <(kcc completion bash)\n"
              "kcc completion zsh > ~/.zfunc/_kcc",
              [&](Console& console) { return RunCompletion(options, program.spec, console); });
  Argument(app, "SHELL", options.shell, CLI::detail::join(shells, "|"), "Which shell")
      ->required()
      ->check([shells](const std::string& word) {
        const bool known = std::find(shells.begin(), shells.end(), word) != shells.end();
        return known ? ""
                     : "no completion for '" + word + "'; use " + shells[0] + " or " + shells[1];
      });
}

void DeclareAll(Program& program) {
  CLI::App& root = program.root;
  root.set_help_flag("-h,--help", "Print this help");
  root.require_subcommand(0, 1);
  AddSwitch(&root, "--version", program.version, "Print the version");
  AddSwitch(&root, "--json", program.console.json, "Print data instead of text");
  root.footer(
      "kcc check contract.yaml        # every mistake, with its line\n"
      "kcc explain contract.yaml      # what it demands, in words\n"
      "kcc diff old.yaml new.yaml     # what became looser");
  DeclareCheck(program);
  DeclareFmt(program);
  DeclareDiff(program);
  DeclareSchema(program);
  DeclareMetrics(program);
  DeclareExplain(program);
  DeclareCompletion(program);
}

CommandSpec Describe(const CLI::App& app, const std::string& parent) {
  CommandSpec spec;
  spec.name = parent.empty() ? app.get_name() : parent + " " + app.get_name();
  spec.help = app.get_description();
  spec.examples = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    const std::string value = option->get_type_size() == 0 ? "" : option->get_type_name();
    if (option->get_positional()) {
      spec.arguments.push_back({.name = option->get_name(true),
                                .value = value,
                                .help = option->get_description(),
                                .required = option->get_required(),
                                .repeated = option->get_expected_max() > 1});
      continue;
    }
    FlagSpec flag{.names = {}, .value = value, .help = option->get_description()};
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    spec.flags.push_back(std::move(flag));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    spec.commands.push_back(Describe(*command, spec.name));
  }
  return spec;
}

// The command the words had reached, with its description.
const CommandSpec& Reached(const CLI::App& root, const CommandSpec& spec) {
  const CommandSpec* reached = &spec;
  for (const CLI::App* app = &root; !app->get_subcommands().empty();) {
    app = app->get_subcommands().front();
    const std::string name = reached->name + " " + app->get_name();
    for (const CommandSpec& command : reached->commands) {
      if (command.name == name) {
        reached = &command;
        break;
      }
    }
  }
  return *reached;
}

// What the user could have meant by a word that nothing takes.
std::string UnknownWord(const std::string& word, const CommandSpec& at) {
  const bool is_flag = word.size() > 1 && word[0] == '-';
  std::vector<std::string> known;
  if (is_flag) {
    for (const FlagSpec& flag : at.flags) {
      known.insert(known.end(), flag.names.begin(), flag.names.end());
    }
  } else {
    for (const CommandSpec& command : at.commands) {
      known.push_back(command.name.substr(at.name.size() + 1));
    }
  }
  std::string message = is_flag               ? "unknown flag '"
                        : at.commands.empty() ? "unexpected argument '"
                                              : "unknown command '";
  const std::string name = word.substr(0, word.find('='));
  message += (is_flag ? name : word) + "'";
  const std::vector<std::string_view> views(known.begin(), known.end());
  constexpr size_t kShortFlag = 2;  // every other letter is one slip away
  const auto nearest = name.size() > kShortFlag ? NearestWord(name, views) : std::nullopt;
  if (nearest) {
    message.append("; did you mean '").append(*nearest).append("'?");
  }
  return message;
}

int UsageError(const std::string& message, const CommandSpec& at, Console& console) {
  console.err << at.name << ": " << Paint(Style::kRed, "error:", console.colour_err) << ' '
              << message << "\nRun '" << at.name << " --help' for its flags and an example.\n";
  return kExitInvalid;
}

int Parse(Program& program, int argc, const char* const* argv) {
  try {
    program.root.parse(argc, argv);
    return -1;
  } catch (const CLI::CallForHelp&) {
    program.console.out << HelpText(Reached(program.root, program.spec));
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    // A word that nothing takes explains whatever else is missing, so it is said first.
    const CommandSpec& at = Reached(program.root, program.spec);
    const std::vector<std::string> unknown = program.root.remaining(true);
    const std::string message = unknown.empty() ? error.what() : UnknownWord(unknown[0], at);
    return UsageError(message, at, program.console);
  }
}

}  // namespace

int RunProgram(int argc, const char* const* argv, Console& console) {
  Program program(console);
  DeclareAll(program);
  program.spec = Describe(program.root, "");
  if (const int code = Parse(program, argc, argv); code >= 0) return code;
  if (program.version) return RunVersion(console);
  for (const Command& command : program.commands) {
    if (command.app->parsed()) return command.run(console);
  }
  console.err << HelpText(program.spec);
  return kExitInvalid;
}

}  // namespace kcc::cli
