// The commands of the lab: its kernels, experiments, server and trainer.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {
namespace {

void DeclareLabServe(Program& program, CLI::App* group) {
  auto& options = program.lab_serve;
  CLI::App* app = Declare(
      program, "serve", "Serve the model over HTTP, in the formats of OpenAI and vLLM",
      "kcc lab serve\n"
      "kcc lab serve lab:fp8 --port 0 --max-batch 64\n"
      "kcc lab serve 'lab:bf16?kv=e4m3' --allow-faults --admin-port 8001",
      [&options](Console& console) { return RunLabServe(options, console); }, group);
  Argument(app, "KERNEL", options.kernel, "KERNEL", "A kernel of the lab; default: lab:f32");
  app->add_option("--host", options.host, "The address to listen on; default: 127.0.0.1")
      ->type_name("ADDRESS");
  app->add_option("--port", options.port, "The port to listen on (8000); 0: any that is free")
      ->type_name("N")
      ->check(Between(0, 65535));
  app->add_option("--model", options.model, "The checkpoint; default: the shipped model")
      ->type_name("DIR");
  app->add_option("--max-batch", options.batch_max,
                  "Sequences that run at once; default: the kernel's concurrency, 16")
      ->type_name("N")
      ->check(Between(1, 1024));
  app->add_option("--max-queue", options.queue_max,
                  "Sequences that may wait (256); requests beyond are refused with 429")
      ->type_name("N")
      ->check(Between(1, 1e6));
  app->add_option("--threads", options.threads, "Threads of the engine; default: the kernel's, 2")
      ->type_name("N")
      ->check(Between(1, 64));
  AddSwitch(app, "--allow-faults", options.allow_faults,
            "Take faults on an admin port, which listens on 127.0.0.1 alone");
  app->add_option("--admin-port", options.admin_port, "The admin port; default: any that is free")
      ->type_name("N")
      ->check(Between(0, 65535));
}

// What decides the bits of a run, but for kernel and examples.
void DeclareTrainRecipe(CLI::App* app, LabTrainOptions& options) {
  app->add_option("--steps", options.steps, "Steps of the run; default: as many as --epochs take")
      ->type_name("N")
      ->check(Between(1, 1e9));
  app->add_option("--epochs", options.epochs, "How often every example is taken (1)")
      ->type_name("N")
      ->check(Between(1, 1e6));
  app->add_option("--batch-tokens", options.batch_tokens,
                  "A step takes examples until they have N tokens (4096)")
      ->type_name("N")
      ->check(Between(1, 1e9));
  app->add_option("--pack-tokens", options.pack_tokens,
                  "Tokens that are computed at once, which memory grows with (4096)")
      ->type_name("N")
      ->check(Between(1, 1e9));
  app->add_option("--rate", options.rate, "The highest learning rate (0.001)")
      ->type_name("R")
      ->check(AboveZero());
  AddChoice(app, "--schedule", options.schedule, {"constant", "linear", "cosine"},
            "How the rate falls after the warmup");
  app->add_option("--floor", options.floor, "Where it falls to, as a share of the highest (0.02)")
      ->type_name("R")
      ->check(Between(0.0, 1.0));
  app->add_option("--warmup", options.warmup, "Steps in which the rate rises (0)")
      ->type_name("N")
      ->check(Between(0, 1e9));
  app->add_option("--decay", options.decay, "Weight decay of the matrices (0.05)")
      ->type_name("R")
      ->check(AtLeastZero());
  app->add_option("--clip", options.clip, "Longest gradient (1); 0: no limit")
      ->type_name("R")
      ->check(AtLeastZero());
  app->add_option("--prompt-weight", options.prompt_weight,
                  "Weight of a prompt's token in the loss (0); one of an output weighs 1")
      ->type_name("R")
      ->check(Between(0.0, 1.0));
  app->add_option("--seed", options.seed, "Seed of the order, and of random weights (1)")
      ->type_name("N");
}

void DeclareLabTrain(Program& program, CLI::App* group) {
  auto& options = program.lab_train;
  CLI::App* app = Declare(
      program, "train", "Train a model through the engine's own forward pass",
      "kcc lab train r.jsonl -o run --epochs 3\n"
      "kcc lab train r.jsonl -o run --epochs 3 --resume\n"
      "kcc lab train docs.jsonl --config config.json --prompt-weight 1 --steps 2000 -o run",
      [&options](Console& console) { return RunLabTrain(options, console); }, group);
  Argument(app, "EXAMPLES", options.examples, kFileValue,
           "A requests file: prompts and the outputs to learn")
      ->required();
  app->add_option("-o,--output", options.output,
                  "Folder of the run, and of the checkpoint it makes")
      ->type_name("DIR")
      ->required();
  app->add_option("--model", options.model,
                  "The checkpoint to start from; default: the shipped model")
      ->type_name("DIR");
  app->add_option("--config", options.config, "A config.json: start from random weights instead")
      ->type_name(std::string(kFileValue));
  app->add_option("--kernel", options.kernel, "The kernel whose forward pass is trained (lab:f32)")
      ->type_name("KERNEL");
  AddSwitch(app, "--resume", options.resume, "Go on with the run in the folder");
  DeclareTrainRecipe(app, options);
  app->add_option("--save-every", options.save_every, "Steps between two saved states (100)")
      ->type_name("N")
      ->check(Between(1, 1e9));
  AddChoice(app, "--dtype", options.dtype, {"f32", "bf16"}, "Format of the checkpoint's weights");
  app->add_option("--threads", options.threads, "Number of threads; default: the kernel's, 2")
      ->type_name("N")
      ->check(Between(1, 64));
}

void DeclareLabVerify(Program& program, CLI::App* group) {
  auto& options = program.lab_verify;
  CLI::App* app = Declare(
      program, "verify-exact", "Count unequal bits between rollouts and training",
      "kcc lab verify-exact --quick\n"
      "kcc lab verify-exact 'lab:fp8?batch=invariant' --tokens 1000000",
      [&options](Console& console) { return RunLabVerify(options, console); }, group);
  Argument(app, "KERNEL", options.kernels, "KERNEL",
           "Kernels of the lab; default: f32, bf16-invariant, and fp8, int4 and int3 with "
           "batch=invariant")
      ->expected(0, 64);
  app->add_option("--model", options.model, "The checkpoint; default: the shipped model")
      ->type_name("DIR");
  app->add_option("--requests", options.requests,
                  "Prompts to continue; default: the eval.jsonl of the model")
      ->type_name(std::string(kFileValue));
  app->add_option("--tokens", options.tokens, "Tokens of rollouts to compare, a kernel (1000000)")
      ->type_name("N")
      ->check(Between(1, 1e12));
  app->add_option("--max-tokens", options.output_tokens, "Length of a rollout, in tokens (64)")
      ->type_name("N")
      ->check(Between(2, 1 << 20));
  app->add_option("--seed", options.seed, "Seed of the rollouts (1)")->type_name("N");
  AddSwitch(app, "--quick", options.quick, "Compare 4000 tokens");
  app->add_option("--scratch", options.scratch, "Directory for batches while they are measured")
      ->type_name("DIR");
}

}  // namespace

