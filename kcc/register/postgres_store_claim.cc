// The claim on a register in PostgreSQL: an advisory lock that a connection of its own holds.
#include "kcc/register/postgres_connection.h"
#include "kcc/register/register_claim.h"

namespace kcc {
namespace {

class ServerClaim final : public RegisterClaim::Held {
 public:
  explicit ServerClaim(PostgresConnection connection) : connection_(std::move(connection)) {}

  // The lock is of this connection: while that answers, it holds.
  Result<> Check() override {
    KCC_TRY_VOID(connection_.Query("SELECT 1::bigint"));
    return {};
  }

 private:
  PostgresConnection connection_;
};

}  // namespace

Result<std::unique_ptr<RegisterClaim::Held>> ClaimPostgres(const std::string& uri) {
  KCC_TRY(PostgresConnection connection, PostgresConnection::Open(uri));
  // The number is "kccg"; a schema has a lock of its own.
  KCC_TRY(const PostgresRows rows,
          connection.Query("SELECT (CASE WHEN pg_try_advisory_lock(1801675623, "
                           "hashtext(current_schema())) THEN 1 ELSE 0 END)::bigint"));
  if (rows.count() != 1 || rows.Integer(0, 0) != 1) {
    return std::unique_ptr<RegisterClaim::Held>();
  }
  return std::unique_ptr<RegisterClaim::Held>(new ServerClaim(std::move(connection)));
}

}  // namespace kcc
