// A trace: what one kernel said about a set of requests (docs/design.md section 5, docs/trace.md).
//
// On disk a directory: trace.json, requests.jsonl, tokens-NNNNN.safetensors. This header is the
// typed view of it; reader.h opens one, writer.h makes one, pairing.h puts two side by side.
//
// `position` counts from 0 over prompt and output together. A row's distribution is the one that
// predicted `token` at `position`: it was computed from positions before it, never from `token`.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/predicate/predicate.h"

namespace kcc {

enum class EvidenceLevel : uint8_t { kLogits, kTopK, kSampledToken, kNone };
enum class LogprobSemantics : uint8_t { kRaw, kTemperatureScaled, kProcessed };
enum class TracePath : uint8_t { kPrefill, kDecode };
enum class TraceMode : uint8_t { kScored, kGenerated };
enum class SampledBy : uint8_t { kInfer, kTrain, kDataset };

inline constexpr int64_t kVocabSizeMax = int64_t{1} << 24;  // a row of F32 fits one window

inline constexpr int kTraceFormat = 2;  // what is written; 1 is read as well

// trace.json.
struct TraceInfo {
  int format = kTraceFormat;
  std::string kernel_fingerprint;
  std::string model_digest;  // may be empty
  int64_t vocab_size = 0;    // compared entries; logits may be padded beyond it
  EvidenceLevel evidence = EvidenceLevel::kNone;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
  TracePath path = TracePath::kPrefill;
  // Of the recorded distributions: log-probs are at it, raw logits are to be divided by it. Raw
  // log-probs are at 1, whatever the tokens were sampled at.
  double temperature = 1.0;
  // At which the tokens were sampled; 0: greedily, each the likeliest. None: they were not sampled,
  // or it is not known.
  std::optional<double> sampling_temperature;
  // The tokens were drawn from less, or from other, than the distribution at that temperature:
  // top-k, top-p, min-p, penalties. They are then no sample of it, and nothing is estimated.
  bool sampling_altered = false;
  // Whether the trace says that much of its sampling: format 1 has no word for it.
  bool StatesSampling() const { return format != 1 && sampling_temperature.has_value(); }
  TraceMode mode = TraceMode::kScored;
  SampledBy sampled_by = SampledBy::kDataset;
  // What the trace should hold; a trace that holds less was cut off. The writer always says it.
  std::optional<int64_t> requests;
  std::optional<int64_t> tokens;
  // What the kernel says of itself: engine, dtype, attention, kvCache … A contract can bind them.
  std::map<std::string, std::string> declares;
  std::map<std::string, std::string> notes;  // free words about the origin; part of the identity
};

// Records what follows from the temperature a kernel was asked at: its distributions are at it,
// unless they are raw log-probs or it is 0 (greedy decoding divides nothing), and so are the
// tokens, where any were sampled. None: nobody said it; the distributions are then at 1, and what
// the tokens were sampled at stays unknown. Evidence, semantics, mode and sampledBy must be set
// before.
void SetTemperatures(std::optional<double> asked, TraceInfo* info);

// trace.json, both ways. The text is deterministic; unknown keys are errors, since a misspelt
// `semantics` must not become the default.
Result<TraceInfo> ParseTraceInfo(std::string_view json, const std::string& file);
std::string TraceInfoJson(const TraceInfo& info);

// The words of trace.json: "logits", "temperature-scaled", "prefill", "scored", "infer".
std::string_view Name(EvidenceLevel level);
std::string_view Name(LogprobSemantics semantics);
std::string_view Name(TracePath path);
std::string_view Name(TraceMode mode);
std::string_view Name(SampledBy side);
std::optional<EvidenceLevel> ParseEvidenceLevel(std::string_view word);
std::optional<LogprobSemantics> ParseLogprobSemantics(std::string_view word);
std::optional<TracePath> ParseTracePath(std::string_view word);
std::optional<SampledBy> ParseSampledBy(std::string_view word);

// What a kernel declared of itself, in a request's line whose answer did not name the kernel that
// gave it. It is a field of its own, not a value of `kernel_fingerprint`: whatever rests on the
// word of the replica that answered (fingerprint_match_rate, slices) must not find it there.
inline constexpr std::string_view kFilledFingerprintField = "kernel_fingerprint_filled";

// One line of requests.jsonl. Every field is kept, known to us or not.
using RequestValueTypes = std::variant<double, bool, std::string, std::vector<std::string>>;

// Copied by assignment: where a copy constructor of libstdc++ 12's std::variant of these types
// finds no memory, it destroys a value that was never made.
struct RequestValue : RequestValueTypes {
  using RequestValueTypes::RequestValueTypes;
  using RequestValueTypes::operator=;
  RequestValue() = default;
  RequestValue(const RequestValue& other)  // NOLINT(bugprone-copy-constructor-init): see above
      : RequestValueTypes() {
    RequestValueTypes::operator=(other);
  }
  RequestValue(RequestValue&&) = default;
  RequestValue& operator=(const RequestValue&) = default;
  RequestValue& operator=(RequestValue&&) = default;
  ~RequestValue() = default;
};

struct Request {
  std::string id;
  std::map<std::string, RequestValue, std::less<>> fields;  // all but id; absent = not recorded

  // prompt_tokens, latency_ms …: absent if missing or of another type.
  std::optional<double> Number(std::string_view field) const;
  std::optional<bool> Flag(std::string_view field) const;
  const std::string* Text(std::string_view field) const;  // null if absent
  // For predicates; the views live as long as the request.
  FieldValue Field(std::string_view field) const;
};

// The evidence about one token. Pointers are into mapped memory and live until the cursor's next
// call; what the trace does not hold is null, NaN or -1.
struct TokenEvidence {
  int32_t request = 0;  // row in requests.jsonl
  int32_t position = 0;
  int32_t token = -1;
  const void* logits = nullptr;  // vocab_size entries of logits_dtype
  DType logits_dtype = DType::kF32;
  const int32_t* top_ids = nullptr;
  const float* top_logprobs = nullptr;
  int32_t top_k = 0;  // entries of this row; shorter rows are padded with id -1 on disk
  double logprob = std::numeric_limits<double>::quiet_NaN();  // F32 in files
  float advantage = std::numeric_limits<float>::quiet_NaN();
  bool masked = false;  // the `mask` tensor says 0: the token does not count
  int32_t gold = -1;
};

}  // namespace kcc
