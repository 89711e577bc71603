// The commands for what comes before a run.
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

}  // namespace kcc::cli
