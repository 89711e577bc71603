// Importers: a trace from what users already have. One table, one row a format.
//
// Each importer takes files as their source writes them and gives a TraceWriter the requests and
// tokens in them. What a format leaves unsaid (fingerprint, vocabulary, temperature) comes from
// ImportOptions; what it says wrongly or ambiguously is an error with its remedy, never a guess:
// log-probs are placed at the token they belong to, sentinels (-9999.0, -3.4e38, null, NaN) become
// "no log-prob" or an error, never a number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/trace.h"

namespace kcc {

enum class ImportSide : uint8_t { kTrain, kInfer };

struct ImportOptions {
  std::string fingerprint;  // required unless every record carries one
  std::string model_digest;
  int64_t vocab_size = 0;  // required where the format does not tell it
  std::optional<LogprobSemantics> semantics;
  std::optional<double> temperature;
  std::optional<TraceMode> mode;
  std::optional<TracePath> path;
  std::optional<SampledBy> sampled_by;
  // Formats that hold both sides (prime-rl): which one to take.
  std::optional<ImportSide> side;
  // Responses that hold prompt and output evidence: take the prompt's (scored, prefill path) or
  // the output's (decode path). Default: the prompt's if the record has it.
  std::optional<bool> prompt;
  // First position that is output, where a record does not say how long its prompt is.
  std::optional<int64_t> prompt_tokens;
  int32_t top_k = 0;  // keep at most this many alternatives; 0: what the first record holds
  // A token without a log-prob (null, NaN, -9999.0, -3.4e38) is an error; with this it is kept as
  // one that does not count.
  bool mask_missing = false;
  // What arrays of a dump are called there and here: ("logp_new", "train").
  std::vector<std::pair<std::string, std::string>> names;
  // Arrays of logits where row t predicts token t + 1, as a forward pass gives them.
  bool next_token_logits = false;
  bool replace = false;
};

struct ImportReport {
  int64_t requests = 0;
  int64_t tokens = 0;
  int64_t logprobs_missing = 0;       // kept as not counting (ImportOptions::mask_missing)
  std::vector<std::string> warnings;  // each a full sentence
};

using ImportFunction = Result<ImportReport> (*)(std::span<const std::string> inputs,
                                                const std::string& output,
                                                const ImportOptions& options);

struct Importer {
  std::string_view name;    // "vllm"
  std::string_view reads;   // "responses of vLLM, one JSON object a line"
  std::string_view inputs;  // "responses.jsonl …"
  ImportFunction run;
};

std::span<const Importer> Importers();
const Importer* FindImporter(std::string_view name);

}  // namespace kcc
