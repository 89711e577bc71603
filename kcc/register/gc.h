// Removing blobs: those that no event names, evidence that is older than it has to be kept, and
// single ones that must not be kept. Each leaves a blob.removed event, which verify accepts: the
// log still says that the blob was there, what it was and why it is gone.
//
// Stored requests say themselves until when they are kept.
//
// What stays whatever is asked for: contracts, policies, certificates, statements, and the evidence
// of the last evaluation of each triple in each stage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/register.h"

namespace kcc {

struct Removal {
  std::string blob;
  int64_t bytes = 0;
  std::string why;  // "gc", "retention" or "redaction"
};

struct GcOptions {
  // Summaries, reports and request sets of evaluations before this time, which later ones of the
  // same triple and stage replace.
  std::optional<int64_t> evidence_before_ms;
  std::optional<int64_t> requests_before_ms = {};  // requests that were stored before this time
  std::optional<int64_t> now_ms = {};              // requests whose retention has ended by now
  std::string redact;                              // a blob's digest; then nothing else is removed
};

// What there is to remove. Fails where `redact` is not stored.
Result<std::vector<Removal>> FindRemovals(Register& source, const GcOptions& options);

// The events for it. `reason` is the user's, and may be empty.
Batch RemovalBatch(const std::vector<Removal>& removals, const std::string& reason,
                   const std::string& actor, int64_t time_ms);

}  // namespace kcc
