// What must hold for a single row of evidence, asked by the writer, by `trace verify`, by the
// pairing and of arrays in memory, so that a broken number is refused wherever it enters.
#pragma once

#include "kcc/base/result.h"
#include "kcc/trace/trace.h"

namespace kcc {

// True for the numbers that servers send in place of "no log-prob": -9999.0 (vLLM, TensorRT-LLM)
// and the lowest float (SGLang, llama.cpp).
bool IsLogprobSentinel(double logprob);

// A log-prob that counts: no NaN, not above 0 (a rounding error of 1e-3 is let through), no
// sentinel. -inf is a value: probability 0.
Result<> CheckLogprob(double logprob);

// What a row is held to: by its trace, or by the arrays it comes from.
struct EvidenceLimits {
  EvidenceLimits() = default;
  explicit EvidenceLimits(const TraceInfo& info)
      : evidence(info.evidence), vocab_size(info.vocab_size) {}

  EvidenceLevel evidence = EvidenceLevel::kNone;
  int64_t vocab_size = 0;       // 0: not known
  bool token_optional = false;  // -1 is a token that is not known
};

// Everything about the row but its logits: ids within the vocabulary, log-probs that are
// log-probs, top-k lists in descending order without repetition. Errors carry no place.
Result<> CheckEvidenceScalars(const EvidenceLimits& limits, const TokenEvidence& token);

// The same and the logits: no NaN, no +inf, and not all of them -inf.
Result<> CheckEvidenceRow(const EvidenceLimits& limits, const TokenEvidence& token);

}  // namespace kcc
