#include "kcc/kernel/private_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kcc/base/directory.h"

namespace kcc {

Result<PrivateDir> PrivateDir::Make(const std::string& parent) {
  KCC_TRY(Temporary directory, Temporary::Make(parent, Temporary::Kind::kDirectory, 0700));
  return PrivateDir(std::move(directory));
}

Result<> RemoveTree(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return {};
  int why = errno;
  RemoveTreeQuietly(path.c_str());
  if (why == EISDIR) why = errno;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 && errno == ENOENT) return {};
  return IoError(std::string("cannot remove: ") + std::strerror(why), Place{path});
}

}  // namespace kcc
