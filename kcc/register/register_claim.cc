#include "kcc/register/register_claim.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "kcc/register/register_uri.h"

namespace kcc {

// SQLite's own locks come and go with transactions, so that this one lies beside its file. It is
// never removed: two processes could then lock two files of one name.
Result<std::optional<RegisterClaim>> RegisterClaim::Take(const std::string& uri) {
  KCC_TRY(const RegisterUri parsed, ParseRegisterUri(uri));
  if (parsed.postgres) return InvalidError("a register on a server is not claimed as a file");
  const std::string path = parsed.target + ".gateway";
  constexpr mode_t kMode = 0640;
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (lock.get() < 0) {
    return IoError(std::string("cannot open the register's lock: ") + std::strerror(errno),
                   Place{path});
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
    return std::optional<RegisterClaim>(RegisterClaim(std::move(lock)));
  }
  if (errno == EWOULDBLOCK) return std::optional<RegisterClaim>();
  return IoError(std::string("cannot lock the register: ") + std::strerror(errno), Place{path});
}

}  // namespace kcc
