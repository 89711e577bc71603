// A directory of the process's own for fuzz targets that need names and folders; in memory where
// the machine has such a place, since a target fills and empties it at every input.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "kcc/base/check.h"

namespace kcc {

class FuzzDir {
 public:
  FuzzDir() {
    const bool shared = ::access("/dev/shm", W_OK) == 0;
    std::string path = shared ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    path += "/kcc-fuzz-XXXXXX";
    KCC_CHECK(::mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~FuzzDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FuzzDir(const FuzzDir&) = delete;
  FuzzDir& operator=(const FuzzDir&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string Put(const std::string& name, std::string_view bytes) const {
    std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
    return path;
  }
  void Empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::filesystem::remove_all(entry.path());
    }
  }

 private:
  std::filesystem::path path_;
};

}  // namespace kcc
