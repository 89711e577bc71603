#include "kcc/gateway/background_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kcc {
namespace {

// Where another thread wants the core too, this has a quarter of it. Not SCHED_IDLE, nor much
// lower: beside other programs that are busy nothing would be scored in time. What the scorer may
// take of a full machine is bounded by what it is given (sampling_budget.h).
constexpr int kNice = 5;

}  // namespace

void GoBehindTraffic(const char* name) {
  static_cast<void>(::pthread_setname_np(::pthread_self(), name));
  // On Linux priorities are of threads.
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  const int now = ::getpriority(PRIO_PROCESS, thread);
  if (now < kNice) static_cast<void>(::setpriority(PRIO_PROCESS, thread, kNice));
}

}  // namespace kcc
