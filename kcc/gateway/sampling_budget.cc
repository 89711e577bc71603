#include "kcc/gateway/sampling_budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "kcc/base/descriptor.h"

namespace kcc {
namespace {

constexpr int64_t kWindowUs = 50'000;
constexpr double kBusyShare = 0.5;
constexpr double kShare = 0.01;
constexpr double kBalanceUsMax = kShare * 1e6;  // of a second
// Measured of answers of vLLM with 20 alternatives a token: 20 KB take 26 us more than an answer
// that is not sampled, from the socket to the record.
constexpr double kUsOfEach = 6;
constexpr double kBytesPerUs = 1000;

}  // namespace

// What waits for a core is as busy as what has one; a kernel without these statistics tells of the
// latter alone.
int64_t SamplingBudget::ThreadLoadUs() {
  thread_local const FileDescriptor statistics(
      ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  char text[96];
  const ssize_t size = ::pread(statistics.get(), text, sizeof text - 1, 0);
  long long ran_ns = 0, waited_ns = 0;
  text[std::max<ssize_t>(size, 0)] = '\0';
  if (std::sscanf(text, "%lld %lld", &ran_ns, &waited_ns) == 2 && ran_ns > 0) {
    return (ran_ns + waited_ns) / 1000;
  }
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000 + used.tv_nsec / 1000;
}

bool SamplingBudget::Allows(int64_t now_us) {
  if (!begun_) {
    begun_ = true;
    window_us_ = filled_us_ = now_us;
    window_load_us_ = load_us_();
    balance_us_ = kBalanceUsMax;
  }
  if (const int64_t elapsed = now_us - window_us_; elapsed >= kWindowUs) {
    const int64_t load = load_us_();
    busy_ = static_cast<double>(load - window_load_us_) > kBusyShare * static_cast<double>(elapsed);
    window_us_ = now_us;
    window_load_us_ = load;
  }
  const auto since = static_cast<double>(now_us - filled_us_);
  balance_us_ = std::min(kBalanceUsMax, balance_us_ + kShare * since);
  filled_us_ = now_us;
  return !busy_ || balance_us_ > 0;
}

// What was spent while it was not busy is no debt.
void SamplingBudget::Spend(size_t bytes) {
  const double cost = kUsOfEach + static_cast<double>(bytes) / kBytesPerUs;
  balance_us_ = busy_ ? balance_us_ - cost : std::max(0.0, balance_us_ - cost);
}

}  // namespace kcc
