// Detection delays and false alarms of the monitor, simulated through the monitor itself, and the
// mean time to a false alarm of its detector. Exits with 1 where a stated figure is not met.
//
//   monitor_detection [--runs=2000] [--audited=10000000] [--arl=100]
//                     [--only=delays|false-alarms|streams]
//
// --audited: requests of each stream in control that count as evidence. Where one request of a
// session counts, the stream is ten times as long.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/monitor/monitor_test_data.h"
#include "kcc/stats/change.h"

namespace kcc {
namespace {

using testing::Has;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::SoftKl;
using testing::TestPolicy;

constexpr double kLimit = 0.01;

struct Figures {
  double mean = 0;
  double p95 = 0;
};

Figures FiguresOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Figures figures;
  for (const double value : values) figures.mean += value / static_cast<double>(values.size());
  figures.p95 = values[std::min(values.size() - 1, values.size() * 95 / 100)];
  return figures;
}

// One observation that is used again and again: only what differs is written.
class Stream {
 public:
  Stream() {
    observation_ = testing::KlObservation(0, {0});
    observation_.train.reset();
  }
  const MonitorObservation& Next(double kl, std::string_view session = {}) {
    ++number_;
    observation_.time_ms = number_;
    observation_.infer.id = std::to_string(number_);
    observation_.session = session;
    observation_.tokens.columns[0].lo[0] = kl;
    return observation_;
  }

 private:
  int64_t number_ = 0;
  MonitorObservation observation_;
};

// The filter is large enough for the sessions of an epoch, and small where many monitors are made.
MonitorPolicy BenchPolicy(int64_t filter_bits) {
  MonitorPolicy policy = TestPolicy();
  policy.audit.session_filter_bits = filter_bits;
  policy.audit.session_epoch_ms = 1'000'000;
  return policy;
}

// Requests until the alarm.
double Delay(const Contract& contract, const std::function<double()>& draw) {
  Monitor monitor = *Monitor::Make(contract, BenchPolicy(int64_t{1} << 20));
  Stream stream;
  for (double n = 0;;) {
    const MonitorDecision decision = *monitor.Observe(stream.Next(draw()));
    n += decision.handling == Handling::kCounted ? 1 : 0;
    if (Has(decision, MonitorChangeKind::kAlarm)) return n;
  }
}

double Normal(RandomStream& random) {
  const double u = 1 - random.Uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * random.Uniform());
}

Figures RateDelay(double rate, int runs, uint64_t seed) {
  std::vector<double> delays;
  delays.reserve(static_cast<size_t>(runs));
  RandomStream random(seed);
  const Contract contract = MonitorContract({SoftKl(kLimit)});
  for (int i = 0; i < runs; ++i) {
    delays.push_back(Delay(contract, [&] { return random.Bernoulli(rate) ? 2.0 : 0.0; }));
  }
  return FiguresOf(delays);
}

// A lognormal of sigma 1.5 whose mean is `factor` times the threshold.
Figures MeanDelay(double factor, int runs, uint64_t seed) {
  constexpr double kSigma = 1.5;
  std::vector<double> delays;
  delays.reserve(static_cast<size_t>(runs));
  RandomStream random(seed);
  const Contract contract = MonitorContract({MonitorClause("mean", "mean_seq_kl", 1)});
  for (int i = 0; i < runs; ++i) {
    delays.push_back(Delay(contract, [&] {
      return factor * std::exp(kSigma * Normal(random) - kSigma * kSigma / 2);
    }));
  }
  return FiguresOf(delays);
}

// Of the detector alone: a million observations and more for every alarm.
double FalseAlarmTime(DetectorKind kind, int runs) {
  RandomStream random(17);
  const DetectorPlan plan = *DetectorPlan::Make(kind, kLimit, 1e6);
  double observations = 0;
  const UnitValue good = *ToUnitValue(0);
  const UnitValue bad = *ToUnitValue(1);
  for (int i = 0; i < runs; ++i) {
    DetectorState state;
    do {
      state.Add(plan, random.Bernoulli(kLimit) ? bad : good);
      ++observations;
    } while (!state.AtAlarm(plan));
  }
  return observations / runs;
}

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct InControl {
  int64_t requests = 0;
  int64_t audited = 0;
  int64_t alarms = 0;
  int64_t routes = 0;
  double cpu_s = 0;
};

// Sessions of ten requests in a row, two of which agree with the stated correlation; or each of its
// own. Until `audited` of them counted.
InControl RunInControl(double rate, double icc, bool once_per_session, int64_t audited) {
  MonitorPolicy policy = BenchPolicy(int64_t{1} << 26);
  policy.audit.once_per_session = once_per_session;
  Monitor monitor = *Monitor::Make(MonitorContract({SoftKl(kLimit)}), policy);
  RandomStream random(23);
  Stream stream;
  InControl result;
  const double begin = CpuSeconds();
  const double copy = std::sqrt(icc);
  bool shared = false;
  std::string session;
  for (int64_t i = 0; result.audited < audited; ++i) {
    if (i % 10 == 0) shared = random.Bernoulli(rate);
    if (icc > 0 && i % 10 == 0) session = "s" + std::to_string(i / 10);
    const bool bad = icc > 0 && random.Bernoulli(copy) ? shared : random.Bernoulli(rate);
    const MonitorDecision decision = *monitor.Observe(stream.Next(bad ? 2 : 0, session));
    result.audited += decision.handling == Handling::kCounted ? 1 : 0;
    result.alarms += Has(decision, MonitorChangeKind::kAlarm) ? 1 : 0;
    result.routes += Has(decision, MonitorChangeKind::kRoute) ? 1 : 0;
    ++result.requests;
  }
  result.cpu_s = CpuSeconds() - begin;
  return result;
}

