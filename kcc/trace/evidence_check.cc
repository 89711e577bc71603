#include "kcc/trace/evidence_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr double kLogprobSlack = 1e-3;
constexpr int32_t kQuadraticMax = 64;

// Classifies by bits, without arithmetic: the exponent all ones is an infinity or a NaN.
template <class Bits, Bits kSign, Bits kInfinity>
int FindBadLogit(const void* data, int64_t count, bool* any_finite) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  bool bad = false;
  bool finite = false;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + static_cast<size_t>(i) * sizeof(Bits), sizeof(Bits));
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
    bad |= magnitude > kInfinity || bits == kInfinity;
    finite |= magnitude < kInfinity;
  }
  *any_finite = finite;
  if (!bad) return -1;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + static_cast<size_t>(i) * sizeof(Bits), sizeof(Bits));
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
    if (magnitude > kInfinity || bits == kInfinity) return static_cast<int>(i);
  }
  return -1;
}

int FindBadLogit(const TokenEvidence& token, int64_t count, bool* any_finite) {
  switch (token.logits_dtype) {
    case DType::kF16:
      return FindBadLogit<uint16_t, 0x8000, 0x7c00>(token.logits, count, any_finite);
    case DType::kBF16:
      return FindBadLogit<uint16_t, 0x8000, 0x7f80>(token.logits, count, any_finite);
    default:
      return FindBadLogit<uint32_t, 0x80000000u, 0x7f800000u>(token.logits, count, any_finite);
  }
}

Result<> CheckUniqueIds(const TokenEvidence& token) {
  const auto repeated = [](int32_t id) {
    return BrokenEvidenceError("the top-k list holds token " + std::to_string(id) + " twice");
  };
  if (token.top_k <= kQuadraticMax) {
    for (int32_t i = 1; i < token.top_k; ++i) {
      for (int32_t j = 0; j < i; ++j) {
        if (token.top_ids[i] == token.top_ids[j]) return repeated(token.top_ids[i]);
      }
    }
    return {};
  }
  std::vector<int32_t> ids(token.top_ids, token.top_ids + token.top_k);
  std::sort(ids.begin(), ids.end());
  const auto twin = std::adjacent_find(ids.begin(), ids.end());
  if (twin != ids.end()) return repeated(*twin);
  return {};
}

Result<> CheckTopK(const EvidenceLimits& limits, const TokenEvidence& token) {
  for (int32_t i = 0; i < token.top_k; ++i) {
    if (token.top_ids[i] < 0 || token.top_ids[i] >= limits.vocab_size) {
      return BrokenEvidenceError("entry " + std::to_string(i) + " of the top-k list is token " +
                                 std::to_string(token.top_ids[i]) + ", outside the vocabulary of " +
                                 std::to_string(limits.vocab_size));
    }
    auto checked = CheckLogprob(token.top_logprobs[i]);
    if (!checked.has_value()) {
      return BrokenEvidenceError("entry " + std::to_string(i) +
                                 " of the top-k list: " + checked.error().message());
    }
    if (i > 0 && token.top_logprobs[i] > token.top_logprobs[i - 1]) {
      return BrokenEvidenceError("the top-k list is not in descending order at entry " +
                                 std::to_string(i));
    }
  }
  return CheckUniqueIds(token);
}

}  // namespace

bool IsLogprobSentinel(double logprob) {
  return logprob == -9999.0 || (std::isfinite(logprob) && logprob <= -3.4e38);
}

Result<> CheckLogprob(double logprob) {
  if (std::isnan(logprob)) return BrokenEvidenceError("the log-prob is NaN");
  if (IsLogprobSentinel(logprob)) {
    return BrokenEvidenceError(
        "the log-prob " + ShortestNumber(logprob) +
        " is a server's stand-in for a missing or -inf value, not a number; leave such tokens out "
        "or mask them");
  }
  if (logprob > kLogprobSlack) {
    return BrokenEvidenceError("the log-prob " + ShortestNumber(logprob) +
                               " is above 0: are these logits or probabilities?");
  }
  return {};
}

Result<> CheckEvidenceScalars(const EvidenceLimits& limits, const TokenEvidence& token) {
  if (token.position < 0) {
    return BrokenEvidenceError("the position " + std::to_string(token.position) + " is negative");
  }
  if (token.token < (limits.token_optional ? -1 : 0)) {
    return BrokenEvidenceError("the token id " + std::to_string(token.token) + " is negative" +
                               (limits.token_optional ? "; write -1 where it is not known" : ""));
  }
  if (limits.vocab_size > 0 && token.token >= limits.vocab_size) {
    return BrokenEvidenceError("the token id " + std::to_string(token.token) +
                               " is outside the vocabulary of " +
                               std::to_string(limits.vocab_size) +
                               ": another tokeniser, or a vocabSize that is too small?");
  }
  if (token.gold < -1 || token.gold >= limits.vocab_size) {
    return BrokenEvidenceError("the gold token " + std::to_string(token.gold) +
                               " is outside the vocabulary of " +
                               std::to_string(limits.vocab_size));
  }
  if (std::isinf(token.advantage)) return BrokenEvidenceError("the advantage is infinite");
  // Absent is fine where something better is there, or where the token does not count.
  const bool needs_logprob = limits.evidence == EvidenceLevel::kSampledToken && !token.masked;
  if (needs_logprob || !std::isnan(token.logprob)) KCC_TRY_VOID(CheckLogprob(token.logprob));
  if (limits.evidence == EvidenceLevel::kTopK && token.top_k == 0 && !token.masked) {
    return BrokenEvidenceError("the top-k list is empty");
  }
  return CheckTopK(limits, token);
}

Result<> CheckEvidenceRow(const EvidenceLimits& limits, const TokenEvidence& token) {
  KCC_TRY_VOID(CheckEvidenceScalars(limits, token));
  if (token.logits == nullptr) return {};
  bool any_finite = false;
  const int bad = FindBadLogit(token, limits.vocab_size, &any_finite);
  if (bad >= 0) {
    return BrokenEvidenceError("the logit of token " + std::to_string(bad) +
                               " is NaN or +inf; only -inf may stand for a masked token");
  }
  if (!any_finite) return BrokenEvidenceError("every logit is -inf: there is no distribution");
  return {};
}

}  // namespace kcc
