// The commands for what comes before a run: doctor and requests.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {
namespace {

void DeclarePython(CLI::App* app, std::string& python) {
  app->add_option("--python", python, "The Python to use; default: python3")->type_name("PROGRAM");
}

}  // namespace

void DeclareDoctor(Program& program) {
  auto& options = program.doctor;
  CLI::App* app = Declare(program, "doctor", "Say what works and what is missing, and what to do",
                          "kcc doctor\n"
                          "kcc doctor --server http://localhost:8000\n"
                          "kcc doctor --python .venv/bin/python --json",
                          [&](Console& console) { return RunDoctor(options, console); });
  app->add_option("--server", options.server, "Ask this server too: its address, or a kernel's URI")
      ->type_name("URI");
  DeclarePython(app, options.python);
  app->add_option("--cuda-library", options.cuda_library, "libkcc_cuda.so; default: beside kcc")
      ->type_name(std::string(kFileValue));
}

void DeclareRequests(Program& program) {
  auto& options = program.requests_make;
  CLI::App* group = program.root.add_subcommand("requests", "Make what kernels are asked");
  group->footer("kcc requests make prompts.jsonl --tokenizer model/tokenizer.json -o r.jsonl");
  group->require_subcommand(1);
  CLI::App* app = Declare(
      program, "make", "Turn prompts and outputs in text into token ids",
      "kcc requests make prompts.jsonl --tokenizer model/tokenizer.json -o r.jsonl\n"
      "kcc requests make prompts.jsonl --server 'openai+http://localhost:8000?server=vllm' "
      "-o r.jsonl",
      [&](Console& console) { return RunRequestsMake(options, console); }, group);
  Argument(app, "PROMPTS", options.prompts, kFileValue,
           "One object a line: {\"prompt\": \"text\", \"output\": \"text\"}")
      ->required();
  app->add_option("--tokenizer", options.tokenizer, "A tokenizer.json, or the folder it is in")
      ->type_name(std::string(kFileValue));
  app->add_option("--server", options.server, "Use the tokenizer of this server")->type_name("URI");
  DeclarePython(app, options.python);
  app->add_option("-o,--output", options.output, "The requests file to write")
      ->type_name(std::string(kFileValue))
      ->required();
}

void DeclareCompletion(Program& program) {
  auto& options = program.completion;
  const std::vector<std::string> shells = {"bash", "zsh"};
  CLI::App* app =
      Declare(program, "completion", "Print a shell completion script",
              "source <(kcc completion bash)\n"
              "kcc completion zsh > ~/.zfunc/_kcc",
              [&](Console& console) { return RunCompletion(options, program.spec, console); });
  Argument(app, "SHELL", options.shell, Choices(shells), "Which shell")
      ->required()
      ->check([shells](const std::string& word) {
        const bool known = std::find(shells.begin(), shells.end(), word) != shells.end();
        return known ? ""
                     : "no completion for '" + word + "'; use " + shells[0] + " or " + shells[1];
      });
}

}  // namespace kcc::cli
