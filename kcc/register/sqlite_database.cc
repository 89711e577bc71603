#include "kcc/register/sqlite_database.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "kcc/base/descriptor.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr int kLockWaitMs = 10'000;

// SQLite reads a path as a URI only where it is asked to; then these have a meaning.
std::string FileUri(const std::string& path) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      uri += '%';
      uri += kHex[byte >> 4];
      uri += kHex[byte & 15];
    } else {
      uri += c;
    }
  }
  return uri;
}

// A register in a folder that cannot be written to, with nothing in its write-ahead log: SQLite
// wants to make files beside it even to read, unless it is told that nobody writes.
bool OnlyImmutable(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::absolute(path, failed).parent_path();
  return !failed && ::access(folder.c_str(), W_OK) != 0 &&
         !std::filesystem::exists(path + "-wal", failed);
}

// Of the index that SQLite keeps beside a write-ahead log; it makes one to read a register, too.
constexpr off_t kIndexBytes = 32 << 10;

// Why no file of the index's size can be made beside `path`; 0: one can, or the file system cannot
// be asked without leaving a name behind. SQLite loses the reason: where it cannot make its log, it
// looks whether there is one to read, and then "no such file" is the last thing that it heard;
// where it cannot write its index, it keeps no reason at all.
int WhyNoFileBeside(const std::string& path) {
  std::error_code failed;
  const std::string folder = std::filesystem::absolute(path, failed).parent_path().string();
  const FileDescriptor made(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (made.get() < 0) return errno == EOPNOTSUPP || errno == EISDIR ? 0 : errno;
  return ::pwrite(made.get(), "", 1, kIndexBytes - 1) == 1 ? 0 : errno;
}

// The system's error behind SQLite's; 0: none is known.
int ReasonOf(sqlite3* database, int code, const std::string& path) {
  const int reason = database != nullptr ? sqlite3_system_errno(database) : 0;
  const bool lost = ((code & 0xff) == SQLITE_CANTOPEN && reason == ENOENT) ||
                    (code == SQLITE_IOERR_SHMSIZE && reason == 0);
  if (!lost) return reason;
  const int beside = WhyNoFileBeside(path);
  return beside != 0 ? beside : reason;
}

}  // namespace

// By the code; SQLite's own words are added only where the code does not say what to do.
Error SqliteProblem(sqlite3* database, int code, const std::string& path) {
  // Where the file layer runs out of memory, it is an error of reading or opening to SQLite.
  if ((code & 0xff) == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM) throw std::bad_alloc();
  const Place place{path};
  const std::string words = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  const int reason = ReasonOf(database, code, path);
  // Room that lacks for the write-ahead log or its index is no SQLITE_FULL to SQLite.
  const bool may_lack_room = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
  const bool no_room = (code == SQLITE_IOERR_SHMSIZE && reason != EFBIG) ||
                       (may_lack_room && (reason == ENOSPC || reason == EDQUOT));
  switch (no_room ? SQLITE_FULL : code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return IoError("another process holds the register, for more than " +
                         std::to_string(kLockWaitMs / 1000) +
                         " seconds; nothing was written: try again when it is done",
                     place);
    case SQLITE_FULL:
      return IoError("the disk is full; nothing of this step was written", place);
    case SQLITE_READONLY:
      return IoError("the register is read-only; nothing was written", place);
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return IoError("no permission to open the register", place);
    case SQLITE_CANTOPEN:
      return IoError("cannot be opened: " + words +
                         (reason != 0 ? ": " + std::string(std::strerror(reason)) : ""),
                     place);
    case SQLITE_NOTADB:
      return InvalidError("is not a register: it is not an SQLite database", place);
    case SQLITE_CORRUPT:
      return BrokenEvidenceError(
          "is damaged (" + words + "); restore it from an export or a backup", place);
    default:
      return IoError("cannot be read or written: " + words +
                         (reason != 0 ? ": " + std::string(std::strerror(reason)) : ""),
                     place);
  }
}

