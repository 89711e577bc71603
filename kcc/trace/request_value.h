// One field of a request from JSON, by the rules of requests.h. It shows simdjson, so that only .cc
// files include it (format/json.h).
#pragma once

#include "kcc/base/result.h"
#include "kcc/format/json.h"
#include "kcc/trace/trace.h"

namespace kcc {

// Precondition: the element is not null, which means that the field is absent.
Result<> ReadRequestValue(json::element element, RequestValue* value);

}  // namespace kcc
