#include "kcc/gateway/background_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kcc {
namespace {

// Not SCHED_IDLE: under a steady load of other programs nothing would ever be scored. At this value
// a thread has 3 % of a core that another one wants, and all of one that nobody wants.
constexpr int kNice = 15;

}  // namespace

void GoBehindTraffic(const char* name) {
  static_cast<void>(::pthread_setname_np(::pthread_self(), name));
  // On Linux priorities are of threads.
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  const int now = ::getpriority(PRIO_PROCESS, thread);
  if (now < kNice) static_cast<void>(::setpriority(PRIO_PROCESS, thread, kNice));
}

}  // namespace kcc
