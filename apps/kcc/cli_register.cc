// The commands about the register.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {
namespace {

using RunRegister = int (*)(const RegisterOptions&, Console&);
using RunAdd = int (*)(const RegisterAddOptions&, Console&);

using DeclareOne =
    std::function<CLI::App*(const char* name, const char* help, const char* example, RunAdd run)>;

CLI::Option* AddText(CLI::App* app, const char* name, std::string& target, const char* help,
                     const char* value = "TEXT") {
  return app->add_option(name, target, help)->type_name(value);
}

// Contracts, triples, incidents, and events of any kind.
void DeclareAddOthers(const DeclareOne& declare, RegisterAddOptions& options) {
  CLI::App* contract =
      declare("contract", "Add a contract and keep its text",
              "kcc register add contract contract.yaml --register r.db", RunRegisterAddContract);
  Argument(contract, "FILE", options.id, kFileValue, "The contract")->required();

  CLI::App* triple = declare("triple", "Add a triple: a model, two kernels and a contract",
                             "kcc register add triple --model sha256:… --train train-1 --infer "
                             "infer-1 --contract sha256:… --register r.db",
                             RunRegisterAddTriple);
  AddText(triple, "--model", options.model, "The model", "ID")->required();
  AddText(triple, "--train", options.train, "The training kernel", "ID")->required();
  AddText(triple, "--infer", options.infer, "The inference kernel", "ID")->required();
  AddText(triple, "--contract", options.contract, "The contract's digest", "ID")->required();

  CLI::App* incident = declare("incident", "Say that something went wrong, or that it is settled",
                               "kcc register add incident I-7 --what 'answers repeat' --triple "
                               "sha256:… --register r.db\n"
                               "kcc register add incident I-7 --close --what 'rolled back' "
                               "--register r.db",
                               RunRegisterAddIncident);
  Argument(incident, "INCIDENT", options.id, "TEXT", "Its name")->required();
  AddText(incident, "--what", options.what, "What happened, or how it was settled")->required();
  AddText(incident, "--triple", options.triple, "The triple it is about", "ID");
  AddText(incident, "--promotion", options.promotion, "The promotion it is about", "ID");
  AddText(incident, "--evaluation", options.evaluation, "The evaluation that shows it", "ID");
  AddSwitch(incident, "--close", options.close, "It is settled");

  CLI::App* event = declare("event", "Add an event of any kind, from a JSON file",
                            "kcc register add event approval.given body.json --register r.db",
                            RunRegisterAddEvent);
  Argument(event, "KIND", options.kind, "TEXT", "Its kind: docs/register.md")->required();
  Argument(event, "FILE", options.id, kFileValue, "Its body; - is standard input")->required();
  event->add_option("--blob", options.blobs, "A file to keep that the body names by its digest")
      ->type_name(std::string(kFileValue))
      ->allow_extra_args(false);
}

void DeclareAdd(Program& program, CLI::App* registers) {
  auto& options = program.register_add;
  CLI::App* group = registers->add_subcommand("add", "Add an entry to the register");
  group->footer("kcc register add model sha256:… --name qwen3-8b --register register.db");
  group->require_subcommand(1);
  const auto declare = [&](const char* name, const char* help, const char* example, RunAdd run) {
    CLI::App* app = Declare(
        program, name, help, example,
        [&options, run](Console& console) { return run(options, console); }, group);
    DeclareRegisterFlags(app, options.flags, true);
    return app;
  };
  CLI::App* model = declare("model", "Add a model, by the digest of its weights",
                            "kcc register add model sha256:… --name qwen3-8b --register r.db",
                            RunRegisterAddModel);
  Argument(model, "MODEL", options.id, "DIGEST", "What identifies the weights")->required();
  AddText(model, "--name", options.name, "What people call it");

  CLI::App* kernel = declare("kernel", "Add a kernel build, by its fingerprint",
                             "kcc register add kernel vllm-0.18-fp8 --engine vllm --version 0.18 "
                             "--quantisation fp8-e4m3 --register r.db",
                             RunRegisterAddKernel);
  Argument(kernel, "KERNEL", options.id, "TEXT", "Its fingerprint, as its traces have it")
      ->required();
  constexpr std::array<const char*, 6> kHelp = {
      "What computes: vllm, sglang, …", "Its version",         "What compiled its kernels",
      "Its attention variant",          "How it is quantised", "What it runs on"};
  for (size_t i = 0; i < kKernelBuildWords.size(); ++i) {
    AddText(kernel, (std::string("--") + kKernelBuildWords[i]).c_str(), options.build[i], kHelp[i]);
  }
  DeclareAddOthers(declare, options);
}

using DeclareRead =
    std::function<CLI::App*(const char*, const char*, const char*, RunRegister run)>;

void DeclareHeadAndVerify(const DeclareRead& declare, RegisterOptions& options) {
  CLI::App* head =
      declare("head", "Print the number and the digest of the last event, or sign them",
              "kcc register head --register r.db > head.txt   # keep it elsewhere\n"
              "kcc register head --key key.pem -o head.json --register r.db",
              RunRegisterHead);
  DeclareSigningFlags(head, options.signing);
  AddText(head, "-o,--output", options.output, "The signed head to write", kFileValue.data());
  CLI::App* verify =
      declare("verify", "Recompute every digest, and name the first break",
              "kcc register verify --register r.db\n"
              "kcc register verify --register r.db --head \"$(cat head.txt)\"\n"
              "kcc register verify --register r.db --head head.json --keyring keyring.yaml",
              RunRegisterVerify);
  AddText(verify, "--head", options.head,
          "A head that was kept outside: finds a log cut short or written anew", "SEQ:DIGEST|FILE");
  AddText(verify, "--keyring", options.keyring, "The keys that are trusted: a signed head needs it",
          kFileValue.data());
  verify
      ->add_option("--threshold", options.threshold,
                   "Distinct keys that must have signed the head; default: 1")
      ->type_name("N")
      ->check(Between(1, 100));
}

void DeclareReads(Program& program, const DeclareRead& declare) {
  auto& options = program.registers;
  DeclareHeadAndVerify(declare, options);
  CLI::App* log = declare("log", "Print the events", "kcc register log --last 50 --register r.db",
                          RunRegisterLog);
  log->add_option("--last", options.last, "Only the last N")
      ->type_name("N")
      ->check(Between(1, 1e9));
  log->add_option("--from", options.from, "From this event on")
      ->type_name("SEQ")
      ->check(Between(1, 1e15));
  log->add_option("--kind", options.kind, "Only events of this kind")->type_name("TEXT");
  CLI::App* list = declare("list", "List entries, the last changed first",
                           "kcc register list triples --register r.db\n"
                           "kcc register list evaluations --of sha256:… --last 5 --register r.db",
                           RunRegisterList);
  Argument(list, "TABLE", options.table, "TEXT", "models, kernels, contracts, triples, …")
      ->required();
  list->add_option("--of", options.subject, "Only those about this triple, contract or promotion")
      ->type_name("ID");
  list->add_option("--last", options.last, "Only the last N")
      ->type_name("N")
      ->check(Between(1, 1e9));
  CLI::App* show = declare("show", "Show an entry, with what the log says of it",
                           "kcc register show triple sha256:1a2b --register r.db\n"
                           "kcc register show evaluation 12 --register r.db",
                           RunRegisterShow);
  Argument(show, "TABLE", options.table, "TEXT", "model, kernel, contract, triple, …")->required();
  Argument(show, "ID", options.id, "TEXT", "The entry's id, or a beginning that no other has")
      ->required();
  Argument(declare("class", "List the kernels that are interchangeable under a contract",
                   "kcc register class sha256:… --register r.db\n"
                   "kcc register class contract.yaml --register r.db",
                   RunRegisterClass),
           "CONTRACT", options.id, kFileValue, "Its digest, a beginning of it, or the file")
      ->required();
  Argument(declare("blame", "Say whether contract, kernel build or model is to blame",
                   "kcc register blame I-7 --register r.db\n"
                   "kcc register blame fp8-2 --register r.db",
                   RunRegisterBlame),
           "NAME", options.id, "NAME", "An incident or a promotion")
      ->required();
}

}  // namespace

