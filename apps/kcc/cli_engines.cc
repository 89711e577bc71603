// The commands that ask engines: score, generate, attribute, lab; and the flags about engines and
// about measuring that other commands take too.
#include "apps/kcc/cli_program.h"
#include "kcc/numeric/target.h"

namespace kcc::cli {
namespace {

CLI::App* DeclareTraceMaker(Program& program, ScoreOptions& options, const char* name,
                            const char* help, const char* examples,
                            int (*run)(const ScoreOptions&, Console&)) {
  CLI::App* app = Declare(program, name, help, examples,
                          [&options, run](Console& console) { return run(options, console); });
  Argument(app, "KERNEL", options.kernel, "KERNEL", "The kernel")->required();
  app->add_option("-o,--output", options.output, "Directory of the trace to write")
      ->type_name("DIR")
      ->required();
  // Not looked up by its name: CLI11 does that in a function that must not throw, and allocates.
  DeclareKernelFlags(app, options.kernels)->required();
  return app;
}

}  // namespace

CLI::Option* DeclareKernelFlags(CLI::App* app, KernelFlags& flags) {
  CLI::Option* requests = app->add_option("--requests", flags.requests,
                                          "What the kernels are asked: a requests file, or a trace")
                              ->type_name(std::string(kFileValue));
  app->add_option("--batch", flags.batch, "Requests per batch")
      ->type_name("N")
      ->check(Between(1, 1 << 30));
  app->add_option("--repeat", flags.repeat, "Ask each request N times, for clauses on replays")
      ->type_name("N")
      ->check(Between(1, 1000));
  AddChoice(app, "--sampled-by", flags.sampled_by, {"infer", "train", "dataset"},
            "Who chose the tokens of the requests file");
  app->add_option("--sampling-temperature", flags.sampling_temperature,
                  "Temperature at which they were sampled; 0: greedily")
      ->type_name("T")
      ->check(AtLeastZero());
  app->add_option("--start-timeout", flags.start_timeout_s,
                  "Seconds that an engine may take to start")
      ->type_name("S")
      ->check(AboveZero());
  app->add_option("--batch-timeout", flags.batch_timeout_s,
                  "Seconds that an engine may take for a batch")
      ->type_name("S")
      ->check(AboveZero());
  app->add_option("--scratch", flags.scratch, "Directory for batches while they are measured")
      ->type_name("DIR");
  return requests;
}

void DeclareMeasureFlags(CLI::App* app, MeasureFlags& flags) {
  app->add_option("--threads", flags.threads, "Number of threads; default: one per core")
      ->type_name("N")
      ->check(Between(1, 1024));
  // All of them, so that help does not depend on the CPU; one it lacks is refused when run.
  std::vector<std::string> targets;
  targets.reserve(std::size(kAllTargets));
  for (const Target target : kAllTargets) {
    targets.emplace_back(TargetName(target));
  }
  AddChoice(app, "--target", flags.target, targets,
            "Vector instructions to use; all give the same bits");
  AddChoice(app, "--device", flags.device, {"cpu", "cuda"},
            "What measures full logits; default: cpu");
  app->add_option("--cuda-library", flags.cuda_library, "libkcc_cuda.so; default: beside kcc")
      ->type_name(std::string(kFileValue));
  app->add_flag("--verify", flags.verify,
                "First read every byte of the traces, and record digests");
  app->add_option("--temperature", flags.temperature, "Compare logits at this temperature")
      ->type_name("T")
      ->check(AboveZero());
  AddSwitch(app, "--other-model", flags.other_model, "Allow traces of two different models");
}

void DeclareScore(Program& program) {
  DeclareTraceMaker(program, program.score, "score",
                    "Let a kernel score given tokens; write a trace",
                    "kcc score 'exec:./engine.py' --requests r.jsonl -o traces/infer", RunScore);
}

void DeclareGenerate(Program& program) {
  Sampling& sampling = program.generate.sampling;
  CLI::App* app = DeclareTraceMaker(
      program, program.generate, "generate", "Let a kernel continue prompts; write a trace",
      "kcc generate 'exec:./engine.py' --requests r.jsonl --temperature 0 -o traces/greedy\n"
      "kcc generate 'exec:./engine.py' --requests r.jsonl --seed 7 --max-tokens 64 -o traces/a",
      RunGenerate);
  app->add_option("--temperature", sampling.temperature, "Sampling temperature; 0 is greedy")
      ->type_name("T")
      ->check(AtLeastZero());
  app->add_option("--top-k", sampling.top_k, "Sample from the K most likely tokens; 0: from all")
      ->type_name("K")
      ->check(AtLeastZero());
  app->add_option("--top-p", sampling.top_p,
                  "Sample from the likeliest tokens that hold this probability")
      ->type_name("P")
      ->check(Between(0.0, 1.0));
  app->add_option("--seed", sampling.seed, "Seed of the run")->type_name("N");
  app->add_option("--max-tokens", sampling.output_tokens_max, "Longest continuation, in tokens")
      ->type_name("N")
      ->check(Between(1, 1 << 24));
  app->add_option("--stop", sampling.stop, "Token ids that end a continuation")
      ->type_name("ID")
      ->delimiter(',');
}

void DeclareAttribute(Program& program) {
  auto& options = program.attribute;
  options.kernels.batch = 64;
  CLI::App* app = Declare(
      program, "attribute", "Split the drift between two kernels among its four sources",
      "kcc attribute --train lab:train --infer lab:fp8 --max-requests 40 -o attribution.html\n"
      "kcc attribute --train lab:f32 --infer 'lab:custom?kv=e4m3' --first-divergence\n"
      "kcc attribute --train 'exec:./engine.py' --infer 'exec:./engine.py --kv=fp8' "
      "--requests r.jsonl",
      [&](Console& console) { return RunAttribute(options, console); });
  DeclarePair(app, options.train, options.infer);
  app->add_option("--contract", options.contract, "Attribute on the slices of this contract too")
      ->type_name(std::string(kFileValue));
  app->add_option("--quantity", options.quantities,
                  "Token quantities to attribute; default: six of them")
      ->type_name("NAME")
      ->delimiter(',');
  app->add_option("--max-requests", options.requests_max, "Use N requests, spread evenly; 0: all")
      ->type_name("N")
      ->check(AtLeastZero());
  app->add_option("-o,--output", options.output, "Write the page with the waterfalls")
      ->type_name(std::string(kFileValue));
  AddSwitch(app, "--first-divergence", options.first_divergence,
            "Instead, name the first operator at which two lab kernels differ");
  DeclareKernelFlags(app, options.kernels);
}

void DeclareReplay(Program& program) {
  auto& options = program.replay;
  CLI::App* app =
      Declare(program, "replay", "Run a stored request again under both kernels",
              "kcc replay req-17 --register r.db --train lab:train --infer lab:fp8\n"
              "kcc replay sha256:1a2b --register r.db --train 'exec:./a.py' --infer 'exec:./b.py'\n"
              "kcc replay record.json --train lab:train --infer lab:fp8 --requests r.jsonl",
              [&](Console& console) { return RunReplay(options, console); });
  Argument(app, "REQUEST", options.request, kFileValue,
           "Its id or digest in the register; without --register, the file of its record")
      ->required();
  app->add_option("--train", options.train, "The training kernel")->type_name("KERNEL")->required();
  app->add_option("--infer", options.infer, "The inference kernel")
      ->type_name("KERNEL")
      ->required();
  app->add_option("--register", options.record.uri, "The register: a file or postgresql://…")
      ->type_name("URI");
  app->add_option("--requests", options.kernels.requests,
                  "Where its token ids are, if the record has digests alone")
      ->type_name(std::string(kFileValue));
  AddSwitch(app, "--alone", options.alone, "Ask it alone, not in a batch of the stored shape");
  AddSwitch(app, "--no-attribution", options.no_attribution, "Do not look for the source");
  app->add_option("--quantity", options.quantities, "Token quantities to attribute; default: kl")
      ->type_name("NAME")
      ->delimiter(',');
  app->add_option("--start-timeout", options.kernels.start_timeout_s,
                  "Seconds that an engine may take to start")
      ->type_name("S")
      ->check(AboveZero());
  app->add_option("--batch-timeout", options.kernels.batch_timeout_s,
                  "Seconds that an engine may take for a batch")
      ->type_name("S")
      ->check(AboveZero());
  app->add_option("--scratch", options.kernels.scratch, "Directory for what the kernels write")
      ->type_name("DIR");
}

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
  DeclareLabServe(program, group);
}

}  // namespace kcc::cli
