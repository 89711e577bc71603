// What the four servers understand: requests as bodies, answers as tokens with their log-probs.
//
// Only token ids go out, never text. Each route has a list of the fields it knows, and nothing else
// is sent: TensorRT-LLM rejects what it does not know, the others silently ignore it.
//
//              prefill path                                   decode path
//   vLLM       /v1/completions, prompt_logprobs                /inference/v1/generate, trace replay
//   SGLang     /generate, logprob_start_len = prompt - 1       none
//   llama.cpp  /completion, one call a token                   /completion, forced by a grammar
//   TRT-LLM    /v1/completions, return_context_logits          none
//
// Shapes and traps: docs/servers.md. The answers are read by the importers' parsers (kcc/trace);
// here it is checked that an answer is about exactly the tokens that were asked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/server_options.h"
#include "kcc/trace/import_responses.h"

namespace kcc {

// A server as it was found at the start.
struct ServerFacts {
  ServerKind kind = ServerKind::kVllm;
  TracePath path = TracePath::kPrefill;
  std::string version;
  std::string model;
  int64_t vocab_size = 0;
  std::vector<int32_t> end;                    // llama.cpp: ids that end a generation
  std::vector<ServerOptions::Field> extra;     // fields of the user's
  std::vector<ServerOptions::Field> identity;  // what the version endpoints say; name and text
};

// One sequence to score.
struct ScoreAsk {
  std::span<const int32_t> tokens;
  int32_t prompt_tokens = 1;
  double temperature = 1.0;
  int32_t top = 20;
  bool narrow = false;  // sampling by the two best alone: shows in processed log-probs only
  bool whole = false;   // the whole vocabulary instead of `top` (llama.cpp, prefill path)
};

// What an answer says, at the positions that were asked.
struct ScoreAnswer {
  std::string fingerprint;  // system_fingerprint or weight_version; may be empty
  std::vector<ImportedToken> tokens;
  double seconds = 0;  // from sending to the end of the answer; of generated ones
};

// The server's path, or why it does not have the one that was asked for.
Result<TracePath> ChoosePath(ServerKind kind, std::optional<TracePath> asked);

// Fails on a field that the route does not know or that kcc itself sets.
Result<> CheckExtraFields(const ServerFacts& facts);

// Fails on a sequence that this server cannot be asked about. Ids outside the vocabulary must not
// be sent: vLLM's engine dies of them.
Result<> CheckAskable(const ServerFacts& facts, const ScoreAsk& ask);

// How many calls a sequence takes; each scores a part of it.
size_t ScoreCalls(const ServerFacts& facts, const ScoreAsk& ask);
HttpCall ScoreCall(const ServerFacts& facts, const ScoreAsk& ask, size_t part,
                   const std::string& salt);
Result<ScoreAnswer> ReadScore(const ServerFacts& facts, const ScoreAsk& ask, size_t part,
                              const std::string& body);

// llama.cpp keeps back the numbers of a token that is a fragment of a character. True for such an
// answer: the part is then asked again with `whole`, where an end token is forced in its place and
// the fragment is found among all tokens.
bool KeepsFragmentBack(const ServerFacts& facts, const std::string& body);

// One continuation to be written.
struct GenerateAsk {
  std::span<const int32_t> prompt;
  Sampling sampling;
  uint64_t seed = 0;
  int32_t top = 20;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
};
HttpCall GenerateCall(const ServerFacts& facts, const GenerateAsk& ask, const std::string& salt);
Result<ScoreAnswer> ReadGenerated(const ServerFacts& facts, const GenerateAsk& ask,
                                  const std::string& body);

}  // namespace kcc
