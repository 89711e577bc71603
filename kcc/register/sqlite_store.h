// A register in an SQLite file (docs/register.md "SQLite"): the default, one file and no server.
#pragma once

#include <memory>
#include <string>

#include "kcc/base/result.h"
#include "kcc/register/event_store.h"

namespace kcc {

// `create`: makes the file where there is none. The schema is the caller's (schema.h).
Result<std::unique_ptr<EventStore>> OpenSqliteStore(const std::string& path, bool create);

}  // namespace kcc
