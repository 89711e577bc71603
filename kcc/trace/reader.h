// TraceReader: an opened trace. Opening checks everything that the headers can tell (tensors
// present for the evidence level, shapes that agree, row counts); payloads are read by cursors, in
// windows, and fully checked by VerifyPayload only.
//
// A reader is immutable: any number of cursors, each in its own thread, may read one reader. It
// must outlive them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/format/mapped_file.h"
#include "kcc/format/safetensors.h"
#include "kcc/trace/trace.h"

namespace kcc {

// One tokens-NNNNN.safetensors with the tensors a trace knows; null tensor = not in the file.
struct TokenFile {
  explicit TokenFile(MappedFile mapped) : file(std::move(mapped)) {}

  MappedFile file;
  int64_t first_row = 0;  // of the trace
  int64_t rows = 0;
  int64_t data_begin = 0;  // of the tensors' bytes, which reach to the end of the file
  TensorInfo request, position, token;
  std::optional<TensorInfo> logits, top_ids, top_logprobs, logprob, advantage, mask, gold;
};

class TraceReader {
 public:
  static Result<TraceReader> Open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const TraceInfo& info() const { return info_; }
  const std::vector<Request>& requests() const { return requests_; }
  int64_t token_count() const { return token_count_; }
  const std::vector<TokenFile>& files() const { return files_; }
  bool has_mask() const;
  int64_t payload_bytes() const;

  // SHA-256 over trace.json, requests.jsonl and the tensor headers, not the payloads.
  const std::string& identity() const { return identity_; }

  // Where a row is, for messages: "tokens-00001.safetensors, row 17".
  std::string RowPlace(int64_t row) const;

  struct Verified {
    std::string payload_digest;  // SHA-256 over every byte behind the headers, in file order
    int64_t tokens = 0;
    int64_t requests_without_tokens = 0;
  };
  // Reads every byte: hashes it and refuses NaN, +inf, log-probs above 0, token ids outside the
  // vocabulary, top-k lists out of order, rows of requests that do not exist and (request,
  // position) pairs that repeat.
  Result<Verified> VerifyPayload() const;

 private:
  TraceReader() = default;

  std::string directory_;
  TraceInfo info_;
  std::vector<Request> requests_;
  std::vector<TokenFile> files_;
  int64_t token_count_ = 0;
  std::string identity_;
};

// Reads rows in any order, fastest in file order. Holds at most one window per tensor of one file.
class TokenCursor {
 public:
  struct Options {
    size_t window_bytes = size_t{16} << 20;        // of the logits
    size_t column_window_bytes = size_t{1} << 20;  // of every other tensor
    bool index_only = false;                       // request, position, token and mask alone
  };
  explicit TokenCursor(const TraceReader& reader) : TokenCursor(reader, Options()) {}
  TokenCursor(const TraceReader& reader, Options options);
  TokenCursor(TokenCursor&&) noexcept;
  TokenCursor& operator=(TokenCursor&&) noexcept;
  ~TokenCursor();

  // The evidence of a row in [0, token_count); valid until the next call.
  Result<const TokenEvidence*> At(int64_t row);

  // The next row in file order; null at the end. Starts at row 0 or after the last At.
  Result<const TokenEvidence*> Next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kcc
