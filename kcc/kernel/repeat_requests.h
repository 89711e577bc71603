// Every request several times, round by round, so that a repeat meets other company in its batch
// than the first time: what clauses on determinism are about.
//
// The request 'a' is asked as 'a', 'a#2', 'a#3'; all carry replay_group 'a', unless the request
// names a group itself.
#pragma once

#include <cstdint>
#include <memory>

#include "kcc/base/result.h"
#include "kcc/kernel/request_source.h"

namespace kcc {

// Next fails where a request's own id already ends as that of a repeat does. Precondition: times >
// 0.
std::unique_ptr<RequestSource> RepeatRequests(std::unique_ptr<RequestSource> source, int64_t times);

}  // namespace kcc
