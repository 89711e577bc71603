#include "kcc/kernel/private_dir.h"

#include <filesystem>
#include <utility>

namespace kcc {

Result<PrivateDir> PrivateDir::Make(const std::string& parent) {
  KCC_TRY(Temporary directory, Temporary::Make(parent, Temporary::Kind::kDirectory, 0700));
  return PrivateDir(std::move(directory));
}

Result<> RemoveTree(const std::string& path) {
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  if (failed) return IoError("cannot remove: " + failed.message(), Place{path});
  return {};
}

}  // namespace kcc
