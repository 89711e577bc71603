// One kernel that is asked, where the process has nothing left to ask it with.
#include "kcc/rescore/kernel_asker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace kcc {
namespace {

using ::testing::HasSubstr;

TEST(KernelAsker, WithoutDescriptorsItSaysSo) {
  AskerOptions options;
  options.name = "fp8";
  options.calls_alone = true;
  options.scorer.uri = "openai+http://127.0.0.1:1?server=vllm";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = ::dup(0);  // the next one that is free
  ASSERT_GE(lowest, 0);
  ::close(lowest);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto failed = KernelAsker::Start(options, [](AskResult) {});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().message(), HasSubstr("the kernel 'fp8' cannot be asked"));
  EXPECT_TRUE(KernelAsker::Start(options, [](AskResult) {}).has_value());
}

}  // namespace
}  // namespace kcc
