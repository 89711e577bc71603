// Searches for rows with mask constants that a backend measures wrongly: every backend and vector
// target against 113-bit arithmetic, bit equality between the targets, and the rules of
// drift/row_check.h.
//
//   drift_search [--cases N] [--first SEED] [--threads N]
//
// Prints each fault (a hundred at most) and the number of cases; exits 1 if there was one.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kcc/drift/masked_row_pairs.h"
#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"

namespace kcc {
namespace {

constexpr int kFaultsShown = 100;

struct Options {
  uint64_t cases = 100000;
  uint64_t first = 0;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

bool SameBits(const TokenDrift& a, const TokenDrift& b) {
  const auto same = [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
  };
  return std::equal(a.lo.begin(), a.lo.end(), b.lo.begin(), same) && a.known == b.known &&
         a.argmax == b.argmax;
}

// Empty, or what is wrong.
std::string SearchCase(uint64_t seed, RowScratch* scratch) {
  const MaskedCase made = MaskedCaseMaker(seed).Make();
  const auto truth = made.Truth();
  TokenDrift reference;
  if (const Result<> done = MeasureRowReference(PairOf(made), AllTokenSlots(), &reference); !done) {
    return made.name + ": reference: " + done.error().message();
  }
  if (const std::string fault = FaultOf(made, truth, MaskedBands(), reference); !fault.empty()) {
    return "reference, " + fault;
  }
  TokenDrift first;
  for (const Target target : AvailableTargets()) {
    const std::string name(TargetName(target));
    TokenDrift drift;
    const Result<> done = MeasureRowSimd(PairOf(made), AllTokenSlots(), target, scratch, &drift);
    if (!done) return made.name + ": " + name + ": " + done.error().message();
    if (target == AvailableTargets().front()) {
      first = drift;
      const std::string fault = FaultOf(made, truth, FastBands(made.temperature), drift);
      if (!fault.empty()) return name + ", " + fault;
    }
    if (!SameBits(drift, first)) return made.name + ": " + name + " gives other bits";
  }
  return "";
}

int Main(const Options& options) {
  std::atomic<uint64_t> next{0};
  std::atomic<int> faults{0};
  std::mutex mutex;
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < options.threads; ++i) {
    workers.emplace_back([&] {
      RowScratch scratch;
      for (uint64_t k = next++; k < options.cases; k = next++) {
        const std::string fault = SearchCase(options.first + k, &scratch);
        if (fault.empty()) continue;
        const std::lock_guard lock(mutex);
        if (faults++ < kFaultsShown) std::printf("%s\n", fault.c_str());
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::printf("%llu cases from %llu, %zu targets and the reference: %d faults\n",
              static_cast<unsigned long long>(options.cases),
              static_cast<unsigned long long>(options.first), AvailableTargets().size(),
              faults.load());
  return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  kcc::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--cases") == 0) options.cases = value;
    if (std::strcmp(argv[i], "--first") == 0) options.first = value;
    if (std::strcmp(argv[i], "--threads") == 0) options.threads = static_cast<unsigned>(value);
  }
  return kcc::Main(options);
}
