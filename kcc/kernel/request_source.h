// Where requests come from: a requests file, or a trace that knows its tokens. One at a time, since
// the token ids of all of them together can be large.
//
// A requests file has one object a line: {"id", "prompt": [ids], "output": [ids], …}. Token ids
// only; those of texts are found out before (text_requests.h). `gold` labels the output for
// calibration: one id a token, -1 for none, or the word "output". Every further field is kept and
// can be used in a slice, except what a kernel measures (latency_ms, reward …): both kernels would
// then seem to have measured it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"

namespace kcc {

inline constexpr size_t kRequestFileLineBytesMax = size_t{64} << 20;

// Fields that a kernel's own run gives, and nobody who asks it.
bool MeasuredByKernel(std::string_view field);

// Scoring needs the continuation; for generation only the prompt is read.
enum class RequestUse { kScore, kGenerate };

struct RequestTotals {
  int64_t requests = 0;
  int64_t output_tokens = 0;
};

class RequestSource {
 public:
  virtual ~RequestSource() = default;
  // False after the last one. The request carries prompt_tokens and output_tokens as fields.
  virtual Result<bool> Next(KernelRequest* request) = 0;
  // From the first one again.
  virtual Result<> Rewind() = 0;
  // Of the whole source; known before the first Next.
  virtual RequestTotals totals() const = 0;
  // Who chose the continuations.
  virtual SampledBy sampled_by() const = 0;
  // At which temperature; none: they were not sampled, or it is not known.
  virtual std::optional<double> sampling_temperature() const = 0;
  // As TraceInfo has it.
  virtual bool sampling_altered() const { return false; }
  // Where the last request stands, for messages.
  virtual Place place() const = 0;
};

// Reads the file once to check every line and that no id repeats (8 bytes of memory a request),
// so that a mistake in the last line does not cost a run; Next reads it again, from the same
// opening. A pipe or a device does as well: what it says is kept, up to kPipeBytesMax.
Result<std::unique_ptr<RequestSource>> OpenRequestFile(
    const std::string& path, RequestUse use, SampledBy sampled_by = SampledBy::kDataset,
    std::optional<double> sampling_temperature = std::nullopt);

// The requests of a trace, which must hold every token: in rows, or the prompt's in the field
// `prompt` that `kcc score` and `kcc generate` write. Of a generated trace they are what that
// kernel wrote, to be scored by others.
Result<std::unique_ptr<RequestSource>> OpenTraceRequests(const std::string& directory);

// The prompt's ids as a request's field, as OpenTraceRequests reads it.
RequestValue PromptField(const KernelRequest& request);

}  // namespace kcc
