// Which requests of a judged run are kept: those that a clause points at, and a sample.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/replay/stored_request.h"
#include "kcc/summary/summary.h"

namespace kcc {

// By id, with its worst value for each clause and slice: requests that have one of the worst values
// of a quantity beyond the threshold of a clause that is violated there, or exceeded somewhere. A
// summary lists the worst 16 values of a quantity on a slice, so at most as many requests are
// flagged by a clause on a slice. Clauses about all requests together (population metrics) point at
// none.
std::map<std::string, std::vector<RequestFlag>> FlaggedRequests(const Contract& contract,
                                                                const Judgement& judgement,
                                                                const Summary& summary);

// Whether the request belongs to the sample of this share. It depends on its id alone: the same
// requests on every machine and every day, whatever the kernels answered.
bool InSample(std::string_view id, double share);

}  // namespace kcc
