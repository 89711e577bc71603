// A trace: what one kernel said about a set of requests (DESIGN.md section 5, docs/trace.md).
//
// On disk a directory: trace.json, requests.jsonl, tokens-NNNNN.safetensors. This header is the
// typed view of it; reader.h opens one, writer.h makes one, pairing.h puts two side by side.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/contract/predicate.h"

namespace kcc {

enum class EvidenceLevel : uint8_t { kLogits, kTopK, kSampledToken, kNone };
enum class LogprobSemantics : uint8_t { kRaw, kTemperatureScaled, kProcessed };
enum class TracePath : uint8_t { kPrefill, kDecode };
enum class TraceMode : uint8_t { kScored, kGenerated };
enum class SampledBy : uint8_t { kInfer, kTrain, kDataset };

// trace.json.
struct TraceInfo {
  int format = 1;
  std::string kernel_fingerprint;
  std::string model_digest;  // may be empty
  int64_t vocab_size = 0;    // compared entries; logits may be padded beyond it
  EvidenceLevel evidence = EvidenceLevel::kNone;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
  TracePath path = TracePath::kPrefill;
  double temperature = 1.0;
  TraceMode mode = TraceMode::kScored;
  SampledBy sampled_by = SampledBy::kDataset;
};

// One line of requests.jsonl. Every field is kept, known to us or not.
using RequestValue = std::variant<double, bool, std::string, std::vector<std::string>>;
struct Request {
  std::string id;
  std::map<std::string, RequestValue, std::less<>> fields;  // all but id; absent = not recorded

  // prompt_tokens, latency_ms …: absent if missing or of another type.
  std::optional<double> Number(std::string_view field) const;
};

// The evidence about one token. Pointers are into mapped memory and live until the reader's next
// call; what the trace does not hold is null or NaN.
struct TokenEvidence {
  int32_t request = 0;  // row in requests.jsonl
  int32_t position = 0;
  int32_t token = -1;
  const void* logits = nullptr;  // vocab_size entries of logits_dtype
  DType logits_dtype = DType::kF32;
  const int32_t* top_ids = nullptr;
  const float* top_logprobs = nullptr;
  int32_t top_k = 0;
  float logprob = 0;  // NaN if absent
  float advantage = 0;
  bool masked = false;
  int32_t gold = -1;
};

}  // namespace kcc
