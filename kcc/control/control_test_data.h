// For tests of this folder: a pool of three kernels and a live monitor over a directory of its own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kcc/control/live_monitor.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc::testing {

class ControlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 (std::string(info->test_suite_name()) + "_" + info->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    history_.Listen([this](const HistoryEntry& entry) { told_.push_back(entry); });
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }

  LiveMonitorOptions Options() const {
    LiveMonitorOptions options;
    options.contract = MonitorContract({SoftKl(0.05)});
    options.policy = TestPolicy();
    options.session.log = Path("decisions.jsonl");
    options.session.state = Path("monitor.state");
    options.session.kcc_version = "test";
    options.kernels = {"fast", "careful", "reference"};
    return options;
  }
  std::unique_ptr<LiveMonitor> Open(LiveMonitorOptions options) {
    auto live = LiveMonitor::Open(std::move(options), &words_, &history_, &clock_);
    EXPECT_TRUE(live.has_value()) << live.error().Format();
    return live.has_value() ? std::move(*live) : nullptr;
  }
  std::unique_ptr<LiveMonitor> Open() { return Open(Options()); }

  void Fold(LiveMonitor& live, bool bad, const std::string& kernel = "fast") {
    const int64_t number = number_++;
    const EvidenceOrigin origin{"r" + std::to_string(number), kernel, clock_.NowMs(), false};
    MonitorObservation observation = GoodOrBad(number, bad, kernel);
    observation.time_ms = clock_.NowMs();
    live.Fold(std::move(observation), origin);
  }
  // Bad ones until requests go elsewhere.
  void Break(LiveMonitor& live) {
    const uint8_t before = words_.route().serves;
    for (int i = 0; i < 1000 && words_.route().serves == before; ++i) Fold(live, true);
  }
  bool Told(const std::string& kind) const {
    for (const HistoryEntry& entry : told_) {
      if (entry.kind == kind) return true;
    }
    return false;
  }

  static constexpr uint8_t kFast = 0, kCareful = 1, kReference = 2;
  std::filesystem::path directory_;
  RouteWords words_;
  History history_;
  ManualClock clock_{1'000'000};
  std::vector<HistoryEntry> told_;
  int64_t number_ = 0;
};

}  // namespace kcc::testing
