// What the server knows of a model besides its weights: its name, its tokenizer, its chat template
// and what ends a generation. Read once, at the start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/serve/chat_template.h"
#include "kcc/serve/tokenizer.h"

namespace kcc {

struct ServedModel {
  // `positions` is the longest sequence that is served. A model whose tokenizer is missing or of
  // another kind is served by token ids (`no_text` says why); a chat template that cannot be read
  // is an error, since chat would be rendered otherwise than it was trained.
  static Result<ServedModel> Read(const std::string& directory, size_t vocab, size_t positions);

  std::string name;
  size_t vocab = 0;
  size_t positions = 0;
  std::vector<int32_t> eos;
  std::optional<int32_t> output_tokens_default;  // max_new_tokens of generation_config.json
  std::optional<ByteTokenizer> tokenizer;
  std::string no_text;
  ChatTemplate chat = ChatTemplate::Plain();
  std::string bos_token;
  std::string eos_token;

  bool HasToken(int64_t id) const { return id >= 0 && static_cast<size_t>(id) < vocab; }
  // The token's bytes; empty without a tokenizer.
  std::string_view Bytes(int32_t token, bool skip_special) const {
    return tokenizer ? tokenizer->Bytes(token, skip_special) : std::string_view();
  }
};

}  // namespace kcc
