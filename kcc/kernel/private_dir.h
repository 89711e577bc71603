// A directory that kcc owns: made for this user alone (0700), gone with the object on every path
// out of a function. What a killed process leaves, the next one in the same place removes.
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/base/temporary.h"

namespace kcc {

class PrivateDir {
 public:
  static Result<PrivateDir> Make(const std::string& parent);

  const std::string& path() const { return directory_.path(); }
  std::string operator/(const std::string& name) const { return path() + "/" + name; }

 private:
  explicit PrivateDir(Temporary directory) : directory_(std::move(directory)) {}
  Temporary directory_;
};

// Removes a file or a tree if it is there; fails if something stays.
Result<> RemoveTree(const std::string& path);

}  // namespace kcc
