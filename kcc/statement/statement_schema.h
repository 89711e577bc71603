// The JSON Schema of the statements that kcc signs; committed as docs/statement.schema.json.
#pragma once

#include <string>

namespace kcc {

// Draft 2020-12. Objects stay open: later versions add keys, and a new meaning is a new type.
std::string StatementJsonSchema();

}  // namespace kcc
