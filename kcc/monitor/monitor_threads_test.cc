// What may happen in several threads at once: many read one monitor, and each has one of its own
// under a contract that all share. Run by the thread sanitizer (make test-tsan).
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "kcc/monitor/monitor.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::MonitorSlice;
using testing::SoftKl;
using testing::TestPolicy;

constexpr size_t kThreads = 4;

// Predicates, metrics and windows, whose tables are made when they are first asked for.
Contract SharedContract() {
  Clause windows = MonitorClause("windows", "mean_kl", 1, 0.2);
  windows.window = {Window::Kind::kRequests, 4};
  return MonitorContract({SoftKl(0.05, {"all", "late"}), MonitorClause("hard", "max_kl", 4),
                          MonitorClause("failures", "failure_rate_gap", 0.5), windows},
                         {MonitorSlice("all"), MonitorSlice("late", "token.position >= 1")});
}

MonitorObservation Story(int64_t number) {
  MonitorObservation observation = GoodOrBad(number, number >= 60 && number < 120);
  observation.infer.fields["failed"] = number % 5 == 0;
  observation.train->fields["failed"] = false;
  return observation;
}

template <class Work>
void InThreads(Work work) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(MonitorThreads, EachFoldsItsOwn) {
  const Contract contract = SharedContract();
  const MonitorPolicy policy = TestPolicy();
  std::array<std::string, kThreads> saved;
  std::array<int64_t, kThreads> changes{};
  InThreads([&](size_t i) {
    auto monitor = Monitor::Make(contract, policy);
    for (int64_t number = 0; number < 300; ++number) {
      if (number == 150) monitor = Monitor::Restore(contract, policy, monitor->Save());
      changes[i] += static_cast<int64_t>(monitor->Observe(Story(number))->changes.size());
    }
    saved[i] = monitor->Save();
  });
  EXPECT_GT(changes[0], 0);
  for (size_t i = 1; i < kThreads; ++i) {
    EXPECT_EQ(changes[i], changes[0]);
    EXPECT_EQ(saved[i], saved[0]);
  }
}

TEST(MonitorThreads, ManyReadOne) {
  Monitor folded = *Monitor::Make(SharedContract(), TestPolicy());
  for (int64_t number = 0; number < 100; ++number) {
    ASSERT_TRUE(folded.Observe(Story(number)).has_value());
  }
  const Monitor& monitor = folded;
  const std::string before = monitor.Save();
  std::array<int, kThreads> audits{};
  InThreads([&](size_t i) {
    for (int64_t number = 0; number < 50; ++number) {
      const std::string request = "q" + std::to_string(number);
      audits[i] += monitor.ShouldAudit(request, "", monitor.serves(), number) ? 1 : 0;
      EXPECT_EQ(monitor.Status().observations, 100);
      EXPECT_EQ(monitor.Save(), before);
    }
  });
  for (size_t i = 1; i < kThreads; ++i) EXPECT_EQ(audits[i], audits[0]);
}

}  // namespace
}  // namespace kcc
