// The JSON Schema of the text files of a trace (kcc schema --trace; docs/trace.schema.json): of
// trace.json and of a line of requests.jsonl, which has an id and by that is told from it.
#pragma once

#include <string>

#include "kcc/report/json_schema.h"

namespace kcc {

std::string TraceSchema();

// For schemas that hold records of requests: an object of fields without the id, described, and the
// definitions that it refers to.
json_schema::Schema RecordSchema(std::string_view description);
json_schema::Definitions RecordDefinitions();

}  // namespace kcc
