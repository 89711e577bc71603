// What an observation costs the monitor: CPU time by clause-slice pair it touches, 20 clauses on 10
// slices; memory over many requests; and, before any time is reported, that restarts at random
// points change no decision. Observations are made beforehand; parsing is not in it. The digests
// printed are those of every decision and of the state at the end: they are the same for every
// compiler and every machine.
//
//   monitor_bench [--observations=200000] [--tokens=64] [--requests=10000000] [--replayed=1000000]
//                 [--assert]
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::MonitorClause;
using testing::MonitorContract;
using testing::MonitorSlice;
using testing::TestPolicy;

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double ResidentMegabytes() {
  long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long total = 0;
  if (std::fscanf(file, "%ld %ld", &total, &pages) != 2) pages = 0;
  std::fclose(file);
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// Ten slices, of requests and of tokens, and twenty clauses of the forms that are in use.
Contract LargeContract() {
  std::vector<Slice> slices = {MonitorSlice("all")};
  std::vector<std::string> names = {"all"};
  const char* const wheres[] = {
      "prompt_tokens >= 1024", "prompt_tokens >= 8192", "'code' in tags",
      "'chat' in tags",        "tier == 'paid'",        "token.position >= 16",
      "token.position >= 32",  "token.position < 8",    "token.position >= 16 and tier == 'paid'"};
  for (size_t i = 0; i < std::size(wheres); ++i) {
    names.push_back("slice" + std::to_string(i));
    slices.push_back(MonitorSlice(names.back(), wheres[i]));
  }
  std::vector<Clause> clauses;
  const char* const soft[] = {"mean_kl",
                              "p99_kl",
                              "max_kl",
                              "mean_tv",
                              "max_tv",
                              "p95_logit_span",
                              "mean_abs_log_ratio",
                              "max_abs_log_ratio",
                              "mean_top5_overlap",
                              "max_rank"};
  const char* const hard[] = {
      "p99_kl", "mean_tv",           "flip_rate",         "p999_logit_span",   "mean_kl",
      "max_kl", "p95_abs_log_ratio", "rate_bit_mismatch", "mean_top1_overlap", "p90_kl"};
  for (const char* metric : soft) {
    const bool overlap = std::string_view(metric).find("overlap") != std::string_view::npos;
    clauses.push_back(
        MonitorClause(std::string("soft-") + metric, metric, overlap ? 0.1 : 50, 0.01, names));
    if (std::string_view(metric).find("tv") != std::string_view::npos) {
      clauses.back().threshold = 0.95;
    }
  }
  for (const char* metric : hard) {
    const bool share = std::string_view(metric).find("kl") == std::string_view::npos &&
                       std::string_view(metric).find("log") == std::string_view::npos;
    clauses.push_back(
        MonitorClause(std::string("hard-") + metric, metric, share ? 0.9 : 60, 0, names));
    if (std::string_view(metric).find("overlap") != std::string_view::npos) {
      clauses.back().threshold = 0.1;
    }
  }
  Contract contract = MonitorContract(std::move(clauses), std::move(slices));
  contract.assumptions.tokens_max = 4096;
  return contract;
}

std::vector<MonitorObservation> MakeObservations(size_t count, size_t tokens) {
  RandomStream random(3);
  std::vector<MonitorObservation> all;
  const char* const columns[] = {"kl",           "tv",           "logit_span", "abs_log_ratio",
                                 "top1_overlap", "top5_overlap", "rank",       "bit_mismatch"};
  for (size_t i = 0; i < count; ++i) {
    MonitorObservation observation;
    observation.kernel = "fast";
    observation.audited = true;
    observation.train.emplace();
    Request* const records[] = {&observation.infer, &*observation.train};
    const double prompt = static_cast<double>(random.Between(1, 16384));
    const bool code = random.Bernoulli(0.5);
    const bool paid = random.Bernoulli(0.5);
    for (Request* record : records) {
      record->fields["prompt_tokens"] = prompt;
      record->fields["tags"] = std::vector<std::string>{code ? "code" : "chat"};
      record->fields["tier"] = std::string(paid ? "paid" : "free");
    }
    for (size_t t = 0; t < tokens; ++t) {
      observation.tokens.position.push_back(static_cast<int32_t>(t));
    }
    for (const char* name : columns) {
      const bool flag = SlotQuantity(TokenSlot(name)).max == 1;
      TokenColumn column;
      column.slot = TokenSlot(name);
      for (size_t t = 0; t < tokens; ++t) {
        column.lo.push_back(flag ? (random.Bernoulli(0.5) ? 1.0 : 0.5) : random.Uniform());
      }
      observation.tokens.columns.push_back(std::move(column));
    }
    all.push_back(std::move(observation));
  }
  return all;
}

int64_t PairObservations(const Monitor& monitor) {
  int64_t sum = 0;
  for (const PairStatus& pair : monitor.Status().kernels[0].pairs) sum += pair.observations;
  return sum;
}

// Every field of a decision, as text.
void AppendDecision(const MonitorDecision& decision, std::string* text) {
  *text += std::to_string(decision.number) + std::string(Name(decision.handling)) + decision.serves;
  for (const MonitorChange& change : decision.changes) {
    *text += std::string(Name(change.kind)) + change.kernel + change.clause + change.slice +
             change.target + ShortestNumber(change.e_value) + ShortestNumber(change.e_level) +
             ShortestNumber(change.value) + ShortestNumber(change.limit) +
             std::to_string(change.observations) + change.reason;
  }
}

struct Replay {
  std::string decisions;  // digest
  std::string state;
};

// A stream that is good and bad by turns; restarted at random points, or never.
Replay RunReplay(int64_t observations, bool restarts) {
  const Contract contract = MonitorContract({testing::SoftKl(0.01)});
  const MonitorPolicy policy = TestPolicy();
  Monitor monitor = *Monitor::Make(contract, policy);
  RandomStream random(41);
  RandomStream when(43);
  std::string digest;
  std::string pending;
  double rate = 0.005;
  MonitorObservation observation = testing::GoodOrBad(0, false);
  observation.train.reset();
  for (int64_t i = 0; i < observations; ++i) {
    if (random.Bernoulli(0.0002)) rate = random.Bernoulli(0.3) ? 0.1 : 0.002;
    observation.infer.id = std::to_string(i);
    observation.time_ms = i * 10000;  // an epoch has 8640 requests
    observation.tokens.columns[0].lo[0] = random.Bernoulli(rate) ? 2 : 0.25;
    AppendDecision(*monitor.Observe(observation), &pending);
    if (pending.size() > 1 << 16) {
      digest = Sha256Of(digest + pending);
      pending.clear();
    }
    if (!restarts || !when.Bernoulli(0.0005)) continue;
    auto restored = Monitor::Restore(contract, policy, monitor.Save());
    if (!restored.has_value()) std::abort();
    monitor = *std::move(restored);
  }
  return {Sha256Of(digest + pending), Sha256Of(monitor.Save())};
}

bool CheckReplay(int64_t observations) {
  const Replay whole = RunReplay(observations, false);
  const Replay restarted = RunReplay(observations, true);
  const bool same = whole.decisions == restarted.decisions && whole.state == restarted.state;
  std::printf("%lld observations, with and without restarts: %s\n  decisions %s\n  state %s\n",
              static_cast<long long>(observations), same ? "the same" : "NOT THE SAME",
              whole.decisions.c_str(), whole.state.c_str());
  return same;
}

// Memory over many requests of one clause, which are cheap to make.
double MemoryGrowth(int64_t requests) {
  Monitor monitor = *Monitor::Make(MonitorContract({testing::SoftKl(0.01)}), TestPolicy());
  RandomStream random(47);
  MonitorObservation observation = testing::GoodOrBad(0, false);
  observation.train.reset();
  double before = 0;
  const double begin = CpuSeconds();
  for (int64_t i = 0; i < requests; ++i) {
    observation.infer.id = std::to_string(i);
    observation.time_ms = i * 10000;
    observation.tokens.columns[0].lo[0] = random.Bernoulli(0.005) ? 2 : 0.25;
    if (!monitor.Observe(observation).has_value()) std::abort();
    if (i == requests / 100) before = ResidentMegabytes();
  }
  const double grown = ResidentMegabytes() - before;
  std::printf("%lld requests of one clause: memory grew by %.2f MB, %.2f CPU-us a request\n",
              static_cast<long long>(requests), grown,
              1e6 * (CpuSeconds() - begin) / static_cast<double>(requests));
  return grown;
}

int Run(int64_t observations, size_t tokens, bool check) {
  Monitor monitor = *Monitor::Make(LargeContract(), TestPolicy());
  std::vector<MonitorObservation> pool = MakeObservations(512, tokens);
  int64_t number = 0;
  const auto feed = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      MonitorObservation& observation = pool[static_cast<size_t>(number) % pool.size()];
      observation.infer.id = "request-" + std::to_string(number);
      observation.train->id = observation.infer.id;
      observation.time_ms = number * 5000;
      ++number;
      const auto decision = monitor.Observe(observation);
      if (!decision.has_value()) std::abort();
    }
  };
  feed(2000);
  const int64_t touched_before = PairObservations(monitor);
  const double memory_before = ResidentMegabytes();
  const double begin = CpuSeconds();
  feed(observations);
  const double seconds = CpuSeconds() - begin;
  const double memory = ResidentMegabytes() - memory_before;
  const auto touched = static_cast<double>(PairObservations(monitor) - touched_before);
  const double per_observation = 1e6 * seconds / static_cast<double>(observations);
  const double per_pair = 1e6 * seconds / touched;
  std::printf("%lld observations of %zu tokens, %zu pairs\n", static_cast<long long>(observations),
              tokens, monitor.Status().kernels[0].pairs.size());
  std::printf("  %.1f CPU-us an observation, %.1f pairs touched, %.3f CPU-us a pair\n",
              per_observation, touched / static_cast<double>(observations), per_pair);
  std::printf("  memory grew by %.2f MB; saved state %zu bytes\n", memory, monitor.Save().size());
  if (!check) return 0;
  return per_pair <= 1 && memory <= 1 && touched > 0 ? 0 : 1;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  int64_t observations = 200'000;
  size_t tokens = 64;
  int64_t requests = 10'000'000;
  int64_t replayed = 1'000'000;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--observations=")) observations = std::atoll(argv[i] + 15);
    if (argument.starts_with("--tokens=")) tokens = static_cast<size_t>(std::atoll(argv[i] + 9));
    if (argument.starts_with("--requests=")) requests = std::atoll(argv[i] + 11);
    if (argument.starts_with("--replayed=")) replayed = std::atoll(argv[i] + 11);
    check = check || argument == "--assert";
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!kcc::CheckReplay(replayed)) return 1;
  if (kcc::MemoryGrowth(requests) > 1 && check) return 1;
  return kcc::Run(observations, tokens, check);
}
