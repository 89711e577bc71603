#include "kcc/serve/stop_signals.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace kcc {
namespace {

void Ignore(int) {}

auto HandlerOf(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

bool Readable(const StopSignals& signals) {
  pollfd polled{signals.fd(), POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

TEST(StopSignals, AreCountedAndTakenOnce) {
  StopSignals signals;
  ASSERT_TRUE(signals.Start().has_value());
  EXPECT_FALSE(Readable(signals));
  EXPECT_EQ(signals.Take(), 0);
  std::raise(SIGTERM);
  EXPECT_TRUE(Readable(signals));
  EXPECT_EQ(signals.Take(), 1);
  EXPECT_FALSE(Readable(signals));
  std::raise(SIGINT);
  std::raise(SIGTERM);
  EXPECT_EQ(signals.Take(), 2);
  EXPECT_EQ(signals.Take(), 0);
}

TEST(StopSignals, DoAfterwardsWhatTheyDidBefore) {
  const auto before = std::signal(SIGTERM, Ignore);
  const auto interrupt = HandlerOf(SIGINT);
  for (int i = 0; i < 2; ++i) {
    StopSignals signals;
    ASSERT_TRUE(signals.Start().has_value());
    EXPECT_NE(HandlerOf(SIGTERM), Ignore);
    EXPECT_NE(HandlerOf(SIGINT), interrupt);
    std::raise(SIGTERM);
    EXPECT_EQ(signals.Take(), 1);  // none of the one before
  }
  EXPECT_EQ(HandlerOf(SIGTERM), Ignore);
  EXPECT_EQ(HandlerOf(SIGINT), interrupt);
  std::signal(SIGTERM, before);
}

TEST(StopSignals, AreLeftAloneUntilTheStart) {
  const auto before = HandlerOf(SIGTERM);
  const StopSignals signals;
  EXPECT_EQ(HandlerOf(SIGTERM), before);
}

}  // namespace
}  // namespace kcc
