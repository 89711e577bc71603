// Audit points: named places of a computation, in its order, with digests of what was computed
// there (paper 7.3). A kernel that gives them lets a replay name the first place at which two
// kernels part; its replay signature says no more than that they do.
//
// In a trace they are the request's field `audit_points`, a list of texts "POINT=DIGEST DIGEST …".
// They are written only where a kernel is opened for it (KernelOpenOptions::audit_points): a list
// for every request of an evaluation set would be larger than its logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/trace.h"

namespace kcc {

inline constexpr std::string_view kAuditPointsField = "audit_points";
inline constexpr std::string_view kReplaySignatureField = "replay_signature";
inline constexpr size_t kReplaySignatureBytesMax = 200;

// A position that was not recorded.
inline constexpr std::string_view kNoDigest = "-";
// As the last digest: the positions after it are left out. A line of a trace has a limit
// (kRequestLineBytesMax), and digests of a long request at every operator can be more than it
// holds. The earliest positions are kept, since the first difference is what is looked for.
inline constexpr std::string_view kMoreDigests = "…";
inline constexpr size_t kAuditPointsBytesMax = size_t{8} << 20;

struct AuditDigests {
  std::string point;                 // "layer 3, gated": no '=' and no line end in it
  std::vector<std::string> digests;  // by position from 0, or one for all positions

  bool operator==(const AuditDigests&) const = default;
};
using AuditPointList = std::vector<AuditDigests>;

// What a kernel says of one request besides its numbers.
struct RequestAudit {
  std::string signature;  // empty: none
  AuditPointList points;  // in the order of the computation; empty: none
};

// Fails on names and digests that the field could not hold, naming the first.
Result<> CheckAudit(const RequestAudit& audit);

// Writes what there is into a request's line, of audit points as many positions as fit into
// kAuditPointsBytesMax. Precondition: CheckAudit.
void SetAudit(const RequestAudit& audit, Request* request);
// Reads it back; what is not recorded is empty.
Result<RequestAudit> AuditOf(const Request& request);

struct AuditComparison {
  enum class Outcome : uint8_t { kAgree, kDiverge, kNotComparable };
  Outcome outcome = Outcome::kNotComparable;
  std::string why;                  // of kNotComparable: what is missing
  size_t compared = 0;              // points of the same name
  size_t alone = 0;                 // points that one side alone has
  std::string point;                // of kDiverge: the first that differs
  std::optional<int64_t> position;  // where digests are by position
  std::optional<size_t> positions;  // how many were compared, where not all are kept
};

// The earliest position at which a point of both lists differs, and there the earliest point. Where
// some point has one digest for all positions, the earliest point.
AuditComparison CompareAudits(const AuditPointList& train, const AuditPointList& infer);

}  // namespace kcc
