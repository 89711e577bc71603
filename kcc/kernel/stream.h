// From kernels to a summary, or to a trace, batch by batch: full logits never need to fit on disk
// or in memory.
//
// Both kernels work on the same batch at the same time, each into a private directory; the pair is
// measured, merged into the summary and removed before the next batch starts. A summary's bytes do
// not depend on the size of the batches, since what it rests on is named as a stream: the kernels
// and the requests, not the batches' traces. (A kernel whose numbers depend on what it is asked
// together with is another matter, and worth finding.)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/request_source.h"
#include "kcc/kernel/uri.h"
#include "kcc/measure/measure.h"

namespace kcc {

struct StreamOptions {
  int64_t batch_requests = 16;
  // A batch also ends where a side's evidence would pass this; one request may.
  int64_t batch_bytes_max = int64_t{1} << 30;
  std::string scratch = "/tmp";  // private directories are made in it
  PairingOptions pairing;
  MeasureOptions measure;  // of one batch; its progress counts over all of them
  // Sees every batch after it was measured and before it is removed: what both sides said, and what
  // they were asked together. May be empty.
  std::function<Result<>(const PairedTraces& pair, std::span<const KernelRequest> batch)> observe;
  // Called when one side failed, so that the other need not finish its batch: it should make
  // KernelOpenOptions::stop_fd readable. May be empty.
  std::function<void()> stop;
};

// A kernel under the name that messages use.
struct NamedKernel {
  std::string name;
  std::unique_ptr<Kernel> kernel;
};
struct KernelPair {
  NamedKernel train;
  NamedKernel infer;
};

// Opens both at the same time: each may have a model to load.
Result<KernelPair> OpenKernelPair(const std::string& train, const std::string& infer,
                                  const KernelOpenOptions& options,
                                  std::span<const KernelScheme> schemes,
                                  const std::function<void()>& stop);

// Writes into a scored trace who chose its tokens, and at which temperature.
void SetSampling(const RequestSource& requests, TraceInfo* info);

Result<Summary> MeasureKernels(const KernelPair& pair, RequestSource& requests, const Plan& plan,
                               const StreamOptions& options);

// In a trace that kcc made: the number of the batch in which the request was asked, from 0. What
// was asked together has the same number.
inline constexpr std::string_view kAskedBatchField = "asked_batch";

// Traces of all requests, with their prompts in the field `prompt`, so that another kernel can be
// asked about them later, and with the batch each was asked in. A generated one also says how its
// tokens were sampled: `top_k`, `top_p`, `output_tokens_max` and `sampling_seed`, the run's.
// `directory` must not exist. Gives the number of tokens.
Result<int64_t> ScoreToTrace(const NamedKernel& kernel, RequestSource& requests,
                             const std::string& directory, const StreamOptions& options);
Result<int64_t> GenerateToTrace(const NamedKernel& kernel, RequestSource& requests,
                                const Sampling& sampling, const std::string& directory,
                                const StreamOptions& options);

}  // namespace kcc
