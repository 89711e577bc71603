// A file layer with faults, for tests: loaded before the C library, it counts the calls by which a
// program changes files below one directory and makes one of them fail.
//
//   KCC_FAULT_BELOW  the directory (absolute); other files, standard output included, are left alone
//   KCC_FAULT_AT     which call, from 1; 0: none
//   KCC_FAULT        ENOSPC (that call, and from then on whatever needs room), FULL (the same, but a
//                    write takes half before, as on a disk that fills up), EIO (that call alone),
//                    SHORT (a write takes half), KILL (the process ends before the call)
//   KCC_FAULT_LOG    a line for each call counted
//
// Programs that the program starts do not get it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char* below;
static const char* kind = "";
static long at;
static int log_fd = -1;
static atomic_long calls;

__attribute__((constructor)) static void Start(void) {
  below = getenv("KCC_FAULT_BELOW");
  if (getenv("KCC_FAULT") != NULL) kind = getenv("KCC_FAULT");
  if (getenv("KCC_FAULT_AT") != NULL) at = atol(getenv("KCC_FAULT_AT"));
  const char* log = getenv("KCC_FAULT_LOG");
  if (log != NULL) {
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  }
  unsetenv("LD_PRELOAD");
}

static int Below(const char* path) {
  char full[8192];
  if (below == NULL) return 0;
  if (path[0] != '/') {
    char directory[4096];
    if (getcwd(directory, sizeof directory) == NULL) return 0;
    snprintf(full, sizeof full, "%s/%s", directory, path);
    path = full;
  }
  const size_t length = strlen(below);
  return strncmp(path, below, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int BelowFd(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return Below(path);
}

enum What { kRoom, kOther };  // whether the call needs room on the disk
enum { kGoOn = 0, kShort = -1 };

// An errno, kShort, or kGoOn.
static int Fault(const char* call, enum What what, int writes) {
  const long n = ++calls;
  if (log_fd >= 0) {
    char line[128];
    const int size = snprintf(line, sizeof line, "%s\n", call);
    (void)!syscall(SYS_write, log_fd, line, (size_t)size);
  }
  if (at == 0) return kGoOn;
  if (strcmp(kind, "ENOSPC") == 0) {
    return n == at || (n > at && what == kRoom) ? ENOSPC : kGoOn;
  }
  if (strcmp(kind, "FULL") == 0) {
    if (n == at && writes) return kShort;
    return n == at || (n > at && what == kRoom) ? ENOSPC : kGoOn;
  }
  if (n != at) return kGoOn;
  if (strcmp(kind, "KILL") == 0) syscall(SYS_kill, getpid(), SIGKILL);
  if (strcmp(kind, "SHORT") == 0) return writes ? kShort : kGoOn;
  return EIO;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define GUARD(is_ours, call, what)            \
  if (is_ours) {                              \
    const int fault = Fault(call, what, 0);   \
    if (fault > 0) {                          \
      errno = fault;                          \
      return -1;                              \
    }                                         \
  }

#define MODE(flags)                              \
  mode_t mode = 0;                               \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {       \
    va_list more;                                \
    va_start(more, flags);                       \
    mode = (mode_t)va_arg(more, int);            \
    va_end(more);                                \
  }

int open(const char* path, int flags, ...) {
  MODE(flags)
  GUARD((flags & O_CREAT) && Below(path), "open", kRoom)
  return REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE(flags)
  GUARD((flags & O_CREAT) && Below(path), "open", kRoom)
  return REAL(open64)(path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  MODE(flags)
  GUARD((flags & O_CREAT) && Below(path), "openat", kRoom)
  return REAL(openat)(directory, path, flags, mode);
}
int openat64(int directory, const char* path, int flags, ...) {
  MODE(flags)
  GUARD((flags & O_CREAT) && Below(path), "openat", kRoom)
  return REAL(openat64)(directory, path, flags, mode);
}
int mkdir(const char* path, mode_t mode) {
  GUARD(Below(path), "mkdir", kRoom)
  return REAL(mkdir)(path, mode);
}
int fchmod(int fd, mode_t mode) {
  GUARD(BelowFd(fd), "fchmod", kOther)
  return REAL(fchmod)(fd, mode);
}
int fsync(int fd) {
  GUARD(BelowFd(fd), "fsync", kRoom)
  return REAL(fsync)(fd);
}
int fdatasync(int fd) {
  GUARD(BelowFd(fd), "fdatasync", kRoom)
  return REAL(fdatasync)(fd);
}
int ftruncate(int fd, off_t size) {
  GUARD(BelowFd(fd), "ftruncate", kRoom)
  return REAL(ftruncate)(fd, size);
}
int ftruncate64(int fd, off64_t size) {
  GUARD(BelowFd(fd), "ftruncate", kRoom)
  return REAL(ftruncate64)(fd, size);
}
// Not counted, only logged: a library must not change what belongs to the whole process.
mode_t umask(mode_t mask) {
  if (log_fd >= 0) (void)!syscall(SYS_write, log_fd, "umask\n", 6);
  return REAL(umask)(mask);
}
int rename(const char* from, const char* to) {
  GUARD(Below(from), "rename", kOther)
  return REAL(rename)(from, to);
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  GUARD(Below(from), "renameat2", kOther)
  return REAL(renameat2)(from_at, from, to_at, to, flags);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  if (BelowFd(fd)) {
    const int fault = Fault("write", kRoom, 1);
    if (fault > 0) {
      errno = fault;
      return -1;
    }
    if (fault == kShort) size = (size + 1) / 2;
  }
  return REAL(write)(fd, bytes, size);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (BelowFd(fd)) {
    const int fault = Fault("writev", kRoom, 1);
    if (fault > 0) {
      errno = fault;
      return -1;
    }
    if (fault == kShort) count = 1;
  }
  return REAL(writev)(fd, parts, count);
}
// SQLite writes so.
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t place) {
  if (BelowFd(fd)) {
    const int fault = Fault("pwrite", kRoom, 1);
    if (fault > 0) {
      errno = fault;
      return -1;
    }
    if (fault == kShort) size = (size + 1) / 2;
  }
  return REAL(pwrite64)(fd, bytes, size, place);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t place) {
  return pwrite64(fd, bytes, size, place);
}
