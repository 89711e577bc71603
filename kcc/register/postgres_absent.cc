// In place of postgres_store.cc in a build without libpq (KCC_PORTABLE).
#include "kcc/register/postgres_store.h"

namespace kcc {

Result<std::unique_ptr<EventStore>> OpenPostgresStore(const std::string&) {
  return InvalidError(
      "this kcc was built without PostgreSQL, as every kcc for any Linux is; use a file, or build "
      "kcc from its sources");
}

}  // namespace kcc
