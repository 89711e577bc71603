// The command line of reports: how runs are judged and what they write, kcc report, kcc compare.
// The files and switches are those of the table of formats (kcc/report/report_formats.h).
#include "apps/kcc/cli_program.h"
#include "kcc/base/strings.h"
#include "kcc/report/report_formats.h"

namespace kcc::cli {
namespace {

// What a report directory holds unless more is asked for: "report.json, .html, .md and junit.xml".
std::string WrittenFiles() {
  std::vector<std::string_view> words;
  std::string_view stem;
  for (const ReportFormat& format : ReportFormats()) {
    if (!IsWritten(format, {})) continue;
    const size_t dot = format.file.rfind('.');
    const bool repeated = format.file.substr(0, dot) == stem;
    stem = format.file.substr(0, dot);
    words.push_back(repeated ? format.file.substr(dot) : format.file);
  }
  return JoinWords(words);
}

// A switch for each format whose file is written on request alone.
void DeclareReportFormats(CLI::App* app, AskedFormats& asked) {
  for (const ReportFormat& format : ReportFormats()) {
    if (!format.on_request) continue;
    const std::string_view name = format.name;
    app->add_flag_callback(
           "--" + std::string(name), [&asked, name] { asked.push_back(name); },
           "Write " + std::string(format.file) + " too")
        ->disable_flag_override();
  }
}

}  // namespace

void DeclareJudgeFlags(CLI::App* app, JudgeFlags& flags) {
  AddChoice(app, "--stage", flags.stage, {"offline", "shadow", "canary", "full"},
            "Judge the clauses of this stage; default: offline");
  AddChoice(app, "--about", flags.about, {"evaluation-set", "traffic"},
            "What the verdict is about; default: as the contract says");
  app->add_option("--report", flags.report, "Write " + WrittenFiles() + " here")->type_name("DIR");
  DeclareReportFormats(app, flags.formats);
  AddChoice(app, "--fail-on", flags.fail_on, {"L1", "L2", "L3"},
            "Ignore clauses below this level in the exit code; default: L1");
  AddSwitch(app, "--all", flags.all, "Print satisfied clauses too");
  DeclareRegisterFlags(app, flags.record, false);
  DeclareSigningFlags(app, flags.signing);
  app->add_option("--model", flags.model, "The model to record, where the traces do not say")
      ->type_name("DIGEST");
}

void DeclareStoreFlags(CLI::App* app, JudgeFlags& flags) {
  CLI::Option* store =
      AddChoice(app, "--store", flags.store, {"none", "hashes", "full"},
                "Keep flagged requests in the register, where no policy says what to keep");
  app->add_option("--store-sample", flags.store_sample, "Keep this share of all requests too")
      ->type_name("SHARE")
      ->check(Between(0.0, 1.0))
      ->needs(store);
  app->add_option("--store-for", flags.store_retention, "How long, such as 30d; default: no limit")
      ->type_name("TIME")
      ->needs(store);
  AddSwitch(app, "--store-text", flags.store_text, "Keep texts among the fields too")->needs(store);
}

void DeclareReport(Program& program) {
  auto& options = program.report;
  CLI::App* app =
      Declare(program, "report", "Show a stored report again, or write it in every format",
              "kcc report out                        # checks its files too\n"
              "kcc report out/report.json -o elsewhere",
              [&](Console& console) { return RunReport(options, console); });
  Argument(app, "REPORT", options.file, kFileValue,
           "A report.json or its directory; - is standard input")
      ->required();
  app->add_option("-o,--output", options.output, "Write all formats here")->type_name("DIR");
  DeclareReportFormats(app, options.formats);
  AddSwitch(app, "--all", options.all, "Print satisfied clauses too");
}

void DeclareCompare(Program& program) {
  auto& options = program.compare;
  CLI::App* app = Declare(program, "compare", "Say what changed between two reports",
                          "kcc compare last/report.json this/report.json\n"
                          "kcc compare --markdown last/report.json this/report.json",
                          [&](Console& console) { return RunCompare(options, console); });
  Argument(app, "BEFORE", options.before, kFileValue, "The older report.json, or its directory")
      ->required();
  Argument(app, "AFTER", options.after, kFileValue, "The newer report.json, or its directory")
      ->required();
  AddSwitch(app, "--markdown", options.markdown, "Print Markdown, for a pull request");
}

}  // namespace kcc::cli
