// What must hold of every stream: nothing is released by silence, nothing is satisfied without
// evidence, and a restart changes no decision.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kcc/base/sha256.h"
#include "kcc/monitor/monitor.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::Has;
using testing::KernelIn;
using testing::KlObservation;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::MonitorSlice;
using testing::SoftKl;
using testing::TestPolicy;

// Every kind of signal: a proof, units, mass, a gap, blocks of requests and of time.
Contract EveryKind() {
  Clause windows = MonitorClause("windows", "mean_kl", 1, 0.2);
  windows.window = {Window::Kind::kRequests, 4};
  Clause by_time = MonitorClause("by-time", "max_kl", 1, 0.2);
  by_time.window = {Window::Kind::kTime, 50};
  Clause logged = SoftKl(0.1, {"all", "late"});
  logged.id = "logged";
  logged.level = ViolationLevel::kL1;
  Clause latency = MonitorClause("latency", "p90_latency_ms", 100);
  latency.level = ViolationLevel::kL3;
  Contract contract = MonitorContract(
      {SoftKl(0.05, {"all", "even", "late"}), MonitorClause("hard", "max_kl", 4, 0, {"even"}),
       MonitorClause("tokens", "p90_kl", 1), MonitorClause("refusals", "refusal_rate_gap", 0.1),
       MonitorClause("throughput", "throughput_tokens_per_s", 1), windows, by_time, logged,
       latency},
      {MonitorSlice("all"), MonitorSlice("even", "even == true"),
       MonitorSlice("late", "token.position >= 2")});
  contract.assumptions.tokens_max = 8;
  return contract;
}

MonitorPolicy QuickPolicy() {
  MonitorPolicy policy = TestPolicy();
  policy.false_alarms.requests = 50;  // alarms must happen in a short stream
  policy.block_requests = 5;
  policy.window_requests = 10;
  policy.release.clean = 8;
  policy.release.probation = 3;
  policy.release.alpha = 0.3;
  policy.audit.session_epoch_ms = 400;
  return policy;
}

// Streams that dwell on good and on bad phases, so that alarms and releases both come.
std::vector<MonitorObservation> RandomStreamOf(uint64_t seed, size_t length) {
  RandomStream random(seed);
  std::vector<MonitorObservation> stream;
  double bad = 0.02;
  int64_t time = 0;
  const char* const kernels[] = {"fast", "fast", "fast", "careful", "reference"};
  for (size_t i = 0; i < length; ++i) {
    if (random.Bernoulli(0.03)) bad = random.Bernoulli(0.5) ? 0.5 : 0.01;
    std::vector<double> kl(static_cast<size_t>(random.Between(0, 4)));
    for (double& value : kl) value = random.Bernoulli(bad) ? 2 + 3 * random.Uniform() : 0.2;
    const std::string kernel = kernels[random.Between(0, 4)];
    MonitorObservation observation = KlObservation(static_cast<int64_t>(i), kl, kernel);
    time += random.Between(0, 12);
    observation.time_ms = time;
    observation.session = random.Bernoulli(0.3) ? "s" + std::to_string(random.Between(0, 40)) : "";
    observation.audited = random.Bernoulli(0.9);
    observation.probe = random.Bernoulli(0.3);
    const bool even = random.Bernoulli(0.5);
    observation.infer.fields["even"] = even;
    if (random.Bernoulli(0.95)) observation.train->fields["even"] = even;
    observation.infer.fields["latency_ms"] = random.Bernoulli(bad) ? 200.0 : 50.0;
    observation.infer.fields["started_at_ms"] = static_cast<double>(time);
    if (random.Bernoulli(0.9)) {
      observation.infer.fields["output_tokens"] = static_cast<double>(kl.size());
    }
    observation.infer.fields["refused"] = random.Bernoulli(bad);
    observation.train->fields["refused"] = random.Bernoulli(0.02);
    if (random.Bernoulli(0.02)) observation.tokens.columns.clear();
    stream.push_back(std::move(observation));
  }
  return stream;
}

