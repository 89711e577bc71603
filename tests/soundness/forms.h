// The same evidence in other forms: what a caller of another interface, or an engine that records
// less, would hand in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kcc/measure/measure_arrays.h"
#include "tests/soundness/evidence.h"

namespace kcc::soundness {

// Both sides' rows one after the other, request by request. Precondition: rows of both sides in the
// same order, each request's together; what is said of a request is the same on both.
class Arrays {
 public:
  // Full logits, or the sampled tokens' log-probs where the rows hold no logits; lists where there
  // are any.
  explicit Arrays(const Evidence& evidence);
  ArrayPair Pair() const;
  std::string RequestLines() const;

  std::vector<Request> requests;
  std::vector<int64_t> first_rows, row_counts;
  std::vector<int32_t> positions, tokens;
  std::vector<uint8_t> mask;
  std::vector<float> advantages;
  std::vector<float> values[2];  // logits or log-probs, by train and infer
  bool logits[2] = {false, false};
  std::vector<int32_t> top_ids[2];  // of one width, filled up with -1
  std::vector<float> top_logprobs[2];
  int64_t top_k[2] = {0, 0};
  TraceInfo info;

 private:
  void AddSide(size_t side, const std::vector<Row>& rows);
};

// Logits divided by the temperature and recorded so.
Evidence ScaledForm(const Evidence& evidence);
// The k most likely tokens at the temperature compared, and the sampled one's log-prob.
Evidence TopKForm(const Evidence& evidence, int k);
// Full logits on one side, lists on the other: of two forms of the same evidence.
Evidence LogitsAgainstLists(const Evidence& logits, const Evidence& lists, bool train_full);
// The sampled token's log-prob at the temperature compared, of tokens from a data set.
Evidence SampledForm(const Evidence& evidence, SampledBy sampled_by = SampledBy::kDataset);
// Requests, rows and files in another order.
SideEvidence Reordered(SideEvidence side, Dice* dice);

}  // namespace kcc::soundness
