// Searches for batches whose figures of w are wrong: random cases by seed, each checked as
// bench/rl/far_case.h says. Exit code 1 and the seed for each that fails.
//   rl_far_search --first=0 --cases=1000000 --threads=2
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/rl/far_case.h"
#include "kcc/rl/correction.h"

int main(int argc, char** argv) {
  uint64_t first = 0, cases = 20000;
  int threads = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--first=", 8) == 0) first = std::strtoull(argv[i] + 8, nullptr, 10);
    if (std::strncmp(argv[i], "--cases=", 8) == 0) cases = std::strtoull(argv[i] + 8, nullptr, 10);
    if (std::strncmp(argv[i], "--threads=", 10) == 0) threads = std::atoi(argv[i] + 10);
  }
  std::atomic<uint64_t> next = 0, failed = 0;
  const auto work = [&] {
    for (uint64_t at = next++; at < cases; at = next++) {
      const uint64_t seed = first + at;
      const kcc::bench::FarCase far_case = kcc::bench::MakeFarCase(seed);
      const std::string faults = kcc::bench::CheckFarCase(far_case, seed);
      if (faults.empty()) continue;
      if (++failed <= 20) {
        std::printf("seed %llu, %s:\n%s", static_cast<unsigned long long>(seed),
                    kcc::DescribeCorrection(far_case.correction).c_str(), faults.c_str());
      }
    }
  };
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  std::printf("%llu cases from seed %llu, %llu failed\n", static_cast<unsigned long long>(cases),
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(failed.load()));
  return failed == 0 ? 0 : 1;
}