// SQLITE_STATIC: nothing is copied, the caller's text lives longer than the statement. A null
// pointer would be bound as NULL, which an empty text is not.
Result<> SqliteStatement::Bind(int index, std::string_view text) {
  const int code = sqlite3_bind_text64(statement_, index, text.data() == nullptr ? "" : text.data(),
                                       text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) return SqliteProblem(database_, code, path_);
  return {};
}

Result<> SqliteStatement::Bind(int index, int64_t number) {
  const int code = sqlite3_bind_int64(statement_, index, number);
  if (code != SQLITE_OK) return SqliteProblem(database_, code, path_);
  return {};
}

Result<> SqliteStatement::BindBytes(int index, std::string_view bytes) {
  const int code = sqlite3_bind_blob64(
      statement_, index, bytes.data() == nullptr ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
  if (code != SQLITE_OK) return SqliteProblem(database_, code, path_);
  return {};
}

Result<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteProblem(database_, code, path_);
}

Result<> SqliteStatement::Run() {
  KCC_TRY(const bool row, Step());
  (void)row;
  return {};
}

std::string_view SqliteStatement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
}

SqliteDatabase::SqliteDatabase(SqliteDatabase&& other) noexcept
    : path_(std::move(other.path_)),
      database_(std::exchange(other.database_, nullptr)),
      statements_(std::move(other.statements_)) {
  other.statements_.clear();
}

// Statements first: a connection with open ones does not close. The last connection to close brings
// the write-ahead log into the file.
SqliteDatabase::~SqliteDatabase() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(database_);
}

Result<SqliteDatabase> SqliteDatabase::Open(const std::string& path, bool create) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  const bool exists = std::filesystem::exists(status);
  if (!exists && !create) {
    return IoError("there is no register here; make one with `kcc register init`", Place{path});
  }
  if (exists && !std::filesystem::is_regular_file(status)) {
    return InvalidError("is not a register: it is not a file", Place{path});
  }
  SqliteDatabase opened;
  opened.path_ = path;
  // Read-only files are opened for writing too: SQLite then takes them as they are, and the first
  // write says that they are read-only.
  const bool immutable = exists && OnlyImmutable(path);
  const std::string uri = FileUri(path) + (immutable ? "?immutable=1" : "");
  const int mode = immutable ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  const int flags = mode | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                    (create && !immutable ? SQLITE_OPEN_CREATE : 0);
  int code = sqlite3_open_v2(uri.c_str(), &opened.database_, flags, nullptr);
  if (code == SQLITE_OK) code = sqlite3_extended_result_codes(opened.database_, 1);
  if (code == SQLITE_OK) code = sqlite3_busy_timeout(opened.database_, kLockWaitMs);
  if (code != SQLITE_OK) return SqliteProblem(opened.database_, code, path);
  // Every commit is on the disk before it is acknowledged, also through a loss of power.
  KCC_TRY_VOID(opened.Execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"));
  return opened;
}

Result<SqliteStatement> SqliteDatabase::Prepare(std::string_view sql) {
  auto found = statements_.find(sql);  // by its text: there are a few dozen
  if (found == statements_.end()) {
    // The place first: a statement that cannot be kept would keep the connection open.
    found = statements_.emplace(std::string(sql), nullptr).first;
  }
  if (found->second == nullptr) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(database_, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return SqliteProblem(database_, code, path_);
    found->second = statement;
  }
  return SqliteStatement(database_, found->second, path_);
}

Result<> SqliteDatabase::Execute(const char* sql) {
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return SqliteProblem(database_, code, path_);
  return {};
}

// For destructors. After some errors SQLite has rolled back by itself.
void SqliteDatabase::RollbackQuietly() noexcept {
  if (database_ != nullptr && sqlite3_get_autocommit(database_) == 0) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

}  // namespace kcc
