// Replay: a stored request under both kernels again. What each kernel says is held against what it
// said then, and the two against each other: the first audit point at which they part, and the
// source of the difference by attribution (docs/replay.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/attribution/attribution.h"
#include "kcc/base/result.h"
#include "kcc/kernel/audit_points.h"
#include "kcc/kernel/stream.h"
#include "kcc/replay/stored_request.h"

namespace kcc {

// What a side's second run shows about its first.
enum class SideOutcome : uint8_t {
  kReproduced,     // the same build signed the same
  kNotReproduced,  // the same build signed something else
  kAnotherBuild,   // the fingerprint or the weights differ: nothing is shown about the first run
  kNotRecorded,    // a signature is missing, then or now
  kNotComparable,  // the kernel audits other points than then, or signs all requests alike
  kAnotherBatch,   // signed something else, but was not asked together with what it was then
};
std::string_view Name(SideOutcome outcome);  // "reproduced", "not reproduced", …

struct SideReplay {
  SideOutcome outcome = SideOutcome::kNotRecorded;
  std::string why;  // one sentence; empty for kReproduced
  std::string fingerprint;
  std::string signature;  // of this run; empty: none
  std::string stored_fingerprint;
  std::string stored_signature;
  // A request of other tokens got the same signature, which then shows nothing of any request.
  bool signs_alike = false;
};

struct ReplayResult {
  SideReplay train;
  SideReplay infer;
  // Of the two runs now. None: a signature is missing, or they are of different kinds.
  std::optional<bool> sides_agree;
  AuditComparison audit;
  std::optional<Attribution> attribution;
  std::string no_attribution;  // why there is none
  // Requests that were asked with it, to give infer's batch its shape.
  size_t company = 0;

  // Both sides showed that they do as they did.
  bool Reproduced() const {
    return train.outcome == SideOutcome::kReproduced && infer.outcome == SideOutcome::kReproduced;
  }
  // A side showed that it does not.
  bool Refuted() const {
    return train.outcome == SideOutcome::kNotReproduced ||
           infer.outcome == SideOutcome::kNotReproduced;
  }
};

struct ReplayOptions {
  std::string scratch = "/tmp";
  bool alone = false;  // do not give the batch its shape
};

// The same request with every token id another one, as far as the vocabulary has another.
KernelRequest OtherTokens(const KernelRequest& request, int64_t vocab_size);

// The batch that the request is asked in: the request itself at its place, and in the other places
// requests of the stored lengths, made of the tokens of `company`. Numbers that depend on the batch
// depend on its shape; on what the others hold they depend only in engines that mix them (mixtures
// of experts with a capacity).
std::vector<KernelRequest> ReplayBatch(const KernelRequest& request, const BatchShape& shape,
                                       bool alone, const KernelRequest& company, size_t* place);

// Runs the request on both kernels, which were opened with audit_points, and compares. Each is also
// asked a request of other tokens: a signature that is the same shows nothing. One that does not
// sign as then is asked once more in other company, to see whether that matters. Attribution is the
// caller's, since it opens kernels of its own.
Result<ReplayResult> Replay(const StoredRequest& stored, const KernelRequest& request,
                            const KernelPair& pair, const ReplayOptions& options);

}  // namespace kcc
