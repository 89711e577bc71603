// For tests: registers to try things on, in a temporary directory and on a PostgreSQL server that
// lives as long as the test program (tests/register/postgres.sh).
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "kcc/base/directory.h"
#include "kcc/register/register.h"

namespace kcc {

class TemporaryFolder {
 public:
  TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}
  explicit TemporaryFolder(const std::filesystem::path& below) {
    std::string path = below / "kcc-register-XXXXXX";
    path_ = ::mkdtemp(path.data()) != nullptr ? path : "";
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { RemoveTreeQuietly(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One server for the whole program. It ends when its standard input does, however this program
// ends.
class PostgresServer {
 public:
  static const PostgresServer& Get() {
    static const PostgresServer server;
    return server;
  }
  // Empty: no server could be started, and standard error says why.
  const std::string& uri() const { return uri_; }

  // A URI with a schema of its own. Counted up, so that no two tests meet.
  std::string NewSchema() const {
    static int count = 0;
    const std::string name = "s" + std::to_string(::getpid()) + "_" + std::to_string(++count);
    PGconn* connection = PQconnectdb(uri_.c_str());
    PGresult* made = PQexec(connection, ("CREATE SCHEMA " + name).c_str());
    EXPECT_EQ(PQresultStatus(made), PGRES_COMMAND_OK) << PQerrorMessage(connection);
    PQclear(made);
    PQfinish(connection);
    return uri_ + "&options=-csearch_path%3D" + name;
  }

 private:
  PostgresServer() {
    int in[2];
    int out[2];
    ::chmod(folder_.path().c_str(), 0755);  // the server is another user
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return;
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::execl("tests/register/postgres.sh", "postgres.sh", (folder_.path() + "/server").c_str(),
              nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    FILE* answers = ::fdopen(out[0], "r");
    std::array<char, 4096> line{};
    if (std::fgets(line.data(), line.size(), answers) != nullptr) uri_ = line.data();
    while (!uri_.empty() && uri_.back() == '\n') uri_.pop_back();
  }
  ~PostgresServer() {
    ::close(input_);
    ::waitpid(child_, nullptr, 0);
  }

  // Not where TMPDIR says: the server is another user, and the path of a socket has to be short.
  TemporaryFolder folder_{"/tmp"};
  std::string uri_;
  pid_t child_ = -1;
  int input_ = -1;
};

enum class Backend { kSqlite, kPostgres };

inline std::string BackendName(const ::testing::TestParamInfo<Backend>& backend) {
  return backend.param == Backend::kSqlite ? "Sqlite" : "Postgres";
}

// A test on each backend, with a URI of its own.
class OnEachBackend : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { uri_ = NewUri(); }

  // A place for another register.
  std::string NewUri() {
    if (GetParam() == Backend::kSqlite) {
      return folder_.path() + "/register" + std::to_string(++count_) + ".db";
    }
    // Not skipped: a machine without the server has not tested what it says it did.
    EXPECT_NE(PostgresServer::Get().uri(), "") << "no PostgreSQL server; run tools/setup.sh";
    return PostgresServer::Get().NewSchema();
  }

  Register Create() { return Create(uri_); }
  static Register Create(const std::string& uri) {
    Result<Register> made = Register::Create(uri);
    EXPECT_TRUE(made.has_value()) << made.error().Format();
    return std::move(*made);
  }

  TemporaryFolder folder_;
  std::string uri_;
  int count_ = 0;
};

}  // namespace kcc
