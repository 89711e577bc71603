// All commands and flags, one declaration each; those about engines and RL stand in cli_engines.cc
// and cli_rl.cc. What CLI11 knows is read into a CommandSpec, for help and completion.
//
// A new command: fill in a Declare function like those below, and add it to kCommands.
#include "apps/kcc/cli.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "apps/kcc/cli_bounds.h"
#include "apps/kcc/cli_program.h"
#include "apps/kcc/other_words.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"

namespace kcc::cli {
namespace {

void DeclareCheck(Program& program) {
  auto& options = program.check;
  CLI::App* app =
      Declare(program, "check", "Validate contracts and policies; list every problem in one run",
              "kcc check contracts/*.yaml\n"
              "kcc check --json - < contract.yaml\n"
              "kcc check --strict --policy policies/promotion.yaml contract.yaml",
              [&](Console& console) { return RunCheck(options, console); });
  Argument(app, "FILE", options.files, kFileValue, "Contracts and policies; - is standard input")
      ->required();
  AddSwitch(app, "--strict", options.strict,
            "Fail on warnings too; ask for reasons, for a review date, and for clauses that every "
            "stage of the policy can decide");
  app->add_option("--policy", options.policy,
                  "Hold contracts against this promotion policy (with --strict); default: the "
                  "policies among the files")
      ->type_name(std::string(kFileValue));
}

void DeclareFmt(Program& program) {
  auto& options = program.fmt;
  CLI::App* app =
      Declare(program, "fmt", "Print a contract or a policy in the standard layout",
              "kcc fmt contract.yaml\n"
              "kcc fmt -i contracts/*.yaml\n"
              "kcc fmt --check contracts/*.yaml   # exit code 1 if one would change\n"
              "kcc fmt --json contract.yaml       # the canonical form that is digested",
              [&](Console& console) { return RunFmt(options, console); });
  Argument(app, "FILE", options.files, kFileValue, "Contracts and policies; - is standard input")
      ->required();
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
  Argument(app, "BEFORE", options.before, kFileValue, "The old contract or policy")->required();
  Argument(app, "AFTER", options.after, kFileValue, "The new contract or policy")->required();
}

void DeclareSchema(Program& program) {
  auto& options = program.schema;
  CLI::App* app = Declare(program, "schema", "Print the contract language's JSON Schema",
                          "kcc schema > kernel-contract.schema.json",
                          [&](Console& console) { return RunSchema(options, console); });
  AddSwitch(app, "--markdown", options.markdown, "Print the keys as tables for docs/contract.md");
  std::vector<CLI::Option*> others;  // one schema is printed
  const auto add = [&](const char* flag, bool& chosen, const char* help) {
    CLI::Option* option = AddSwitch(app, flag, chosen, help);
    for (CLI::Option* other : others) option->excludes(other);
    others.push_back(option);
  };
  add("--report", options.report, "Print the schema of report.json instead");
  add("--experiment", options.experiment, "Print the schema of the figures of kcc lab instead");
  add("--statement", options.statement, "Print the schema of signed statements instead");
  add("--policy", options.policy, "Print what promotion policies are made of instead");
  add("--monitor", options.monitor, "Print what monitor policies are made of instead");
  add("--gateway", options.gateway, "Print what gateways are made of instead");
  add("--status", options.status, "Print the schema of a running gateway's status instead");
  add("--verdict", options.verdict, "Print the schema of a running gateway's verdict instead");
  add("--request", options.request, "Print the schema of stored requests instead");
  add("--observation", options.observation, "Print the schema of observations instead");
  add("--event", options.event, "Print the schema of the lines of a decision log instead");
  add("--trace", options.trace, "Print the schema of trace.json and requests.jsonl instead");
}

void DeclareMetrics(Program& program) {
  auto& options = program.metrics;
  CLI::App* app =
      Declare(program, "metrics", "List the quantities, or explain one of them or a metric",
              "kcc metrics\n"
              "kcc metrics kl\n"
              "kcc metrics p99_logit_linf\n"
              "kcc metrics --contract contract.yaml",
              [&](Console& console) { return RunMetrics(options, console); });
  Argument(app, "NAME", options.name, kMetricValue, "A quantity or a metric");
  AddSwitch(app, "--markdown", options.markdown, "Print the catalog as tables for docs/metrics.md");
  AddSwitch(app, "--names", options.names, "Print the name of every metric, one per line");
  app->add_option("--contract", options.contract, "Include the metrics that this contract defines")
      ->type_name(std::string(kFileValue));
}

void DeclareExplain(Program& program) {
  auto& options = program.explain;
  CLI::App* app = Declare(program, "explain", "Say in plain words what a contract or a policy asks",
                          "kcc explain contract.yaml\n"
                          "kcc explain contract.yaml N-1\n"
                          "kcc explain policies/promotion.yaml canary",
                          [&](Console& console) { return RunExplain(options, console); });
  Argument(app, "FILE", options.file, kFileValue, "A contract or a policy; - is standard input")
      ->required();
  Argument(app, "ID", options.id, kClauseValue,
           "A clause, a stage of a promotion policy, or a part of another document; default: all");
  AddSwitch(app, "--ids", options.ids, "Print the ids of the clauses, one per line");
}

void DeclareMeasure(Program& program) {
  auto& options = program.measure;
  CLI::App* app =
      Declare(program, "measure", "Measure two kernels and write a summary",
              "kcc measure traces/train traces/infer --contract contract.yaml -o s.kccs\n"
              "kcc measure traces/train traces/infer --shard 2/7 -o part2.kccs\n"
              "kcc measure 'exec:./a.py' 'exec:./b.py' --requests r.jsonl -o s.kccs",
              [&](Console& console) { return RunMeasure(options, console); });
  DeclarePair(app, options.train, options.infer);
  app->add_option("-c,--contract", options.contract,
                  "Count exactly at the thresholds of this contract")
      ->type_name(std::string(kFileValue));
  app->add_option("-o,--output", options.output, "The summary to write")
      ->type_name(std::string(kFileValue))
      ->required();
  app->add_option("--shard", options.flags.shard, "Measure part I of N; no request is split")
      ->type_name("I/N");
  DeclareMeasureFlags(app, options.flags);
  DeclareKernelFlags(app, options.kernels);
}

void DeclareMerge(Program& program) {
  auto& options = program.merge;
  CLI::App* app = Declare(program, "merge", "Merge summaries of different requests, exactly",
                          "kcc merge part*.kccs -o all.kccs",
                          [&](Console& console) { return RunMerge(options, console); });
  Argument(app, "SUMMARY", options.files, kFileValue,
           "Summaries made with one contract, or all without")
      ->required();
  app->add_option("-o,--output", options.output, "The summary to write")
      ->type_name(std::string(kFileValue))
      ->required();
}

void DeclareJudge(Program& program) {
  auto& options = program.judge;
  CLI::App* app = Declare(program, "judge", "Judge a summary; the exit code is the verdict",
                          "kcc judge contract.yaml s.kccs\n"
                          "kcc judge contract.yaml s.kccs --report out --stage canary",
                          [&](Console& console) { return RunJudge(options, console); });
  Argument(app, "CONTRACT", options.contract, kFileValue, "The contract")->required();
  Argument(app, "SUMMARY", options.summary, kFileValue, "What kcc measure wrote")->required();
  app->add_option("--traces", options.traces,
                  "The traces it was made from, as TRAIN:INFER; the report then shows what is "
                  "around the worst tokens")
      ->type_name("PAIR...");
  DeclareJudgeFlags(app, options.flags);
}

void DeclareRun(Program& program) {
  auto& options = program.run;
  CLI::App* app = Declare(
      program, "run", "Measure two kernels and judge them: the gate for CI",
      "kcc run contract.yaml --train trace:traces/train --infer trace:traces/infer\n"
      "kcc run contract.yaml --train traces/train --infer traces/infer --report out\n"
      "kcc run contract.yaml --train traces/train --infer 'exec:./engine.py' --requests r.jsonl",
      [&](Console& console) { return RunRun(options, console); });
  Argument(app, "CONTRACT", options.contract, kFileValue, "The contract")->required();
  DeclarePair(app, options.train, options.infer);
  app->add_option("--summary", options.summary, "Keep the summary here")
      ->type_name(std::string(kFileValue));
  app->add_option(
         "--also", options.also,
         "Measure what this contract needs too; the verdict and the report stay as they are")
      ->type_name(std::string(kFileValue))
      ->allow_extra_args(false);
  DeclareMeasureFlags(app, options.measure);
  DeclareKernelFlags(app, options.kernels);
  DeclareJudgeFlags(app, options.flags);
  DeclareStoreFlags(app, options.flags);
}

void DeclareBound(Program& program) {
  auto& options = program.bound;
  CLI::App* app =
      Declare(program, "bound", "Say what a drift can cost, or which threshold guarantees a limit",
              "kcc bound --linf 0.02 --reward-max 1 --advantage-max 4 --score-norm-max 8\n"
              "kcc bound --reward-drift 0.04 --reward-max 1 --rewards-from-zero\n"
              "kcc bound --gradient-bias 0.1 --advantage-max 1 --score-norm-max 1 --json\n"
              "kcc bound --check traces/train traces/infer   # every bound against evidence",
              [&](Console& console) { return RunBound(options, console); });
  DeclareBoundFlags(app, options);
}

void DeclareCalibrate(Program& program) {
  auto& options = program.calibrate;
  CLI::App* app = Declare(program, "calibrate", "Test that a contract tells good from bad kernels",
                          "kcc calibrate contract.yaml --conforming traces/train:traces/infer "
                          "--violating broken.kccs",
                          [&](Console& console) { return RunCalibrate(options, console); });
  Argument(app, "CONTRACT", options.contract, kFileValue, "The contract")->required();
  app->add_option("--conforming", options.conforming,
                  "Evidence that must be accepted: TRAIN:INFER or S.kccs")
      ->type_name("EVIDENCE...")
      ->required();
  app->add_option("--violating", options.violating,
                  "Evidence that must be rejected: TRAIN:INFER or S.kccs")
      ->type_name("EVIDENCE...")
      ->required();
  AddChoice(app, "--stage", options.flags.stage, {"offline", "shadow", "canary", "full"},
            "Judge the clauses of this stage; default: offline");
  AddChoice(app, "--about", options.flags.about, {"evaluation-set", "traffic"},
            "What the verdicts are about; default: as the contract says");
  DeclareMeasureFlags(app, options.measure);
}

void DeclareAuthor(Program& program) {
  auto& options = program.author;
  CLI::App* app =
      Declare(program, "author", "Propose a contract from evidence, tolerances and envelopes",
              "kcc author --evidence traces/train:traces/infer -o contract.yaml\n"
              "kcc author --evidence a.kccs --violating broken.kccs --margin 2\n"
              "kcc author --evidence traces/train:traces/infer --flip-rate 0.01\n"
              "kcc author --reward-drift 0.02 --reward-max 1",
              [&](Console& console) { return RunAuthor(options, console); });
  const auto evidence = [app](const char* name, std::vector<std::string>& target,
                              const char* help) {
    app->add_option(name, target, help)->type_name("EVIDENCE...");
  };
  evidence("--evidence", options.evidence,
           "Evidence that sets the thresholds: TRAIN:INFER or S.kccs");
  evidence("--conforming", options.conforming, "Further evidence, which the contract must accept");
  evidence("--violating", options.violating, "Evidence that the contract must reject");
  DeclareAuthorInput(app, options.input);
  app->add_option("--checkpoint", options.checkpoint, "Envelopes from these weights (safetensors)")
      ->type_name(std::string(kFileValue));
  app->add_option("--heads", options.facts.heads, "Query heads of the model")->type_name("N");
  app->add_option("--context", options.facts.context, "Longest context of the model, in tokens")
      ->type_name("N");
  app->add_option("--rms-min", options.facts.rms_min, "Smallest RMS of the model's residual stream")
      ->type_name("X");
  app->add_option("--rms-max", options.facts.rms_max, "Largest RMS of the model's residual stream")
      ->type_name("X");
  app->add_option("--train-kernel", options.train_kernel,
                  "Arithmetic of the training kernel, as in store=bf16")
      ->type_name("WORDS");
  app->add_option("--infer-kernel", options.infer_kernel,
                  "Arithmetic of the inference kernel, as in weights=fp8-e4m3,store=bf16")
      ->type_name("WORDS");
  app->add_option("-o,--output", options.output, "Write the contract here; default: print it")
      ->type_name(std::string(kFileValue));
  DeclareMeasureFlags(app, options.measure);
}

struct DeclaredCommand {
  std::string_view name;
  void (*declare)(Program&);
};

// In the order of the help.
constexpr std::array kCommands = std::to_array<DeclaredCommand>({
    {"check", DeclareCheck},
    {"fmt", DeclareFmt},
    {"diff", DeclareDiff},
    {"schema", DeclareSchema},
    {"metrics", DeclareMetrics},
    {"explain", DeclareExplain},
    {"measure", DeclareMeasure},
    {"merge", DeclareMerge},
    {"judge", DeclareJudge},
    {"run", DeclareRun},
    {"score", DeclareScore},
    {"generate", DeclareGenerate},
    {"attribute", DeclareAttribute},
    {"replay", DeclareReplay},
    {"lab", DeclareLab},
    {"report", DeclareReport},
    {"compare", DeclareCompare},
    {"bound", DeclareBound},
    {"calibrate", DeclareCalibrate},
    {"author", DeclareAuthor},
    {"promote", DeclarePromote},
    {"monitor", DeclareMonitor},
    {"gateway", DeclareGateway},
    {"status", DeclareStatus},
    {"trace", DeclareTrace},
    {"import", DeclareImport},
    {"rl", DeclareRl},
    {"register", DeclareRegister},
    {"requests", DeclareRequests},
    {"doctor", DeclareDoctor},
    {"completion", DeclareCompletion},
});

// All commands; or the one that the user named first, since what the others take is half of the
// time of a short command. A completion script needs all, and so do help and the words near an
// unknown one.
void DeclareCommands(Program& program, std::string_view first_word) {
  CLI::App& root = program.root;
  root.set_help_flag("-h,--help", "Print this help");
  root.require_subcommand(0, 1);
  AddSwitch(&root, "--version", program.version, "Print the version");
  AddSwitch(&root, "--json", program.console.json, "Print data instead of text");
  root.footer(
      "kcc check contract.yaml        # every mistake, with its line\n"
      "kcc explain contract.yaml      # what it demands, in words\n"
      "kcc diff old.yaml new.yaml     # what became looser\n"
      "kcc run contract.yaml --train traces/train --infer traces/infer --report out");
  const auto named =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const DeclaredCommand& command) {
        return command.name == first_word && command.declare != DeclareCompletion;
      });
  if (named != kCommands.end()) return named->declare(program);
  for (const DeclaredCommand& command : kCommands) command.declare(program);
}

