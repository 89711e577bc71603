#include "kcc/control/kernel_builds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "kcc/base/file.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class KernelBuildsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ =
        (std::filesystem::path(::testing::TempDir()) /
         (std::string("builds_") + ::testing::UnitTest::GetInstance()->current_test_info()->name()))
            .string();
    std::filesystem::remove(path_);
    for (const char* name : {"fast", "careful", "audit"}) {
      MonitorKernel kernel;
      kernel.name = name;
      kernel.role = std::string(name) == "audit" ? KernelRole::kAudit : KernelRole::kInfer;
      documents_.policy.kernels.push_back(kernel);
      GatewayKernel row;
      row.name = name;
      row.url = {false, std::string(name), 8000};
      row.server = "vllm";
      documents_.config.kernels.push_back(row);
    }
    documents_.config.model = "m";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::unique_ptr<KernelBuilds> Begin() {
    KernelBuilds::Hooks hooks;
    hooks.renew = [this](const std::string& kernel, const std::string& reason) -> Result<> {
      const std::lock_guard lock(mutex_);
      if (fails_) return IoError("the log cannot be written");
      renewed_.push_back(kernel);
      reason_ = reason;
      return {};
    };
    hooks.tell = [this](const std::string&, const std::string& reason) {
      const std::lock_guard lock(mutex_);
      told_.push_back(reason);
    };
    hooks.ask = [this](const ServerBuildAsk& ask) -> Result<std::string> {
      const std::lock_guard lock(mutex_);
      ++asked_;
      const auto page = pages_.find(ask.http.base_url);
      if (page == pages_.end()) return IoError("nobody answers");
      return page->second;
    };
    auto builds = std::make_unique<KernelBuilds>(path_, hooks);
    taken_ = builds->Take(documents_);
    return builds;
  }
  // Until a thread has done so much.
  template <class Done>
  void Until(Done done) {
    for (int i = 0; i < 100'000; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (done()) return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "it did not come to pass";
  }
  void UntilShown(const KernelBuilds& builds, const std::string& kernel, const std::string& text) {
    Until([&] { return builds.Shown()[kernel].find(text) != std::string::npos; });
  }
  void SetPage(const std::string& kernel, const std::string& page) {
    const std::lock_guard lock(mutex_);
    pages_["http://" + kernel + ":8000"] = page;
  }
  GatewayKernel& Row(size_t i) { return documents_.config.kernels[i]; }

  GatewayDocuments documents_;
  std::string path_;
  std::mutex mutex_;
  bool fails_ = false;
  int asked_ = 0;
  std::vector<std::string> renewed_, told_;
  std::string reason_;
  std::map<std::string, std::string> pages_;
  Result<> taken_;
};

TEST_F(KernelBuildsTest, NothingBeginsAnewWhereNothingChanged) {
  SetPage("fast", "version 1, model m");
  for (int run = 0; run < 3; ++run) {
    const auto builds = Begin();
    ASSERT_TRUE(taken_.has_value());
    builds->Saw("fast", "b1");
    UntilShown(*builds, "fast", "version 1, model m; b1");
  }
  EXPECT_THAT(renewed_, IsEmpty());
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(KernelBuildsTest, AnotherPlaceOrRequestBeginsAnew) {
  Begin();
  Row(0).url.port = 9000;
  Begin();
  EXPECT_THAT(renewed_, ElementsAre("fast"));
  EXPECT_THAT(reason_,
              HasSubstr("'http://fast:9000 (vllm)' now, and was 'http://fast:8000 (vllm)'"));
  renewed_.clear();
  Begin();
  EXPECT_THAT(renewed_, IsEmpty()) << "once is enough";
  Row(1).set["temperature"] = "0";
  Begin();
  EXPECT_THAT(renewed_, ElementsAre("careful"));
}

TEST_F(KernelBuildsTest, AnotherAuditKernelBeginsAllOthersAnew) {
  Begin();
  Row(2).model = "n";
  Begin();
  EXPECT_THAT(renewed_, ElementsAre("careful", "fast"));
  EXPECT_THAT(reason_, HasSubstr("the audit kernel audit is another"));
}

TEST_F(KernelBuildsTest, AnotherVersionUnderTheSameAddressIsSeenAtARestart) {
  SetPage("fast", "version 1, model m, weights w1");
  {
    const auto builds = Begin();
    UntilShown(*builds, "fast", "version 1");
  }
  SetPage("fast", "version 1, model m, weights w2");
  const auto builds = Begin();
  UntilShown(*builds, "fast", "weights w2");
  EXPECT_THAT(renewed_, ElementsAre("fast"));
  EXPECT_THAT(reason_, HasSubstr("'weights w2' now, and said 'weights w1'"));
}

TEST_F(KernelBuildsTest, AnotherFingerprintOfTheFirstAnswerBeginsAnew) {
  {
    const auto builds = Begin();
    builds->Saw("fast", "b1");
    UntilShown(*builds, "fast", "b1");
  }
  const auto builds = Begin();
  builds->Saw("fast", "b2");
  Until([&] { return !renewed_.empty(); });
  EXPECT_THAT(renewed_, ElementsAre("fast"));
}

// A kernel that changes its name as it runs shakes nothing off.
TEST_F(KernelBuildsTest, WhatChangesWhileItRunsIsToldAndBeginsNothingAnew) {
  const auto builds = Begin();
  builds->Saw("fast", "b1");
  UntilShown(*builds, "fast", "b1");
  for (int i = 2; i < 100; ++i) {
    const std::string name = "b" + std::to_string(i);
    builds->Saw("fast", name);
    UntilShown(*builds, "fast", "its answers say " + name + " now");
  }
  EXPECT_THAT(renewed_, IsEmpty());
  EXPECT_THAT(told_, SizeIs(8));
  EXPECT_THAT(told_[0], HasSubstr("its answers say 'b2' now, and 'b1' before"));
}

TEST_F(KernelBuildsTest, ANamedFingerprintSpeaksForItself) {
  documents_.policy.kernels[0].fingerprint = "b1";
  {
    const auto builds = Begin();
    builds->Saw("fast", "b1");
  }
  Row(0).url.port = 9000;
  {
    const auto builds = Begin();
    builds->Saw("fast", "b2");
  }
  EXPECT_THAT(renewed_, IsEmpty());
  Row(0).set["seed"] = "1";
  Begin();
  EXPECT_THAT(renewed_, ElementsAre("fast"));
}

TEST_F(KernelBuildsTest, WhatCannotBeginAnewIsNotForgotten) {
  Begin();
  Row(0).url.port = 9000;
  fails_ = true;
  Begin();
  EXPECT_FALSE(taken_.has_value());
  fails_ = false;
  Begin();
  EXPECT_THAT(renewed_, ElementsAre("fast"));
}

TEST_F(KernelBuildsTest, WhereWhatWasKeptCannotBeReadAllBeginAnew) {
  Begin();
  ASSERT_TRUE(WriteScratchFile(path_, "garbage").has_value());
  Begin();
  EXPECT_THAT(renewed_, SizeIs(4)) << "two of their own, and both for the audit kernel's sake";
}

}  // namespace
}  // namespace kcc
