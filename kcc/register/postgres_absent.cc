// In place of postgres_store.cc in a build without libpq (KCC_PORTABLE).
#include "kcc/register/gateway_peers.h"
#include "kcc/register/postgres_store.h"

namespace kcc {
namespace {

Error WithoutPostgres() {
  return InvalidError(
      "this kcc was built without PostgreSQL, as every kcc for any Linux is; use a file, or build "
      "kcc from its sources");
}

}  // namespace

Result<std::unique_ptr<EventStore>> OpenPostgresStore(const std::string&) {
  return WithoutPostgres();
}

Result<std::unique_ptr<GatewayPeers>> GatewayPeers::Open(const std::string&) {
  return WithoutPostgres();
}

}  // namespace kcc
