// A few of many requests, spread evenly over them: of `total` the k-th of `count` is number
// k * total / count. The one way to choose a part, so that two commands with the same number look
// at the same requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/request_source.h"

namespace kcc {

// All of them if there are fewer. `shift` moves the choice, within the gap between two.
std::vector<KernelRequest> SpreadRequests(std::span<const KernelRequest> requests, size_t count,
                                          size_t shift = 0);

// The same of a source, which is read to its end, so that a mistake behind the last one is found.
// `count` 0: all.
Result<std::vector<KernelRequest>> ReadSpread(RequestSource& source, int64_t count);

}  // namespace kcc
