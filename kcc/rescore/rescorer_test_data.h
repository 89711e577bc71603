// For tests: the scorer beside the reference server (tests/kernel/reference_server.py), whose every
// number is a formula; what it gives is waited for.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kcc/kernel/reference_test_server.h"
#include "kcc/metric/token_slots.h"
#include "kcc/rescore/rescore_test_data.h"
#include "kcc/rescore/rescorer.h"

namespace kcc::testing {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
inline const std::vector<int32_t> kPrompt = {5, 17};
inline const std::vector<int32_t> kOutput = {40, 9, 33};

struct Taken {
  Evidence evidence;
  std::string kernel;  // of the record
  bool probe = false;

  const MonitorObservation* observation() const {
    return std::get_if<MonitorObservation>(&evidence);
  }
  std::string lost() const {
    const auto* line = std::get_if<UnreadLine>(&evidence);
    return line == nullptr ? "" : line->kernel + ": " + line->reason;
  }
};

// What a kernel of the formula serves, with lists of the twenty best.
inline std::vector<ServedToken> ServedTokens(const std::vector<int32_t>& prompt,
                                             const std::vector<int32_t>& output) {
  std::vector<ServedToken> tokens;
  std::vector<int32_t> prefix = prompt;
  for (const int32_t id : output) {
    const std::vector<double> row = ReferenceLogprobs(prefix);
    ServedToken token;
    token.id = id;
    token.logprob = row[static_cast<size_t>(id)];
    for (size_t v = 0; v < row.size(); ++v) token.top.emplace_back(static_cast<int32_t>(v), row[v]);
    std::sort(token.top.begin(), token.top.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
    token.top.resize(20);
    tokens.push_back(std::move(token));
    prefix.push_back(id);
  }
  return tokens;
}

class RescorerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ReferenceServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  // `faults` of kernels that are to be none of the formula's good ones.
  void Start(std::map<std::string, std::string> faults = {},
             Contract contract = RescoreContract()) {
    pool_ = RescorePool();
    core_ = std::make_unique<GatewayCore>(pool_, 1, ring_, &TheSystemClock());
    for (const MonitorKernel& kernel : policy_.kernels) {
      const std::string fault = faults.contains(kernel.name) ? faults[kernel.name] : "none";
      if (fault == "down") {
        options_.uris[kernel.name] = "openai+http://127.0.0.1:1?server=vllm&vocab_size=64";
      } else {
        options_.uris[kernel.name] = ServerUri(server_->Base("vllm", fault), "vllm", "");
      }
    }
    options_.retry_s = 0.05;
    options_.timeout_s = timeout_s_;
    options_.generate_timeout_s = 20;
    auto started = Rescorer::Start(
        contract, policy_, options_, *core_,
        [this](Evidence evidence, const ServedRecord& record) {
          const std::lock_guard lock(mutex_);
          taken_.push_back({std::move(evidence), record.pool->kernels[record.kernel].name,
                            record.kind == RecordKind::kProbe});
          wake_.notify_all();
        },
        [this](const std::string& kernel, uint64_t count) {
          const std::lock_guard lock(mutex_);
          dropped_[kernel] += count;
          wake_.notify_all();
        });
    ASSERT_TRUE(started.has_value()) << started.error().Format();
    rescorer_ = std::move(*started);
  }
  void Put(ServedRecord record) { core_->workers()[0]->ring().Put(std::move(record)); }
  // The next so many, in the order in which they came.
  std::vector<Taken> Wait(size_t count) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::seconds(60), [&] { return taken_.size() >= count; });
    EXPECT_GE(taken_.size(), count);
    return std::exchange(taken_, {});
  }
  Taken One(ServedRecord record) {
    Put(std::move(record));
    std::vector<Taken> taken = Wait(1);
    return taken.empty() ? Taken{} : std::move(taken[0]);
  }
  // Until the kernels are there, records are lost, and said to be.
  void WaitUntilUp() {
    for (int i = 0; i < 10'000; ++i) {
      const Taken taken = One(Record("warm" + std::to_string(i)));
      if (taken.observation() != nullptr) return;
      ASSERT_THAT(taken.lost(), ::testing::AnyOf(::testing::HasSubstr("does not answer"),
                                                 ::testing::HasSubstr("is not known")));
    }
    FAIL() << "the kernels never came up";
  }
  ServedRecord Record(const std::string& id) {
    return RecordOf(pool_, id, kPrompt, ServedTokens(kPrompt, kOutput));
  }

  inline static ReferenceServer* server_ = nullptr;
  size_t ring_ = 64;
  double timeout_s_ = 30;
  MonitorPolicy policy_ = RescorePolicy();
  RescoreOptions options_;
  std::shared_ptr<GatewayPool> pool_;
  std::unique_ptr<GatewayCore> core_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Taken> taken_;
  std::map<std::string, uint64_t> dropped_;
  std::unique_ptr<Rescorer> rescorer_;
};

// Nothing came of it.
inline void Empty(ServedRecord* record) {
  record->tokens.clear();
  record->prompt_ids.clear();
  record->text.clear();
  record->ttft_ms = 0;
}

inline const TokenColumn* ColumnOf(const MonitorObservation& observation, const char* name) {
  for (const TokenColumn& column : observation.tokens.columns) {
    if (column.slot == TokenSlot(name)) return &column;
  }
  return nullptr;
}

}  // namespace kcc::testing
