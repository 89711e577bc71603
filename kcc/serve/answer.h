// Answers as vLLM writes them: whole bodies and the chunks of a stream, for the three kinds of
// request. Log-probs are floats in the shortest decimal of their double, so that a reader gets the
// same bits back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kcc/serve/generation_request.h"
#include "kcc/serve/sequence_ask.h"
#include "kcc/serve/served_model.h"

namespace kcc {

// What every body of one answer repeats.
struct AnswerHead {
  std::string id;
  int64_t created_s = 0;
  std::string fingerprint;
};

struct AnswerUsage {
  size_t prompt_tokens = 0;
  size_t output_tokens = 0;
};

// Why a choice ended beyond its finish_reason: a text, an id, or nothing.
using StopReason = std::variant<std::monostate, std::string, int32_t>;

// A choice, or what is new of it in a chunk.
struct AnswerChoice {
  size_t index = 0;
  const std::vector<int32_t>* prompt = nullptr;              // null: not given out
  const std::vector<TokenRecord>* prompt_records = nullptr;  // null: not given out
  std::string text = {};
  std::vector<TokenRecord> records = {};
  std::optional<FinishReason> finish = {};
  StopReason stop = {};
  size_t text_offset = 0;  // of the first record's token, in characters
  bool first = false;      // the chunk that begins a choice of chat
};

class AnswerWriter {
 public:
  // All of them outlive the writer.
  AnswerWriter(const AnswerHead& head, const GenerationRequest& request, const ServedModel& model)
      : head_(head), request_(request), model_(model) {}

  std::string Whole(const std::vector<AnswerChoice>& choices, const AnswerUsage& usage) const;
  std::string Chunk(const AnswerChoice& choice) const;
  // The last chunk of a stream with stream_options.include_usage.
  std::string UsageChunk(const AnswerUsage& usage) const;

  // The text that stands for a token in lists of log-probs.
  std::string TokenText(int32_t token) const;

 private:
  class Body;
  const AnswerHead& head_;
  const GenerationRequest& request_;
  const ServedModel& model_;
};

}  // namespace kcc
