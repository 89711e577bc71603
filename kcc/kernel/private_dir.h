// A directory that kcc owns: made for this user alone (0700), gone with the object on every path
// out of a function. Only a killed process leaves one behind.
#pragma once

#include <string>

#include "kcc/base/result.h"

namespace kcc {

class PrivateDir {
 public:
  // `parent`/kcc-XXXXXX.
  static Result<PrivateDir> Make(const std::string& parent);
  PrivateDir(PrivateDir&& other) noexcept;
  PrivateDir& operator=(PrivateDir&&) = delete;
  ~PrivateDir();

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit PrivateDir(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
};

// Removes a file or a tree if it is there; fails if something stays.
Result<> RemoveTree(const std::string& path);

}  // namespace kcc
