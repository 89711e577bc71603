#include "kcc/register/postgres_connection.h"

#include <array>
#include <new>
#include <utility>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/register/register_uri.h"

namespace kcc {
namespace {

constexpr const char* kConnectSeconds = "10";

// A library prints nothing.
void IgnoreNotice(void*, const PGresult*) {}

// The password of a URI; none and false where libpq cannot read the URI.
bool PasswordOf(const std::string& uri, std::string* password) {
  char* problem = nullptr;
  PQconninfoOption* options = PQconninfoParse(uri.c_str(), &problem);
  PQfreemem(problem);
  if (options == nullptr) return false;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (std::string_view(option->keyword) == "password" && option->val != nullptr) {
      *password = option->val;
    }
  }
  PQconninfoFree(options);
  return true;
}

// Every occurrence. A short password may hide more of a message than itself, which is the better
// mistake.
std::string Replaced(std::string text, const std::string& what, std::string_view by) {
  for (size_t at = 0; !what.empty() && (at = text.find(what, at)) != std::string::npos;) {
    text.replace(at, what.size(), by);
    at += by.size();
  }
  return text;
}

}  // namespace

// Eight bytes, the most significant first: the wire format of bigint.
int64_t PostgresRows::Integer(int row, int column) const {
  const std::string_view bytes = Text(row, column);
  KCC_CHECK(bytes.size() == sizeof(int64_t));
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<int64_t>(number);
}

PostgresParameter::PostgresParameter(int64_t number) : type_(kIntegerType) {
  auto rest = static_cast<uint64_t>(number);
  for (size_t i = sizeof number_; i-- > 0; rest >>= 8) {
    number_[i] = static_cast<char>(static_cast<unsigned char>(rest & 0xff));
  }
}

PostgresConnection::PostgresConnection(PGconn* connection, std::string name, std::string password)
    : connection_(connection), name_(std::move(name)), password_(std::move(password)) {}

std::string PostgresConnection::Words(const char* message) const {
  std::string words = Replaced(message == nullptr ? "" : message, password_, "***");
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return Replaced(std::move(words), "\n", "; ");
}

Result<PostgresConnection> PostgresConnection::Open(const std::string& uri) {
  const std::string shown = ShownUri(uri);
  std::string password;
  if (!PasswordOf(uri, &password)) {
    // libpq's own words may quote a part of the password.
    return InvalidError(
        "the address of the server cannot be read; it looks like "
        "postgresql://USER@HOST:PORT/DATABASE, and other characters in a part are written as %xx",
        Place{shown});
  }
  // What the URI says comes later, and counts.
  const std::array<const char*, 4> keys = {"connect_timeout", "application_name", "dbname",
                                           nullptr};
  const std::array<const char*, 4> values = {kConnectSeconds, "kcc", uri.c_str(), nullptr};
  PostgresConnection opened(PQconnectdbParams(keys.data(), values.data(), 1), shown, password);
  PGconn* connection = opened.connection_.get();
  if (connection == nullptr) throw std::bad_alloc();
  if (PQstatus(connection) != CONNECTION_OK) {
    const std::string words = opened.Words(PQerrorMessage(connection));
    const bool refused = PQconnectionNeedsPassword(connection) != 0 ||
                         PQconnectionUsedPassword(connection) != 0 ||
                         words.find("authentication failed") != std::string::npos;
    return IoError(std::string(refused ? "the server refused the user or the password: "
                                       : "no connection to the server: ") +
                       words,
                   Place{shown});
  }
  // Texts go to and fro as bytes, so both sides must mean UTF-8 by them.
  PQsetNoticeReceiver(connection, IgnoreNotice, nullptr);
  const char* encoding = PQparameterStatus(connection, "server_encoding");
  if (encoding == nullptr || std::string_view(encoding) != "UTF8") {
    return InvalidError("the database's encoding is not UTF8; a register needs one that is",
                        Place{shown});
  }
  if (PQsetClientEncoding(connection, "UTF8") != 0) return opened.Problem(nullptr);
  KCC_TRY_VOID(opened.Script("SET lock_timeout = '10s'; SET synchronous_commit = on"));
  return opened;
}

