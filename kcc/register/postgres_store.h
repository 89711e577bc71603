// A register on a PostgreSQL server (docs/register.md "PostgreSQL"), for teams.
#pragma once

#include <memory>
#include <string>

#include "kcc/base/result.h"
#include "kcc/register/event_store.h"

namespace kcc {

// `uri` is libpq's, with its parameters; what it leaves out libpq takes from its own environment
// and password file. The tables lie in the first schema of the connection's search path.
Result<std::unique_ptr<EventStore>> OpenPostgresStore(const std::string& uri);

}  // namespace kcc
