// Replay signatures and audit points in answers of the exec protocol (docs/exec-protocol.md).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/format/json.h"
#include "kcc/kernel/audit_points.h"

namespace kcc {

// The keys that hold them: of an item of `audits`, and of a generated request.
inline constexpr std::array<std::string_view, 2> kAuditKeys = {"replaySignature", "auditPoints"};

// Of one object; what it does not say is empty.
Result<RequestAudit> ReadAnsweredAudit(json::object object);

}  // namespace kcc
