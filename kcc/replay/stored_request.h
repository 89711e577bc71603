// A stored request: what a judged run keeps of one request so that it can be run again under both
// kernels (docs/replay.md). A JSON object of one version with its keys in one order, so that equal
// records have equal bytes and the SHA-256 of them is the record's identity.
//
// What is kept depends on the policy: `hashes` has digests of the token ids and the signatures,
// `full` the token ids too. Texts are left out unless they were asked for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/policy.h"
#include "kcc/kernel/kernel.h"
#include "kcc/trace/trace.h"

namespace kcc {

inline constexpr int kStoredRequestVersion = 1;
inline constexpr size_t kStoredRequestBytesMax = size_t{64} << 20;

// Why a request was flagged: one of its values is beyond the threshold of a clause.
struct RequestFlag {
  std::string clause;
  std::string slice;
  std::string quantity;
  double value = 0;
  double threshold = 0;
  int32_t position = -1;  // -1: of the whole request
  int32_t token = -1;     // -1: the same, or the record holds digests alone

  bool operator==(const RequestFlag&) const = default;
};

// One kernel and what it said.
struct StoredSide {
  std::string fingerprint;
  std::string model_digest;
  std::map<std::string, std::string> declares;
  std::string signature;  // empty: not recorded

  bool operator==(const StoredSide&) const = default;
};

// The lengths of the requests that were asked together, this one among them: prompt and output.
struct BatchShape {
  size_t place = 0;
  std::vector<std::pair<int32_t, int32_t>> requests;  // empty: not known

  bool operator==(const BatchShape&) const = default;
};

struct StoredRequest {
  std::string id;
  StoreRequests store = StoreRequests::kHashes;  // never kNone
  bool sampled = false;                          // chosen by the hash of its id
  std::vector<RequestFlag> flags;                // none: it was sampled alone
  std::string model, contract, triple;           // as the register has them
  SampledBy sampled_by = SampledBy::kDataset;
  std::optional<double> sampling_temperature;  // 0: greedily; none: not sampled, or not known
  bool sampling_altered = false;
  std::map<std::string, double> sampling;  // top_p, top_k, repetition_penalty … as far as recorded
  std::string seed;                        // decimal; empty: not recorded
  BatchShape batch;                        // of infer
  // Where train was asked in another batch: that one. Without requests: it is not known.
  std::optional<BatchShape> train_batch;
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  std::string prompt_digest, output_digest;                 // TokensDigest
  std::vector<int32_t> tokens;                              // prompt and output; empty with hashes
  std::vector<std::string> tags;                            // with full
  std::map<std::string, RequestValue, std::less<>> fields;  // of origin request; with full
  std::vector<std::string> left_out;                        // names of fields that hold text
  StoredSide train, infer;
};

// SHA-256 of the ids in decimal, each followed by a blank.
std::string TokensDigest(std::span<const int32_t> tokens);

// The batch that train was asked in.
const BatchShape& TrainBatch(const StoredRequest& stored);

std::string StoredRequestJson(const StoredRequest& stored);
// Of the bytes that StoredRequestJson gives.
std::string StoredRequestDigest(std::string_view json);
// Fails on what StoredRequestJson did not write: unknown keys, another order, digests that are not
// those of the token ids.
Result<StoredRequest> ParseStoredRequest(std::string_view json);

// The JSON Schema of a record.
std::string StoredRequestSchema();

// What a kernel is asked to run it again. Precondition: store is full.
KernelRequest RequestToRun(const StoredRequest& stored);
// The same of a request that the user supplies, for a record with digests alone. Fails where its
// tokens are not those of the record.
Result<> CheckSuppliedRequest(const StoredRequest& stored, const KernelRequest& supplied);

}  // namespace kcc
