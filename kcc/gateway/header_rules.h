// Which headers go through the gateway, and what a value may hold. Both ways it is a list of what
// passes, so that what nobody thought of stays outside: hop-by-hop fields, credentials, cookies,
// and the gateway's own x-kcc-*.
#pragma once

#include <string_view>

#include "kcc/gateway/head.h"

namespace kcc {

bool SameHeaderName(std::string_view a, std::string_view b);  // whatever their case

// Passed to kernels: traceparent and tracestate, and what the configuration reads a session or a
// field from, unless it is one of those that never pass.
bool NeverPassed(std::string_view name);
// Passed to clients.
bool IsKeptOfAnswer(std::string_view name);
// Without control characters, CR and LF among them: nothing else is put into a header.
bool IsHeaderValue(std::string_view value);
// A client's own name for its request, that goes into headers, logs and records as it is.
bool IsRequestId(std::string_view value);
// "application/json; charset=utf-8" is of "application/json".
bool IsMediaType(std::string_view content_type, std::string_view type);

// Adds it if the value may be in a header.
void AddHeader(std::string_view name, std::string_view value, HeaderList* headers);

}  // namespace kcc
