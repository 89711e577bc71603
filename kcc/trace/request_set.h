// The digest of an evaluation set: which requests, and which tokens were scored of each. Both sides
// of a pair have the same one, so that a contract can pin it (binds.requests): rows or requests
// that were taken out on both sides show.
//
// SHA-256 over the requests in order of their ids; of each its id, the length of its prompt and the
// positions and ids of its output. Masked rows count, fields do not: tags and the like are compared
// where they are used.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/trace/reader.h"

namespace kcc {

class RequestSet {
 public:
  // The requests of a trace; of a generated one without its tokens, which are each side's own.
  // Reads the index columns.
  static Result<RequestSet> Of(const TraceReader& reader);

  // Output tokens at successive positions from prompt_tokens on. An id that was added before is
  // replaced.
  void Add(std::string_view id, int32_t prompt_tokens, std::span<const int32_t> output);
  // The same where positions are given. Both spans are of one size.
  void Add(std::string_view id, int32_t prompt_tokens, std::span<const int32_t> positions,
           std::span<const int32_t> output);

  std::string Digest() const;  // "sha256:…"
  // By id.
  const std::map<std::string, std::string, std::less<>>& requests() const { return requests_; }

 private:
  std::map<std::string, std::string, std::less<>> requests_;
};

}  // namespace kcc
