#include "kcc/kernel/private_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "kcc/base/directory.h"

namespace kcc {

Result<PrivateDir> PrivateDir::Make(const std::string& parent) {
  KCC_TRY(Temporary directory, Temporary::Make(parent, Temporary::Kind::kDirectory, 0700));
  return PrivateDir(std::move(directory));
}

Result<> RemoveTree(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return {};
  RemoveTreeQuietly(path.c_str());
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 && errno == ENOENT) return {};
  return IoError("cannot be removed", Place{path});
}

}  // namespace kcc
