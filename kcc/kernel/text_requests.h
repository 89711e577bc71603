// Requests from text: prompts and outputs as people write them, and the requests file that is made
// of them once somebody has said which token ids they are. kcc has no tokenizer of its own: the ids
// come from the server that will be asked, or from a tokenizer file through Python.
//
// A line of a prompts file is an object: {"prompt": "text", "output": "text", "id", …}. `output`
// may be missing, in all lines; `id` is "line-N" where it is missing; every further field is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/uri.h"

namespace kcc {

// A text, and whether what a sequence begins with (a begin-of-text token) belongs before it.
struct TokenText {
  std::string text;
  bool begins = false;
};
using TokenIds = std::vector<int32_t>;

class TextRequests {
 public:
  // Reads all of them. Fails, naming the line, on what is no such object.
  static Result<TextRequests> Read(const std::string& path);

  // What must be tokenised: prompts, which begin a sequence, and outputs, which go on.
  const std::vector<TokenText>& texts() const { return texts_; }
  size_t count() const { return requests_.size(); }
  bool have_outputs() const { return have_outputs_; }
  int line(size_t request) const { return requests_[request].line; }

  // The requests file, given the ids of texts(), one list each. Fails on a prompt without a token.
  Result<std::string> Lines(std::span<const TokenIds> ids) const;

 private:
  struct One {
    int line = 0;
    std::string id;
    std::string rest;  // the further members as JSON, each with a comma before it
  };
  std::string path_;
  std::vector<One> requests_;
  std::vector<TokenText> texts_;  // of each request: prompt, then output where there are outputs
  bool have_outputs_ = false;
};

// The ids by the tokenizer of the server at `uri`, which must have a route for it.
Result<std::vector<TokenIds>> TokenizeAtServer(const KernelUri& uri, const KernelOpenOptions& open,
                                               std::span<const TokenText> texts);

// The texts, one object a line, for a program that tokenises them (python/kcc/tokens.py), and the
// lists that it answers with, one a line.
std::string TokenTextLines(std::span<const TokenText> texts);
Result<std::vector<TokenIds>> ReadTokenIds(const std::string& path, size_t count);

}  // namespace kcc