Monitor Fresh() { return *Monitor::Make(EveryKind(), QuickPolicy()); }

TEST(MonitorProperty, StreamsOfThisTestAlarmAndRelease) {
  int alarms = 0;
  int releases = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Monitor monitor = Fresh();
    for (const MonitorObservation& observation : RandomStreamOf(seed, 400)) {
      const MonitorDecision decision = *monitor.Observe(observation);
      alarms += Has(decision, MonitorChangeKind::kGuard) ? 1 : 0;
      releases += Has(decision, MonitorChangeKind::kRelease) ? 1 : 0;
    }
  }
  EXPECT_GT(alarms, 20);
  EXPECT_GT(releases, 5);
}

TEST(MonitorProperty, ARestartAtAnyPointChangesNoDecision) {
  rc::check([](uint64_t seed) {
    const auto stream = RandomStreamOf(seed, 200);
    const auto cut = *rc::gen::inRange<size_t>(0, stream.size());
    Monitor whole = Fresh();
    Monitor restarted = Fresh();
    for (size_t i = 0; i < stream.size(); ++i) {
      if (i == cut) {
        const std::string saved = restarted.Save();
        auto restored = Monitor::Restore(EveryKind(), QuickPolicy(), saved);
        RC_ASSERT(restored.has_value());
        RC_ASSERT(restored->Save() == saved);
        restarted = *std::move(restored);
      }
      RC_ASSERT(*whole.Observe(stream[i]) == *restarted.Observe(stream[i]));
    }
    RC_ASSERT(whole.Save() == restarted.Save());
  });
}

TEST(MonitorProperty, SilenceTimeAndWhatWasNotAuditedReleaseNothing) {
  rc::check([](uint64_t seed) {
    Monitor monitor = Fresh();
    for (const MonitorObservation& observation : RandomStreamOf(seed, 200)) {
      *monitor.Observe(observation);
    }
    const MonitorStatus before = monitor.Status();
    RandomStream random(seed + 1);
    for (int64_t i = 0; i < 300; ++i) {
      MonitorObservation observation = KlObservation(100000 + i, {0.1});
      observation.kernel = before.kernels[static_cast<size_t>(random.Between(0, 2))].name;
      observation.time_ms = 1'000'000 * (i + 1);
      observation.audited = false;
      observation.probe = random.Bernoulli(0.5);
      const MonitorDecision decision = *monitor.Observe(observation);
      RC_ASSERT(decision.changes.empty());
      RC_ASSERT(decision.serves == before.serves);
    }
    const MonitorStatus after = monitor.Status();
    for (size_t k = 0; k < before.kernels.size(); ++k) {
      RC_ASSERT(after.kernels[k].state == before.kernels[k].state);
      for (size_t p = 0; p < before.kernels[k].pairs.size(); ++p) {
        RC_ASSERT(after.kernels[k].pairs[p].verdict == before.kernels[k].pairs[p].verdict);
      }
    }
  });
}

// However observations are left out or reordered, a release rests on enough of them: no clause
// whose release needs n clean or certifying observations is released by fewer.
TEST(MonitorProperty, DeletedOrReorderedObservationsNeverReleaseOnLessEvidence) {
  rc::check([](uint64_t seed) {
    std::vector<MonitorObservation> stream = RandomStreamOf(seed, 300);
    RandomStream random(seed + 7);
    std::vector<MonitorObservation> kept;
    for (MonitorObservation& observation : stream) {
      if (random.Bernoulli(0.7)) kept.push_back(std::move(observation));
    }
    for (size_t i = 1; i < kept.size(); ++i) {
      std::swap(kept[i], kept[i - static_cast<size_t>(random.Between(0, 1))]);
    }
    Monitor monitor = Fresh();
    std::map<std::string, int64_t> since;  // audited observations since the last alarm, by kernel
    for (const MonitorObservation& observation : kept) {
      const MonitorDecision decision = *monitor.Observe(observation);
      if (decision.handling == Handling::kCounted) ++since[observation.kernel];
      for (const MonitorChange& change : decision.changes) {
        if (change.kind == MonitorChangeKind::kAlarm || change.kind == MonitorChangeKind::kProof ||
            change.kind == MonitorChangeKind::kBroken) {
          since[observation.kernel] = 0;
        }
        // At alpha 0.3 no test of a clause here certifies by fewer than three observations.
        if (change.kind == MonitorChangeKind::kRelease) RC_ASSERT(since[observation.kernel] >= 3);
        if (change.kind == MonitorChangeKind::kRelease) RC_ASSERT(observation.audited);
        if (change.kind == MonitorChangeKind::kRelease)
          RC_ASSERT(change.kernel == observation.kernel);
      }
    }
  });
}

