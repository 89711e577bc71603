// The servers that kcc can ask, in the order in which messages and docs name them. A new server is
// one file that defines its ServerDialect, and its name in the two lines here.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/kernel/server_dialect.h"

namespace kcc {

extern const ServerDialect kVllmServer, kSglangServer, kLlamacppServer, kTrtllmServer;
inline constexpr std::array kServers = {&kVllmServer, &kSglangServer, &kLlamacppServer,
                                        &kTrtllmServer};

const ServerDialect* FindServer(std::string_view name);  // null: there is none

std::vector<std::string_view> ServerNames();
std::string ServerChoices();  // "vllm|sglang|…", as usage lines write it

}  // namespace kcc
