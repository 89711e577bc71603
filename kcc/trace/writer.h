// TraceWriter: makes a trace, all or nothing. Everything goes into a temporary sibling of the
// target; Finish renames it into place, anything else leaves nothing behind.
//
// Rows stream to disk: logits as they come, the small columns at the end of each file, so memory
// is bounded by the small columns of one file. The same calls give the same bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/trace.h"

namespace kcc {

class TraceWriter {
 public:
  struct Options {
    int64_t file_bytes_max = int64_t{4} << 30;  // a new tokens file starts beyond it
    bool replace = false;                       // an existing target is an error otherwise
    DType logits_dtype = DType::kF32;           // what logits rows are stored as
    int64_t logits_width = 0;                   // entries a row; 0: info.vocab_size
    int32_t top_k = 0;                          // entries a row, for top-k evidence
    bool logprob = false, advantage = false, mask = false, gold = false;  // which columns
    bool scratch = false;       // soon read and removed again: nothing is forced to the disk
    bool rows_checked = false;  // they come from a checked trace: their numbers are not read again
  };

  static Result<TraceWriter> Create(const std::string& directory, TraceInfo info, Options options);
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();  // without Finish: removes what was written

  // Gives the request its row number. Ids must be unique.
  Result<int32_t> AddRequest(const Request& request);

  // The row's logits must be logits_width entries of logits_dtype; top lists of at most top_k
  // entries in descending order. Checks what VerifyPayload checks, as far as one row can tell.
  Result<> AddToken(const TokenEvidence& token);

  // Writes trace.json and requests.jsonl, syncs unless it is scratch, and renames the directory
  // into place.
  Result<> Finish();

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kcc
