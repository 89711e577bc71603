// Kernel: a program that computes logits from weights and tokens, whatever it is made of.
//
// Requests go in, evidence comes out as a small trace a batch, so that full logits never need to
// fit on disk or in memory: the caller measures a batch and removes it before the next one.
// Adapters: trace files, exec programs, OpenAI-compatible servers, the lab (kcc/lab).
//
// A kernel is used from one thread. Dropping it ends its process or connections.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/measure/trace_source.h"
#include "kcc/trace/trace.h"

namespace kcc {

// One prompt with its continuation, as token ids; position i is tokens[i].
struct KernelRequest {
  Request request;  // id, and the fields that slices and population quantities read
  std::vector<int32_t> tokens;
  int32_t prompt_tokens = 0;  // tokens before it are prompt; the rest is scored
  // The label of every scored token, for calibration; -1: none. Empty: the request has no labels.
  std::vector<int32_t> gold;
  // The advantage of every scored token, for slices; NaN: none. Empty: the request has none.
  std::vector<float> advantage;
  int64_t ordinal = -1;  // place in the order of asking; -1: not known

  // For a measurement that is told what was asked; it points into this request.
  AskedRequest asked() const { return {&request, prompt_tokens, gold, advantage}; }
};

// How a kernel writes its own continuation. Temperature 0 is greedy.
struct Sampling {
  double temperature = 1.0;
  int32_t top_k = 0;   // 0: no limit
  double top_p = 1.0;  // 1: no limit
  uint64_t seed = 0;   // of the run; each request's own seed follows from it and the request's id
  int32_t output_tokens_max = 256;
  std::vector<int32_t> stop;  // token ids that end a continuation; the last token is kept
};

// Records in a generated trace's info what it was sampled with. Evidence, semantics, mode and
// sampledBy must be set before.
void SetSampling(const Sampling& sampling, TraceInfo* info);

// The line of an answered request in a kernel's trace: what was asked, in which place, and that it
// did not fail. A kernel adds what it found out.
Request AnsweredLine(const KernelRequest& asked);

// Which error source an option of a kernel belongs to (attribution switches them one by one).
struct KernelOption {
  std::string name;
  std::string value;
  std::string source;  // operator, precision, batch or route; empty: belongs to none
};

// What a kernel says of itself before the first batch; every trace it makes repeats it.
struct KernelInfo {
  std::string fingerprint;
  std::string model_digest;  // may be empty
  int64_t vocab_size = 0;
  EvidenceLevel evidence = EvidenceLevel::kLogits;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
  TracePath path = TracePath::kPrefill;
  double temperature = 1.0;
  bool generates = false;          // Generate is supported
  bool audits = false;             // audit points can be asked for (KernelOpenOptions)
  int32_t batch_requests_max = 0;  // 0: any
  std::vector<KernelOption> options;
  // Engine, dtype, attention, kvCache …, for contracts that bind them.
  std::map<std::string, std::string> declares;
};

// What a trace of the kernel declares: what it declares itself, and its options.
std::map<std::string, std::string> DeclaredBy(const KernelInfo& info);

// Of a trace in which the kernel scores tokens that it was given.
TraceInfo TraceInfoOf(const KernelInfo& kernel);

class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual const KernelInfo& info() const = 0;

  // Scores every token at or after prompt_tokens of every request, and writes a trace of exactly
  // these requests, in this order, to `directory`, which does not exist yet. On failure nothing is
  // left there and the kernel is not to be used again. The trace is scratch: it is not forced to
  // the disk, and its rows are checked.
  virtual Result<> Score(std::span<const KernelRequest> batch, const std::string& directory) = 0;

  // Writes each request's own continuation of its prompt (tokens beyond prompt_tokens are
  // ignored): a trace of mode `generated` whose tokens are the continuation, with `output_tokens`,
  // `started_at_ms` and, where the kernel can tell, `latency_ms` and `ttft_ms` per request. A
  // request that fails is a row with `failed`, not a hole.
  virtual Result<> Generate(std::span<const KernelRequest> batch, const Sampling& sampling,
                            const std::string& directory) = 0;
};

}  // namespace kcc