int64_t Option(int argc, char** argv, std::string_view name, int64_t otherwise) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(name)) return std::atoll(argv[i] + name.size());
  }
  return otherwise;
}

class Checks {
 public:
  void AtMost(const char* what, double value, double limit) {
    if (value <= limit) return;
    std::printf("NOT MET: %s is %.0f, and %.0f is the most\n", what, value, limit);
    failed_ = true;
  }
  void AtLeast(const char* what, double value, double limit) {
    if (value >= limit) return;
    std::printf("NOT MET: %s is %.0f, and %.0f is the least\n", what, value, limit);
    failed_ = true;
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

void CheckDelays(int runs, Checks* checks) {
  std::printf("Delay in audited requests, c = 10^6, %d runs: mean [p95]\n", runs);
  for (const auto& [rate, most] : {std::pair(0.02, 1e9), {0.03, 790.0}, {0.10, 1e9}, {0.50, 1e9}}) {
    const Figures figures = RateDelay(rate, runs, static_cast<uint64_t>(1000 * rate));
    std::printf("  share 1 %% -> %2.0f %%: %6.0f [%.0f]\n", 100 * rate, figures.mean, figures.p95);
    checks->AtMost("the delay of a share", figures.mean, most);
  }
  const Figures doubled = MeanDelay(2, runs, 5);
  std::printf("  mean KL x 2:      %6.0f [%.0f]\n", doubled.mean, doubled.p95);
  checks->AtMost("the delay of a doubled mean", doubled.mean, 160);
}

void CheckFalseAlarms(int runs, Checks* checks) {
  const double sr = FalseAlarmTime(DetectorKind::kShiryaevRoberts, runs);
  std::printf("Mean time to a false alarm at 1 %%, c = 10^6, %d alarms: e-SR %.3g\n", runs, sr);
  // Three standard errors of a mean of nearly exponential times.
  checks->AtLeast("the time to a false alarm", sr, 1e6 * (1 - 3 / std::sqrt(runs)));
}

// Alarms are at most one in 10^6 audited requests on average; three standard errors above that.
double AlarmsAllowed(const InControl& run) {
  const double expected = static_cast<double>(run.audited) / 1e6;
  return std::floor(expected + 3 * std::sqrt(expected) + 1);
}

void CheckStreams(int64_t audited, Checks* checks) {
  std::printf("In control at the limit, c = 10^6:\n  %-34s %11s %10s %7s %8s %6s\n", "", "requests",
              "audited", "alarms", "allowed", "CPU s");
  const auto show = [](const char* what, const InControl& run) {
    std::printf("  %-34s %11lld %10lld %7lld %8.0f %6.0f\n", what,
                static_cast<long long>(run.requests), static_cast<long long>(run.audited),
                static_cast<long long>(run.alarms), AlarmsAllowed(run), run.cpu_s);
  };
  const InControl iid = RunInControl(kLimit, 0, true, audited);
  show("independent", iid);
  checks->AtMost("false alarms", static_cast<double>(iid.alarms), AlarmsAllowed(iid));
  const InControl once = RunInControl(kLimit, 0.3, true, audited);
  show("ICC 0.3, one request of a session", once);
  checks->AtMost("false alarms", static_cast<double>(once.alarms), AlarmsAllowed(once));
  const InControl all = RunInControl(kLimit, 0.3, false, audited);
  show("ICC 0.3, every request of a session", all);
  checks->AtLeast("false alarms without the rule", static_cast<double>(all.alarms),
                  10 * AlarmsAllowed(all) * std::min(1.0, static_cast<double>(audited) / 1e6));
  for (const double rate : {0.01, 0.012}) {
    const InControl near = RunInControl(rate, 0, true, audited / 10);
    std::printf("A share of %.1f %% against a limit of 1 %%: %lld route changes in %lld requests\n",
                100 * rate, static_cast<long long>(near.routes),
                static_cast<long long>(near.requests));
    checks->AtMost("route changes", static_cast<double>(near.routes), 4);
  }
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string_view only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--only=")) only = argument.substr(7);
  }
  if (!only.empty() && only != "delays" && only != "false-alarms" && only != "streams") {
    std::printf("--only: delays, false-alarms or streams, not %s\n", std::string(only).c_str());
    return 2;
  }
  const auto wanted = [&](std::string_view part) { return only.empty() || only == part; };
  kcc::Checks checks;
  if (wanted("delays")) {
    kcc::CheckDelays(static_cast<int>(kcc::Option(argc, argv, "--runs=", 2000)), &checks);
  }
  if (wanted("false-alarms")) {
    kcc::CheckFalseAlarms(static_cast<int>(kcc::Option(argc, argv, "--arl=", 100)), &checks);
  }
  if (wanted("streams")) {
    kcc::CheckStreams(kcc::Option(argc, argv, "--audited=", 10'000'000), &checks);
  }
  return checks.failed() ? 1 : 0;
}