TEST(MonitorProperty, NothingIsSatisfiedWithoutEvidence) {
  rc::check([](uint64_t seed) {
    Monitor monitor = Fresh();
    for (const MonitorObservation& observation : RandomStreamOf(seed, 150)) {
      *monitor.Observe(observation);
    }
    for (const KernelStatus& kernel : monitor.Status().kernels) {
      for (const PairStatus& pair : kernel.pairs) {
        if (pair.verdict != Verdict::kSatisfied) continue;
        // The fewest perfect observations that certify a limit m at 95 %: (1-m)^n <= 0.05.
        const double fewest = std::log(0.05) / std::log(1 - pair.limit);
        RC_ASSERT(static_cast<double>(pair.observations) >= fewest);
        RC_ASSERT(pair.clause != "hard" && pair.clause != "throughput");
      }
      // H follows the verdicts.
      bool violated = false;
      for (const PairStatus& pair : kernel.pairs) {
        violated = violated || (pair.verdict == Verdict::kViolated && pair.clause != "logged");
      }
      RC_ASSERT(violated == (kernel.health >= kernel.eta1));
    }
  });
}

TEST(MonitorProperty, HostileBytesGiveAnError) {
  Monitor monitor = Fresh();
  for (const MonitorObservation& observation : RandomStreamOf(3, 200))
    *monitor.Observe(observation);
  const std::string saved = monitor.Save();
  EXPECT_FALSE(Monitor::Restore(EveryKind(), QuickPolicy(), "").has_value());
  EXPECT_FALSE(Monitor::Restore(EveryKind(), TestPolicy(), saved).has_value()) << "another policy";
  rc::check([&](uint64_t seed) {
    RandomStream random(seed);
    std::string bytes = saved;
    const auto at = static_cast<size_t>(random.Between(0, static_cast<int64_t>(bytes.size()) - 1));
    if (random.Bernoulli(0.5)) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(random.Between(1, 255)));
    }
    RC_ASSERT(!Monitor::Restore(EveryKind(), QuickPolicy(), bytes).has_value());
  });
  // Who forges the digest too gets an error, or a monitor that works.
  const std::string body = saved.substr(0, saved.size() - Sha256Of("").size());
  rc::check([&](uint64_t seed) {
    RandomStream random(seed);
    std::string bytes = body;
    for (int64_t i = random.Between(1, 4); i > 0; --i) {
      const auto at =
          static_cast<size_t>(random.Between(0, static_cast<int64_t>(bytes.size()) - 1));
      bytes[at] = static_cast<char>(random.Between(0, 255));
    }
    if (random.Bernoulli(0.2)) bytes.resize(bytes.size() / 2);
    auto restored = Monitor::Restore(EveryKind(), QuickPolicy(), bytes + Sha256Of(bytes));
    if (!restored.has_value()) return;
    for (const MonitorObservation& observation : RandomStreamOf(seed, 20)) {
      RC_ASSERT(restored->Observe(observation).has_value());
    }
    restored->Status();
  });
}

}  // namespace
}  // namespace kcc