void DeclareLab(Program& program) {
  auto& options = program.lab;
  CLI::App* group = program.root.add_subcommand(
      "lab", "A small engine in which every source of error has a switch");
  group->footer("kcc lab list\nkcc lab e1 -o out");
  group->require_subcommand(1);
  Declare(
      program, "list", "List the kernels and switches of the lab", "kcc lab list",
      [](Console& console) { return RunLabList(console); }, group);
  const auto declare = [&](const char* name, const char* help, const char* example,
                           int (*run)(const LabOptions&, Console&)) {
    CLI::App* app = Declare(
        program, name, help, example,
        [&options, run](Console& console) { return run(options, console); }, group);
    app->add_option("--model", options.model, "The checkpoint; default: the shipped model")
        ->type_name("DIR");
    app->add_option("--requests", options.requests,
                    "Requests file; default: the eval.jsonl of the model")
        ->type_name(std::string(kFileValue));
    app->add_option("--contract", options.contract,
                    "Slices and clauses; default: the shipped lab.yaml")
        ->type_name(std::string(kFileValue));
    app->add_option("--max-requests", options.requests_max, "Use N requests, spread evenly; 0: all")
        ->type_name("N")
        ->check(AtLeastZero());
    AddSwitch(app, "--quick", options.quick,
              "Use a few requests only, to see the pages in seconds");
    app->add_option("-o,--output", options.output,
                    "Directory for the page, the table and the figures")
        ->type_name("DIR")
        ->required();
    return app;
  };
  declare("e1", "Measure the drift of one switch at a time: experiment E1", "kcc lab e1 -o out",
          RunLabE1);
  CLI::App* sweep = declare("e2", "Pass rates by engine, length, load and slice: experiment E2",
                            "kcc lab e2 -o out\n"
                            "kcc lab e2 -o out --engine fp8,'bf16?kv=e5m2' --length 0,1024,8192",
                            RunLabE2);
  sweep->add_option("--engine", options.engines, "Engines of the lab, as in fp8 or 'bf16?kv=e5m2'")
      ->type_name("NAME")
      ->delimiter(',');
  sweep->add_option("--length", options.lengths, "Lengths of the prompts in tokens; 0: as they are")
      ->type_name("N")
      ->delimiter(',');
  DeclareLabTrain(program, group);
  DeclareLabRl(program, group);
  DeclareLabVerify(program, group);
  DeclareLabServe(program, group);
}

}  // namespace kcc::cli