Error PostgresConnection::Problem(const PGresult* result) const {
  const Place place{name_};
  // By the server's code, not by its words: those are in the server's language.
  const char* state = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string_view code = state == nullptr ? "" : state;
  const std::string words =
      Words(result == nullptr ? PQerrorMessage(connection_.get()) : PQresultErrorMessage(result));
  // A connection that breaks during COMMIT leaves open whether it was committed; the message says
  // how to find out, since nobody here can.
  if (PQstatus(connection_.get()) != CONNECTION_OK || code.starts_with("08") ||
      code.starts_with("57P")) {
    return IoError(
        "the connection to the server was lost; a step that was being committed is "
        "written as a whole or not at all: look with `kcc register log` (" +
            words + ")",
        place);
  }
  if (code == "55P03") {
    return IoError(
        "another process holds the register, for more than 10 seconds; nothing was written: try "
        "again when it is done",
        place);
  }
  if (code == "53100")
    return IoError("the server's disk is full; nothing of this step was written", place);
  if (code == "25006") return IoError("the register is read-only; nothing was written", place);
  if (code == "42501") return IoError("no permission: " + words, place);
  if (code.starts_with("XX")) {
    return BrokenEvidenceError("is damaged (" + words + "); restore it from an export or a backup",
                               place);
  }
  return IoError("the server refused a statement: " + words, place);
}

Result<PostgresRows> PostgresConnection::Query(
    const std::string& sql, std::initializer_list<PostgresParameter> parameters) {
  PGconn* connection = connection_.get();
  std::vector<Oid> types;
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const PostgresParameter& parameter : parameters) {
    const std::string_view value = parameter.value();
    types.push_back(parameter.type());
    values.push_back(value.data() == nullptr ? "" : value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
  const std::vector<int> formats(values.size(), 1);  // binary
  const auto count = static_cast<int>(values.size());
  // The name of a statement is its text's digest: it must fit 63 bytes.
  const std::string name = Sha256Of(sql).substr(7, 40);
  if (!prepared_.contains(name)) {
    PostgresRows made(PQprepare(connection, name.c_str(), sql.c_str(), count, types.data()));
    KCC_TRY_VOID(Check(made, PGRES_COMMAND_OK));
    prepared_.insert(name);
  }
  PostgresRows rows(PQexecPrepared(connection, name.c_str(), count, values.data(), lengths.data(),
                                   formats.data(), 1));
  KCC_TRY_VOID(Check(rows, PGRES_TUPLES_OK));
  return rows;
}

// Statements that give no rows end with COMMAND_OK, which is always fine.
Result<> PostgresConnection::Check(const PostgresRows& rows, ExecStatusType expected) const {
  const PGresult* result = rows.get();
  if (result == nullptr) return Problem(nullptr);
  const ExecStatusType status = PQresultStatus(result);
  if (status != expected && status != PGRES_COMMAND_OK) return Problem(result);
  return {};
}

Result<> PostgresConnection::Execute(const std::string& sql,
                                     std::initializer_list<PostgresParameter> parameters) {
  KCC_TRY(const PostgresRows rows, Query(sql, parameters));
  return {};
}

Result<> PostgresConnection::Script(const char* sql) {
  const PostgresRows done(PQexec(connection_.get(), sql));
  return Check(done, PGRES_TUPLES_OK);
}

// For destructors: allocates nothing of ours, and does nothing where no transaction is open. A lost
// connection has rolled back by itself.
void PostgresConnection::RollbackQuietly() noexcept {
  if (connection_ == nullptr || PQtransactionStatus(connection_.get()) == PQTRANS_IDLE) return;
  PQclear(PQexec(connection_.get(), "ROLLBACK"));
}

}  // namespace kcc
