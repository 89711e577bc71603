// One connection to an SQLite file, and statements on it. The only files that include sqlite3.h are
// this one's source and those that include it.
//
// A statement is prepared once and kept; binding, stepping and reading go through Statement. Every
// error of SQLite becomes one of ours here, with what it means and what to do.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "kcc/base/result.h"

namespace kcc {

// What went wrong, as an Error; memory that ran out is std::bad_alloc.
Error SqliteProblem(sqlite3* database, int code, const std::string& path);

class SqliteStatement {
 public:
  SqliteStatement(sqlite3* database, sqlite3_stmt* statement, const std::string& path)
      : database_(database), statement_(statement), path_(path) {}
  SqliteStatement(SqliteStatement&& other) noexcept
      : database_(other.database_),
        statement_(std::exchange(other.statement_, nullptr)),
        path_(other.path_) {}
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  // Ready for the next use, with nothing of this one kept.
  ~SqliteStatement() {
    if (statement_ == nullptr) return;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }

  // The text must live until the statement is gone.
  Result<> Bind(int index, std::string_view text);
  Result<> Bind(int index, int64_t number);
  Result<> BindBytes(int index, std::string_view bytes);

  // True: a row can be read. False: done.
  Result<bool> Step();
  Result<> Run();  // to its end, without rows

  int64_t Integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string_view Text(int column) const;  // until the next step; texts and bytes alike

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_;
  const std::string& path_;
};

class SqliteDatabase {
 public:
  SqliteDatabase() = default;
  SqliteDatabase(SqliteDatabase&& other) noexcept;
  SqliteDatabase& operator=(SqliteDatabase&&) = delete;
  ~SqliteDatabase();

  // `create`: makes the file where there is none.
  static Result<SqliteDatabase> Open(const std::string& path, bool create);

  // A view of a kept statement. Two uses of one SQL text must not overlap.
  Result<SqliteStatement> Prepare(std::string_view sql);
  Result<> Execute(const char* sql);  // one or more statements without parameters
  void RollbackQuietly() noexcept;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sqlite3* database_ = nullptr;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

}  // namespace kcc
