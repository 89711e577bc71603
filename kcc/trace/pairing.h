// PairedTraces: two traces put side by side, or an error that says why they cannot be.
//
// Scored traces pair by (request id, position, token), generated ones by request id alone and
// then have no tokens here. Every row must pair; prompt tokens (position < prompt_tokens) and
// masked ones must pair too, and are then left out. Requests are in canonical order: by the bytes
// of their id, so that nothing depends on the order of the files.
//
// Make reads the index columns of both traces once. Memory: a few dozen bytes a request where each
// request's rows are contiguous and in the same order on both sides, else 8 bytes a token.
// Immutable once made: cursors in several threads may read one PairedTraces, which outlives them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/trace.h"

namespace kcc {

struct PairingOptions {
  bool ignore_model_digest = false;   // compare two models on purpose (kl_to_reference)
  std::optional<double> temperature;  // compare raw logits at this temperature, not the traces'
};

struct PairedRequest {
  std::string_view id;  // of the train side's Request
  int32_t train_row = 0;
  int32_t infer_row = 0;  // rows in each side's requests()
  int32_t prompt_tokens = 0;
  int64_t tokens = 0;        // pairs that count; 0 for generated traces
  int64_t output_rows = 0;   // pairs of its output, masked ones included
  int64_t rows_missing = 0;  // fewer than its output_tokens claims, by either side
  // By Side, of generated traces: rows of the side's own output; -1: its trace has no rows at all.
  std::array<int64_t, 2> own_rows = {-1, -1};
  // The first counted pair's row on each side. The others follow row by row, unless `listed` says
  // where in the pairing's row lists they are (-1: they follow).
  int64_t train_first = 0;
  int64_t infer_first = 0;
  int64_t listed = -1;
};

// Part index of count, counted from 1: contiguous blocks of the canonical order, about equal in
// tokens. A part may be empty.
struct Shard {
  int32_t index = 1;
  int32_t count = 1;
};
Result<Shard> ParseShard(std::string_view text);  // "2/7"

class PairedTraces {
 public:
  static Result<PairedTraces> Make(TraceReader train, TraceReader infer,
                                   const PairingOptions& options = {});

  const TraceReader& train() const { return train_; }
  const TraceReader& infer() const { return infer_; }
  TraceMode mode() const { return train_.info().mode; }
  // What both sides can show: the weaker of the two evidence levels. A side with full logits
  // facing one without is read at the temperature compared: all of it against lists, for its
  // log-probs against sampled tokens.
  EvidenceLevel evidence() const { return evidence_; }
  // Of the distributions that are compared. Of generated traces these are the answers', so it is
  // what they were sampled at; none where that is not known.
  std::optional<double> temperature() const { return temperature_; }
  // What logits are to be divided by to be at that temperature: 1 where they were recorded scaled.
  double logit_divisor() const { return logit_divisor_; }
  // As TraceInfo says it of the tokens; altered where either side does.
  std::optional<double> sampling_temperature() const { return sampling_temperature_; }
  bool sampling_altered() const { return sampling_altered_; }
  int64_t vocab_size() const { return train_.info().vocab_size; }
  int64_t token_count() const { return token_count_; }  // pairs that count
  // Tokens were left out as prompt because infer alone says how long the prompt is.
  bool prompt_by_infer() const { return prompt_by_infer_; }

  const std::vector<PairedRequest>& requests() const { return requests_; }
  const Request& train_request(int32_t i) const;
  const Request& infer_request(int32_t i) const;
  // A request's field: of outcomes the infer side's, else the train side's; of others the other way
  // round. Views live as long as this.
  FieldValue Field(int32_t i, std::string_view field) const;

  // Indices of the requests of a shard in the train trace's file order, in which reading them is
  // fastest. Shards 1..n of one pair of traces are disjoint and complete, whatever the file order.
  std::vector<int32_t> Order(const Shard& shard = {}) const;

 private:
  friend class PairCursor;
  friend class PairBuilder;
  PairedTraces(TraceReader train, TraceReader infer);

  TraceReader train_;
  TraceReader infer_;
  EvidenceLevel evidence_ = EvidenceLevel::kNone;
  std::optional<double> temperature_ = 1.0;
  double logit_divisor_ = 1.0;
  std::optional<double> sampling_temperature_;
  bool sampling_altered_ = false;
  // That side's logprob column is of other semantics than the comparison; its logits serve.
  bool ignores_train_logprob_ = false;
  bool ignores_infer_logprob_ = false;
  int64_t token_count_ = 0;
  bool prompt_by_infer_ = false;
  std::vector<PairedRequest> requests_;
  // Rows of counted pairs, for the requests whose pairs do not follow row by row.
  std::vector<int64_t> train_rows_;
  std::vector<int64_t> infer_rows_;
};

// Walks the counted token pairs of one request after another, in order of position. Checks all of
// the evidence but the logits, which whoever computes with them looks at anyway. Labels and
// advantages are infer's only where the train trace has no such column: a token that train left
// without one stays without.
class PairCursor {
 public:
  explicit PairCursor(const PairedTraces& pair) : PairCursor(pair, TokenCursor::Options()) {}
  PairCursor(const PairedTraces& pair, TokenCursor::Options options);

  // The next Next() gives the first token of requests()[request].
  void Seek(int32_t request);
  // Moves to the next pair of the request; false after the last.
  Result<bool> Next();
  // Valid until the next call.
  const TokenEvidence& train() const { return train_token_; }
  const TokenEvidence& infer() const { return infer_token_; }

 private:
  static Result<> Load(const TraceReader& reader, TokenCursor* cursor, int64_t row,
                       bool ignores_logprob, TokenEvidence* out);

  const PairedTraces* pair_;
  TokenCursor train_;
  TokenCursor infer_;
  int32_t request_ = -1;
  int64_t next_ = 0;
  bool train_labels_ = false;  // its trace has a column of labels: infer's does not count
  bool train_advantages_ = false;
  TokenEvidence train_token_;
  TokenEvidence infer_token_;
};

}  // namespace kcc
