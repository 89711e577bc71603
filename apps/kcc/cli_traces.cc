// The commands about trace files: trace, import.
#include "apps/kcc/cli_program.h"
#include "kcc/rl/dump_import.h"
#include "kcc/trace/import.h"

namespace kcc::cli {

void DeclareTrace(Program& program) {
  auto& options = program.trace;
  CLI::App* group = program.root.add_subcommand("trace", "Look into a trace, and check it");
  group->footer("kcc trace info traces/infer");
  group->require_subcommand(1);
  const auto declare = [&](const char* name, const char* help, const char* example,
                           int (*run)(const TraceOptions&, Console&)) {
    CLI::App* app = Declare(
        program, name, help, example,
        [&options, run](Console& console) { return run(options, console); }, group);
    Argument(app, "TRACE", options.directory, kFileValue, "The trace's directory")->required();
    return app;
  };
  declare("info", "Say what a trace holds and how it was made", "kcc trace info traces/infer",
          RunTraceInfo);
  declare("head", "Print the first rows of a trace", "kcc trace head traces/infer -n 5",
          RunTraceHead)
      ->add_option("-n,--rows", options.rows, "How many rows; default: 10")
      ->type_name("N")
      ->check(Between(1, 1000000));
  declare("verify", "Read and check every byte of a trace", "kcc trace verify traces/infer",
          RunTraceVerify);
}

void DeclareImport(Program& program) {
  auto& options = program.import;
  ImportOptions& import = options.import;
  CLI::App* app = Declare(program, "import", "Make a trace from what a server or a trainer wrote",
                          "kcc import vllm responses.jsonl --vocab-size 128256 --fingerprint "
                          "vllm-0.18 -o traces/infer\n"
                          "kcc import llama-kld base.kld -o traces/base",
                          [&](Console& console) { return RunImport(options, console); });
  std::vector<std::string> formats;
  for (const Importer& row : Importers()) formats.emplace_back(row.name);
  for (const Importer& row : RlImporters()) formats.emplace_back(row.name);
  Argument(app, "FORMAT", options.format, Choices(formats), "What wrote the input")->required();
  Argument(app, "INPUT", options.inputs, kFileValue, "The files to read")->required();
  app->add_option("-o,--output", options.output, "Directory of the trace to write")
      ->type_name("DIR")
      ->required();
  app->add_option("--fingerprint", import.fingerprint, "What identifies the kernel build")
      ->type_name("TEXT");
  app->add_option("--model-digest", import.model_digest, "sha256:… of the weights")
      ->type_name("DIGEST");
  app->add_option("--vocab-size", import.vocab_size,
                  "Vocabulary size, where the input does not say")
      ->type_name("N")
      ->check(Between(1, static_cast<double>(kVocabSizeMax)));
  AddChoice(app, "--semantics", options.semantics, {"raw", "temperature-scaled", "processed"},
            "What the log-probs mean, where the input does not say");
  app->add_option("--temperature", import.temperature, "Sampling temperature")
      ->type_name("T")
      ->check(AboveZero());
  AddChoice(app, "--mode", options.mode, {"scored", "generated"},
            "Whether the kernel was given the tokens or wrote them");
  AddChoice(app, "--sampled-by", options.sampled_by, {"infer", "train", "dataset"},
            "Who chose the tokens");
  AddChoice(app, "--side", options.side, {"train", "infer"},
            "Which side to take where the input holds both");
  app->add_option("--map", options.names,
                  "The array THEIRS of a dump is OURS (train, rollout, mask, tokens); repeatable")
      ->type_name("THEIRS=OURS")
      ->allow_extra_args(false);
  AddSwitch(app, "--prompt", options.prompt, "Take the prompt's log-probs, not the output's");
  app->add_option("--prompt-tokens", import.prompt_tokens, "Length of the prompt, in tokens")
      ->type_name("N");
  app->add_option("--top-k", import.top_k, "Keep at most this many alternatives")->type_name("K");
  AddSwitch(app, "--mask-missing", import.mask_missing,
            "Keep tokens without a log-prob, but do not count them");
  AddSwitch(app, "--next-token-logits", import.next_token_logits,
            "Row t of the logits predicts token t + 1");
  AddSwitch(app, "--replace", import.replace, "Replace an existing trace");
}

}  // namespace kcc::cli
