// What the benchmark's upstream says: a model by formula, in the formats of vLLM.
//
// The log-prob of token v after token u is -r/10 - log Z, with r = (v - 7 u) mod 512: raw, sure
// enough for lists of 20, and cheap. Answers are greedy, so that what is served is what an audit
// scores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kcc::bench {

inline constexpr int kVocab = 512;
inline constexpr int kAnswerTokens = 16;

struct Ask {
  std::string id;  // "ask-17", that the answer repeats
  bool stream = false;
  bool sampled = false;  // log-probs and token ids are asked for
  int64_t chunks = 0;    // of a stream
  int64_t every_us = 0;  // from one to the next
};
Ask ReadAsk(std::string_view body);

std::string Head(int status, size_t length);  // of a whole answer
std::string StreamHead();
std::string WholeAnswer(const Ask& ask);
// One event, as a chunk of chunked coding; `number` from 0. The text is "ID:NUMBER:NANOSECONDS ".
std::string StreamChunk(const Ask& ask, int64_t number, int64_t now_ns);
std::string StreamEnd(const Ask& ask);

// The other routes that kcc asks of a server: /version, /v1/models, and prompts to be scored.
std::string Version();
std::string Models();
bool IsScoring(std::string_view body);
size_t PromptTokens(std::string_view body);
// A prompt of ids to go on from, by which kcc learns what the log-probs of answers mean.
bool IsGeneration(std::string_view body);
std::string Generated(std::string_view body);
std::string Tokenized();
bool AsksVocabulary(std::string_view body);
std::string VocabularyError();
std::string Scored(std::string_view body);

}  // namespace kcc::bench
