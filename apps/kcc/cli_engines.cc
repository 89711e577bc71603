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

}  // namespace kcc::cli
