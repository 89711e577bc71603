#include "kcc/trace/import.h"

#include <array>

#include "kcc/trace/import_formats.h"

namespace kcc {
namespace {

// clang-format off
constexpr std::array<Importer, 9> kImporters = {{
    {"npy", "NumPy arrays named token, logits, logprob … (.npy or .npz)",
     "arrays.npz | token.npy logits.npy … [requests.jsonl]", &ImportNpy},
    {"vllm", "vLLM responses of /v1/completions, /v1/chat/completions, /inference/v1/generate",
     "responses.jsonl …", &ImportVllm},
    {"sglang", "SGLang responses of /generate, or of the OpenAI routes with return_meta_info",
     "responses.jsonl …", &ImportSglang},
    {"llamacpp", "llama.cpp server responses of /completion and the OpenAI routes",
     "responses.jsonl …", &ImportLlamacpp},
    {"llama-kld", "the file of llama-perplexity --kl-divergence-base",
     "base.kld", &ImportLlamaKld},
    {"prime-rl", "token exports of prime-rl, either side (--side train|infer)",
     "rank_0.jsonl … | step_N/", &ImportPrimeRl},
    {"vexact", "VeXact's dump directory: all_logits.pt, all_token_ids_list.json, metadata.json",
     "directory", &ImportVexact},
    {"trtllm", "trtllm-serve responses of /v1/completions with detokenize: false",
     "responses.jsonl …", &ImportTrtllm},
    {"tgi", "Text Generation Inference responses of /generate with details",
     "responses.jsonl …", &ImportTgi},
}};
// clang-format on

}  // namespace

Result<> CheckTemperatureGiven(const ImportOptions& options) {
  if (options.temperature || !options.semantics || *options.semantics == LogprobSemantics::kRaw) {
    return {};
  }
  return InvalidError("the numbers are said to be " + std::string(Name(*options.semantics)) +
                      " and not at which temperature; give --temperature");
}

std::span<const Importer> Importers() { return kImporters; }

const Importer* FindImporter(std::string_view name) {
  for (const Importer& importer : kImporters) {
    if (importer.name == name) return &importer;
  }
  return nullptr;
}

}  // namespace kcc
