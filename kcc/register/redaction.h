// What a register keeps of single requests in an evaluation's summary and report, as the policy
// says of requests (docs/replay.md): with `none` nothing, with `hashes` digests of ids, with `full`
// ids and tokens, and texts only with `text`.
//
// Verdicts do not read any of it, so a redacted copy is judged as the summary that was measured. It
// has a digest of its own, which is the one that the log names. What stays whatever the policy
// says: 64-bit hashes of the ids of all requests, by which evidence is known to be of other
// requests or of the same.
#pragma once

#include "kcc/contract/policy.h"
#include "kcc/report/report.h"
#include "kcc/summary/summary.h"

namespace kcc {

// Repeats of a request are compared with the first of them, and joined summaries choose it by id:
// of redacted ones by the digest of the id.
Summary Redacted(Summary summary, const RequestStorage& storage);
ReportData Redacted(ReportData report, const RequestStorage& storage);

}  // namespace kcc