CommandSpec Describe(const CLI::App& app, const std::string& parent) {
  CommandSpec spec;
  spec.name = parent.empty() ? CommandName(app) : parent + " " + CommandName(app);
  spec.help = app.get_description();
  spec.examples = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    std::string value = option->get_type_size() == 0 ? "" : option->get_type_name();
    value.resize(std::min(value.size(), value.find(':')));  // what follows is the check's own text
    if (option->get_positional()) {
      spec.arguments.push_back({.name = option->get_name(true),
                                .value = value,
                                .help = option->get_description(),
                                .required = option->get_required(),
                                .repeated = option->get_expected_max() > 1});
      if (option->get_lnames().empty()) continue;  // an argument that is no flag too
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
    const std::string name = reached->name + " " + CommandName(*app);
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
  constexpr std::string_view kRoot = "kcc";
  if (const std::string_view instead = InsteadOf(word); at.name == kRoot && !instead.empty()) {
    return message.append("; ").append(instead);
  }
  if (at.name == kRoot && (word.ends_with(".yaml") || word.ends_with(".yml"))) {
    return message + "; 'kcc check " + word + "' checks a contract, and 'kcc run " + word +
           " TRAIN INFER' judges two kernels by it";
  }
  if (at.name == "kcc author" && !is_flag) {
    return message + "; evidence has a flag: --evidence TRAIN:INFER";
  }
  const std::vector<std::string_view> views(known.begin(), known.end());
  constexpr size_t kShortFlag = 2;  // every other letter is one slip away
  const auto nearest = name.size() > kShortFlag ? NearestWord(name, views) : std::nullopt;
  if (nearest) {
    message.append("; did you mean '").append(*nearest).append("'?");
  }
  return message;
}

// Whether an argument is missing that stands in the usage line; TRAIN is --train too.
bool LacksArgument(std::string_view message, const CommandSpec& at) {
  return std::any_of(at.arguments.begin(), at.arguments.end(), [&](const ArgumentSpec& argument) {
    std::string flag = "--";
    for (const char c : argument.name) flag += static_cast<char>(std::tolower(c));
    return message == argument.name + " is required" || message == flag + " is required";
  });
}

int UsageError(const std::string& message, const CommandSpec& at, Console& console) {
  console.err << at.name << ": " << Paint(Style::kRed, "error:", console.colour_err) << ' '
              << message << "\nRun '" << at.name << " --help' for its flags and an example.\n";
  return kExitInvalid;
}

// Puts short names in the place of long ones: see kNameBytesMax. Long words that are no command are
// refused here, before they are compared. An exit code, or -1: go on.
int ShortenNames(const Program& program, std::vector<std::string>* words) {
  const CommandSpec* at = &program.spec;
  for (std::string& word : *words) {
    if (at->commands.empty() || word.starts_with('-')) return -1;
    const auto found = std::find_if(
        at->commands.begin(), at->commands.end(),
        [&](const CommandSpec& command) { return command.name == at->name + " " + word; });
    if (found == at->commands.end()) {
      // A word that is no command may be an argument, where the group takes one.
      if (word.size() < kNameBytesMax || !at->arguments.empty()) return -1;
      return UsageError(Shown(UnknownWord(word, *at)), *at, program.console);
    }
    at = &*found;
    word = ShortName(word);
  }
  return -1;
}

int Parse(Program& program, int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (const int code = ShortenNames(program, &words); code >= 0) return code;
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    program.root.parse(std::move(words));
    return -1;
  } catch (const CLI::CallForHelp&) {
    const CommandSpec& at = Reached(program.root, program.spec);
    const std::vector<std::string> unknown = program.root.remaining(true);
    if (!unknown.empty() && !unknown[0].starts_with('-')) {  // a command that there is not
      return UsageError(Shown(UnknownWord(unknown[0], at)), at, program.console);
    }
    program.console.out << HelpText(at, program.console.width);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    // A word that nothing takes explains whatever else is missing, so it is said first.
    const CommandSpec& at = Reached(program.root, program.spec);
    const std::vector<std::string> unknown = program.root.remaining(true);
    std::string message = unknown.empty() ? error.what() : Shown(UnknownWord(unknown[0], at));
    if (unknown.empty() && LacksArgument(message, at)) message += "; write " + UsageLine(at);
    return UsageError(message, at, program.console);
  }
}

}  // namespace

int RunProgram(int argc, const char* const* argv, Console& console) {
  Program program(console);
  DeclareCommands(program, argc > 1 ? argv[1] : "");
  program.spec = Describe(program.root, "");
  if (const int code = Parse(program, argc, argv); code >= 0) return code;
  if (program.version) return RunVersion(console);
  for (const Command& command : program.commands) {
    if (command.app->parsed()) return command.run(console);
  }
  console.err << HelpText(program.spec, console.width_err);
  return kExitInvalid;
}

}  // namespace kcc::cli
