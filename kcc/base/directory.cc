#include "kcc/base/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace kcc {
namespace {

constexpr int kDepthMax = 16;

struct CloseDirectory {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// One reading of the directory: removes what it names. False if nothing could be removed.
bool RemoveEntries(int folder, int depth);

void RemoveAt(int parent, const char* name, int depth) {
  if (depth >= kDepthMax) return;
  const int folder = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder >= 0) {
    while (RemoveEntries(folder, depth)) {  // readings may skip entries while others are removed
    }
    ::close(folder);
  }
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

bool RemoveEntries(int folder, int depth) {
  alignas(dirent64) char buffer[4096];
  bool removed = false;
  if (::lseek(folder, 0, SEEK_SET) < 0) return false;
  for (ssize_t size; (size = ::getdents64(folder, buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (::unlinkat(folder, entry->d_name, 0) == 0) {
        removed = true;
      } else {
        RemoveAt(folder, entry->d_name, depth + 1);
        removed = removed || ::faccessat(folder, entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
      }
    }
  }
  return removed;
}

}  // namespace

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  const std::unique_ptr<DIR, CloseDirectory> folder(::opendir(path.c_str()));
  if (folder == nullptr) {
    return IoError(std::string("cannot list: ") + std::strerror(errno), Place{path});
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return IoError(std::string("cannot list: ") + std::strerror(errno), Place{path});
  std::sort(names.begin(), names.end());
  return names;
}

void RemoveTreeQuietly(const char* path) noexcept { RemoveAt(AT_FDCWD, path, 0); }

}  // namespace kcc
