// Why two traces cannot be put side by side, in words: whether their metadata may be compared,
// whether they are about the same requests, and the likely cause of a token that does not pair.
// Internal to pairing.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/pairing.h"
#include "kcc/trace/trace.h"

namespace kcc {

struct Comparison {
  EvidenceLevel evidence = EvidenceLevel::kNone;
  std::optional<double> temperature = 1.0;  // of the compared distributions; none: not known
  double logit_divisor = 1.0;
  std::optional<double> sampling_temperature;
  bool sampling_altered = false;
  bool ignores_train_logprob = false;
  bool ignores_infer_logprob = false;
};

Result<Comparison> CheckComparable(const TraceInfo& train, const TraceInfo& infer,
                                   const PairingOptions& options);

// Both orders are by id.
Result<> CheckSameRequests(const std::vector<Request>& train,
                           const std::vector<int32_t>& train_order,
                           const std::vector<Request>& infer,
                           const std::vector<int32_t>& infer_order);

Error PromptLengthError(const std::string& request, double train, double infer);

struct PositionToken {
  int32_t position = 0;
  int32_t token = 0;
  bool operator==(const PositionToken&) const = default;
};

// The beginning of a request's rows on both sides, in order of position.
struct PairingProblem {
  std::string_view request;
  int64_t train_count = 0;
  int64_t infer_count = 0;
  int64_t vocab_size = 0;
  int32_t prompt_tokens = 0;
  std::vector<PositionToken> train;
  std::vector<PositionToken> infer;
};
inline constexpr int64_t kDiagnosedTokensMax = 65536;

// The sequences must differ somewhere, or repeat a position.
Error DiagnosePairing(const PairingProblem& problem);

}  // namespace kcc
