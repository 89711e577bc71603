// One connection to a PostgreSQL server by libpq, with its errors turned into ours. The only files
// that include libpq are this one's source and those that include it.
//
// Parameters and results are binary: texts and bytes as they are, integers as eight bytes. Each SQL
// text is prepared once. No message holds the password.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

class PostgresRows {
 public:
  explicit PostgresRows(PGresult* result) : result_(result) {}

  const PGresult* get() const { return result_.get(); }
  int count() const { return PQntuples(result_.get()); }
  std::string_view Text(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<size_t>(PQgetlength(result_.get(), row, column))};
  }
  int64_t Integer(int row, int column) const;  // of type bigint

 private:
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

// A parameter of a statement. Texts must live until the call is done.
class PostgresParameter {
 public:
  PostgresParameter(std::string_view text) : type_(kTextType), text_(text) {}
  PostgresParameter(const std::string& text) : PostgresParameter(std::string_view(text)) {}
  PostgresParameter(int64_t number);
  static PostgresParameter Bytes(std::string_view bytes) {
    PostgresParameter parameter(bytes);
    parameter.type_ = kBytesType;
    return parameter;
  }

  Oid type() const { return type_; }
  std::string_view value() const {
    return type_ == kIntegerType ? std::string_view(number_, sizeof number_) : text_;
  }

 private:
  static constexpr Oid kBytesType = 17, kIntegerType = 20, kTextType = 25;  // of pg_type
  Oid type_;
  std::string_view text_;
  char number_[8] = {};
};

class PostgresConnection {
 public:
  static Result<PostgresConnection> Open(const std::string& uri);

  Result<PostgresRows> Query(const std::string& sql,
                             std::initializer_list<PostgresParameter> parameters = {});
  Result<> Execute(const std::string& sql,
                   std::initializer_list<PostgresParameter> parameters = {});
  Result<> Script(const char* sql);  // several statements without parameters
  void RollbackQuietly() noexcept;

  const std::string& name() const { return name_; }

 private:
  PostgresConnection(PGconn* connection, std::string name, std::string password);
  Error Problem(const PGresult* result) const;
  Result<> Check(const PostgresRows& rows, ExecStatusType expected) const;
  std::string Words(const char* message) const;  // one line, without the password

  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Finish> connection_;
  std::string name_;
  std::string password_;
  std::set<std::string> prepared_;
};

}  // namespace kcc
