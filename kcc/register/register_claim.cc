#include "kcc/register/register_claim.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "kcc/base/descriptor.h"
#include "kcc/register/register_uri.h"

namespace kcc {
namespace {

class FileClaim final : public RegisterClaim::Held {
 public:
  explicit FileClaim(FileDescriptor lock) : lock_(std::move(lock)) {}
  Result<> Check() override { return {}; }

 private:
  FileDescriptor lock_;
};

// SQLite's own locks come and go with transactions, so that this one lies beside its file. It is
// never removed: two processes could then lock two files of one name.
Result<std::unique_ptr<RegisterClaim::Held>> ClaimFile(const std::string& file) {
  const std::string path = file + ".gateway";
  constexpr mode_t kMode = 0640;
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (lock.get() < 0) {
    return IoError(std::string("cannot open the register's lock: ") + std::strerror(errno),
                   Place{path});
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
    return std::unique_ptr<RegisterClaim::Held>(new FileClaim(std::move(lock)));
  }
  if (errno == EWOULDBLOCK) return std::unique_ptr<RegisterClaim::Held>();
  return IoError(std::string("cannot lock the register: ") + std::strerror(errno), Place{path});
}

}  // namespace

Result<std::optional<RegisterClaim>> RegisterClaim::Take(const std::string& uri) {
  KCC_TRY(const RegisterUri parsed, ParseRegisterUri(uri));
  KCC_TRY(auto held, parsed.postgres ? ClaimPostgres(parsed.target) : ClaimFile(parsed.target));
  if (!held) return std::optional<RegisterClaim>();
  return std::optional<RegisterClaim>(RegisterClaim(std::move(held), parsed.postgres));
}

}  // namespace kcc
