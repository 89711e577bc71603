// Temporary files and directories beside what they will become, which nobody has to clean up.
//
// Each is called .kcc-XXXXXXXXXX.tmp and is locked (flock) by its writer for as long as it is a
// temporary. A process that is killed leaves it behind, but not the lock: whoever makes the next
// one in the same directory removes those of the same user whose lock it can take. Age and process
// number say nothing, since a process may sleep and numbers come again.
//
// The invariant that makes this safe: a lock counts only if, once it is held, the name still means
// the locked file. A maker whose file was taken in the moment before its lock sees that and makes
// another; a remover that came too late, after the rename, sees it and removes nothing.
//
// Where the file system has no locks, temporaries are made without one and never removed.
#pragma once

#include <sys/types.h>

#include <string>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"

namespace kcc {

class Temporary {
 public:
  enum class Kind { kFile, kDirectory };

  // Removes what killed writers left in `directory`, then makes a new one there. `mode` is what
  // open(2) or mkdir(2) would be given: the umask applies.
  static Result<Temporary> Make(const std::string& directory, Kind kind, mode_t mode);

  // Renames the file `path` to a temporary's name beside it, from where RenameTo brings it back.
  static Result<Temporary> MoveAside(const std::string& path);

  Temporary() = default;  // none
  Temporary(Temporary&& other) noexcept;
  Temporary& operator=(Temporary&& other) noexcept;
  ~Temporary();  // removes it, with all it holds

  const std::string& path() const { return path_; }
  int descriptor() const { return lock_.get(); }  // of a file, open for writing

  // Renames it to `target`, replacing a file or an empty directory; false: see errno, and it is
  // still a temporary.
  bool RenameTo(const std::string& target);

  // Exchanges it with `target`, which must exist: what stood there is the temporary now, and goes
  // with this object. False: see errno.
  bool ExchangeWith(const std::string& target);

 private:
  Temporary(std::string path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;  // empty: none, or renamed
  FileDescriptor lock_;
};

// Removes the temporaries that killed writers left in `directory`; says nothing where it cannot.
void RemoveStaleTemporaries(const std::string& directory);

// Whether `path` itself, not what a link there points to, is the open file.
bool NamesOpenFile(const std::string& path, int fd);

// Makes a rename or a removal in `directory` last through a crash of the machine. A file system
// that cannot sync a directory has nothing better to offer, so its refusal is not an error.
void SyncDirectory(const std::string& directory);

}  // namespace kcc
