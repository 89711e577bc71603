// The paths that a gateway answers, and whether a request for one of them may go on: its method and
// its types. Paths are compared as they are: what a kernel might read as one of them after decoding
// is none here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kcc/gateway/head.h"
#include "kcc/gateway/pool.h"

namespace kcc {

struct OpenAiRoute {
  std::string_view path;  // what kernels are asked; a query is not passed on
  bool chat = false;
};

// The route of a request that may go to a kernel; null: `answer` is what the client gets.
const OpenAiRoute* FindOpenAiRoute(const AskHead& head, const GatewayPool& pool,
                                   GatewayAnswer* answer);

}  // namespace kcc
