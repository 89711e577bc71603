// The tokenizer of a model whose tokens are bytes: a token for each of the 256 byte values, and
// added tokens (`<s>`, `<user>`) that stand for themselves in a text. models/kcc-lab is one.
//
// It gives the ids that Hugging Face's library gives for such a tokenizer.json. Merges,
// normalizers, pre-tokenizers and post-processors are not computed here: a file that has any is
// refused, and its model is served by token ids alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

class ByteTokenizer {
 public:
  // `vocab` is the model's; `file` is for messages. Fails on anything but bytes and added tokens.
  static Result<ByteTokenizer> Parse(std::string_view json, size_t vocab, const std::string& file);

  // Added tokens are found at every place, the longest first; all else is bytes.
  std::vector<int32_t> Encode(std::string_view text) const;

  // What the token stands for: bytes, which need not be whole characters. Empty for an id without
  // a token and, if `skip_special`, for an added token that is special.
  std::string_view Bytes(int32_t token, bool skip_special) const;
  std::string Decode(std::span<const int32_t> tokens, bool skip_special) const;

  // The id of an added token; -1: there is none of this name.
  int32_t AddedToken(std::string_view text) const;

 private:
  struct Token {
    std::string bytes;
    bool special = false;
  };
  std::vector<Token> tokens_;
  std::array<int32_t, 256> bytes_{};
  std::map<std::string, int32_t, std::less<>> added_;
  size_t added_longest_ = 0;
};

// Bytes that arrive in pieces, given out as whole characters. What is no UTF-8 becomes U+FFFD, as
// soon as that is certain.
class Utf8Stream {
 public:
  std::string Push(std::string_view bytes);
  // What is left at the end: a character that was never finished.
  std::string Finish();

 private:
  std::string held_;
};

// Characters (code points) of a text that is UTF-8.
size_t CountCharacters(std::string_view text);

}  // namespace kcc
