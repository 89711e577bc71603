// One sequence for the engine: a prompt, how it goes on, and which numbers are wanted; and what
// comes back of it. Between the API above (exchange.h) and the engine below (batcher.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kcc/kernel/kernel.h"

namespace kcc {

// What a fault does to every row of logits, before anything reads it:
// logit / temperature + noise · u, with u uniform, of mean 0 and variance 1, and drawn from the
// seed, the position and the token's id.
struct LogitChange {
  double temperature = 1;
  double noise = 0;
  uint64_t seed = 0;

  bool none() const { return temperature == 1 && noise == 0; }
};

struct SequenceAsk {
  std::string id;  // decides the replica (switch `route`)
  std::vector<int32_t> prompt;
  std::vector<int32_t> forced;  // given out in place of sampled tokens, if there are any
  Sampling sampling;            // temperature, top_k, top_p
  uint64_t seed = 0;            // drawn from as by kcc/lab/sampler.h
  int32_t output_tokens_max = 1;
  int32_t output_tokens_min = 0;  // before, no end token is drawn
  std::vector<int32_t> end;       // ids that end the sequence; the token is given out
  std::map<int32_t, float> bias;  // of what is drawn from; log-probs are without it
  std::optional<int32_t> top;     // alternatives of a token; none: no log-probs
  std::optional<int32_t> prompt_top;
  LogitChange change;
};

struct TopLogprob {
  int32_t token = 0;
  float logprob = 0;
};

// A token that was given out, or one of the prompt.
struct TokenRecord {
  int32_t token = 0;
  float logprob = 0;  // raw: of the logits, whatever was drawn from; 0 unless asked for
  int32_t rank = 0;   // 1 for the best
  std::vector<TopLogprob> top = {};  // the best, by falling log-prob
};

enum class FinishReason : uint8_t { kStop, kLength };

// Hears about the sequences of one request, on the engine's thread: of each OnPrompt (if it was
// asked for) before OnToken before OnEnd.
class SequenceListener {
 public:
  virtual ~SequenceListener() = default;
  // The prompt's tokens from the second on.
  virtual void OnPrompt(size_t index, std::vector<TokenRecord> records) = 0;
  // False: enough, the sequence ends here.
  virtual bool OnToken(size_t index, TokenRecord record) = 0;
  // `end` is the id that ended it, if one did.
  virtual void OnEnd(size_t index, FinishReason reason, std::optional<int32_t> end) = 0;
  // Instead of all that would follow.
  virtual void OnFailure(const std::string& message) = 0;
};

}  // namespace kcc