void DeclareRegisterFlags(CLI::App* app, RegisterFlags& flags, bool required) {
  CLI::Option* uri =
      app->add_option("--register", flags.uri,
                      required ? "The register: a file, sqlite:PATH or postgresql://…"
                               : "Record the verdict in this register: a file or postgresql://…")
          ->type_name("URI");
  if (required) uri->required();
  app->add_option("--actor", flags.actor,
                  required ? "Who does it; default: the user" : "Who records it; default: the user")
      ->type_name("NAME");
  app->add_option("--time", flags.time, "When, for the log, as 2026-11-18T08:30:00Z; default: now")
      ->type_name("TIME");
}

void DeclareRegister(Program& program) {
  auto& options = program.registers;
  CLI::App* group =
      program.root.add_subcommand("register", "Keep what was judged, and prove it later");
  group->footer(
      "kcc register init --register register.db\n"
      "kcc run contract.yaml --train traces/train --infer traces/infer --register register.db\n"
      "kcc register list evaluations --register register.db");
  group->require_subcommand(1);
  const auto declare = [&](const char* name, const char* help, const char* example,
                           RunRegister run) {
    CLI::App* app = Declare(
        program, name, help, example,
        [&options, run](Console& console) { return run(options, console); }, group);
    DeclareRegisterFlags(app, options.flags, true);
    return app;
  };
  declare("init", "Make a register, or bring an older one to this version",
          "kcc register init --register register.db\n"
          "kcc register init --register postgresql://kcc@db/kcc",
          RunRegisterInit);
  DeclareAdd(program, group);
  DeclareReads(program, declare);
  Argument(declare("export", "Write the whole register into a directory",
                   "kcc register export copy --register r.db", RunRegisterExport),
           "DIR", options.directory, "DIR", "A directory that is not there yet")
      ->required();
  Argument(declare("import", "Continue a register from an export, with everything verified",
                   "kcc register import copy --register other.db", RunRegisterImport),
           "DIR", options.directory, "DIR", "What export wrote")
      ->required();
  CLI::App* gc =
      declare("gc", "Remove blobs that nothing needs; each leaves an event",
              "kcc register gc --dry-run --register r.db\n"
              "kcc register gc --evidence-before 2026-01-01 --register r.db\n"
              "kcc register gc --requests-before 2026-06-01 --register r.db\n"
              "kcc register gc --redact sha256:… --reason 'a name in it' --register r.db",
              RunRegisterGc);
  gc->add_option("--evidence-before", options.evidence_before,
                 "Also evidence of older evaluations that later ones replaced")
      ->type_name("TIME");
  gc->add_option("--requests-before", options.requests_before,
                 "Also requests that were stored earlier, whatever their retention")
      ->type_name("TIME");
  gc->add_option("--redact", options.redact, "Only this blob, whatever names it")
      ->type_name("DIGEST");
  gc->add_option("--reason", options.reason, "Why, for the log")->type_name("TEXT");
  AddSwitch(gc, "--dry-run", options.dry_run, "Remove nothing; say what would go");
  declare("page", "Write the register as a page to look at",
          "kcc register page -o register.html --register r.db", RunRegisterPage)
      ->add_option("-o,--output", options.output, "The page to write")
      ->type_name(std::string(kFileValue))
      ->required();
  CLI::App* blob =
      declare("blob", "Write the bytes of a blob into a file",
              "kcc register blob sha256:… -o report.json --register r.db", RunRegisterBlob);
  Argument(blob, "DIGEST", options.id, "DIGEST", "Its digest")->required();
  blob->add_option("-o,--output", options.output, "The file to write")
      ->type_name(std::string(kFileValue))
      ->required();
  declare("rebuild", "Make the table of entries anew from the log",
          "kcc register rebuild --register r.db", RunRegisterRebuild);
  DeclareStatementCommands(program, group);
}

}  // namespace kcc::cli
