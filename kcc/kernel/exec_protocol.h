// The exec protocol's messages (docs/exec-protocol.md), as text: what kcc sends, and what an answer
// must be. Nothing here starts a program or opens a file, so that every wrong answer can be tested
// by its text alone. Unknown keys are errors, as in trace.json: a misspelt `semantics` must not
// become a default.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/audit_points.h"
#include "kcc/kernel/kernel.h"

namespace kcc {

inline constexpr int kExecProtocol = 1;

// Lines without their ends. `audit` asks for audit points, of a program that says `audits`.
std::string HelloMessage();
std::string ScoreMessage(int64_t batch, std::span<const KernelRequest> requests,
                         const std::string& file, bool audit = false);
std::string GenerateMessage(int64_t batch, std::span<const KernelRequest> requests,
                            const Sampling& sampling, bool audit = false);
std::string ByeMessage();

// A request's own seed: below 2^53, so that every language reads it, and the same wherever the
// request stands in whatever batch.
uint64_t RequestSeed(uint64_t run_seed, std::string_view id);

// One continuation of a `generated` answer.
struct GeneratedRequest {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // none, or one a token
  std::optional<double> latency_ms;
  std::optional<double> ttft_ms;
  bool failed = false;  // it ended in an error: its tokens, if any, are no answer
  RequestAudit audit;
  Request fields;  // further fields the program judged: refused, parsed, reward …; id is unused
};

Result<KernelInfo> ParseHello(std::string_view line);
// Success if the line answers this batch for these requests, in this order, by this kernel. Gives
// what it says of each request for a replay: nothing, or one for each request.
Result<std::vector<RequestAudit>> ParseScored(std::string_view line, int64_t batch,
                                              std::span<const KernelRequest> requests,
                                              const std::string& fingerprint);
Result<std::vector<GeneratedRequest>> ParseGenerated(std::string_view line, int64_t batch,
                                                     std::span<const KernelRequest> requests,
                                                     const Sampling& sampling,
                                                     const KernelInfo& info);

}  // namespace kcc
