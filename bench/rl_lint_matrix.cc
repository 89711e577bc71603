// The confusion matrix of kcc rl lint: every synthetic fault at every severity and noise, many
// times, against the name that lint gives it; --held-out takes worlds and strengths that the lines
// of lint were not set by. The tables of docs/rl-lint.md are what it prints.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bench/rl/synthetic.h"
#include "kcc/rl/lint.h"

namespace {

using kcc::RlFault;
using kcc::bench::Severity;

struct Tally {
  int right = 0, all = 0;
};

struct Counts {
  std::map<RlFault, std::map<RlFault, int>> matrix;  // moderate severity
  std::map<RlFault, Tally> by_severity[3];
};

void CountWorld(const kcc::bench::SyntheticWorld& world,
                const std::vector<kcc::bench::SyntheticFault>& grid, int repeats, int clean_repeats,
                uint64_t* seed, Counts* counts) {
  for (const auto& fault : grid) {
    for (const double noise : world.noises) {
      // A rate of false alarms of 1 % takes many clean batches to see.
      const int times = fault.fault == RlFault::kNone ? clean_repeats : repeats;
      for (int i = 0; i < times; ++i) {
        const auto batch = kcc::bench::MakeBatch(fault, noise, world, ++*seed);
        const auto report = kcc::LintRl(batch.View());
        if (!report.has_value()) {
          std::fprintf(stderr, "%s\n", report.error().Format().c_str());
          continue;
        }
        const RlFault named = report->fault();
        if (fault.severity == Severity::kModerate) ++counts->matrix[fault.fault][named];
        Tally& tally = counts->by_severity[static_cast<int>(fault.severity)][fault.fault];
        tally.right += named == fault.fault;
        ++tally.all;
        if (named != fault.fault && std::getenv("KCC_LINT_MISSES") != nullptr) {
          std::fprintf(stderr, "%s: %s %s %g noise %g -> %s\n", world.name.c_str(),
                       std::string(kcc::RlFaultName(fault.fault)).c_str(), fault.variant.c_str(),
                       fault.strength, noise, std::string(kcc::RlFaultName(named)).c_str());
        }
      }
    }
  }
}

std::string Name(RlFault fault) { return std::string(kcc::RlFaultName(fault)); }

void PrintMatrix(const Counts& counts) {
  std::printf("| fault | named |\n|---|---|\n");
  for (const auto& [fault, row] : counts.matrix) {
    int all = 0;
    for (const auto& [named, n] : row) all += n;
    std::string cells;
    for (const auto& [named, n] : row) {
      cells += (cells.empty() ? "" : ", ") + Name(named) + " " + std::to_string(n);
    }
    std::printf("| %s (%d) | %s |\n", Name(fault).c_str(), all, cells.c_str());
  }
}

void PrintSeverities(const Counts& counts) {
  std::printf("| fault | mild | moderate | severe |\n|---|---|---|---|\n");
  for (int f = 0; f < kcc::kRlFaults; ++f) {
    const auto fault = static_cast<RlFault>(f);
    if (fault == RlFault::kUnsure) continue;  // an answer, not a fault
    std::printf("| %s |", Name(fault).c_str());
    for (const auto& by_fault : counts.by_severity) {
      const auto found = by_fault.find(fault);
      if (found == by_fault.end()) {
        std::printf(" |");
      } else {
        std::printf(" %.1f %% of %d |", 100.0 * found->second.right / found->second.all,
                    found->second.all);
      }
    }
    std::printf("\n");
  }
}

// Right and all of the moderate faults, alarms and all of the clean batches.
struct Score {
  int right = 0, faults = 0, alarms = 0, clean = 0;

  explicit Score(const Counts& counts) {
    for (const auto& [fault, tally] : counts.by_severity[static_cast<int>(Severity::kModerate)]) {
      (fault == RlFault::kNone ? alarms : right) +=
          fault == RlFault::kNone ? tally.all - tally.right : tally.right;
      (fault == RlFault::kNone ? clean : faults) += tally.all;
    }
  }
  void Print(const char* what) const {
    std::printf("\n%s: moderate faults named %d of %d (%.2f %%), false alarms %d of %d (%.2f %%)\n",
                what, right, faults, 100.0 * right / faults, alarms, clean, 100.0 * alarms / clean);
  }
  bool Holds() const { return right >= 0.99 * faults && alarms <= 0.01 * clean; }
};

}  // namespace

int main(int argc, char** argv) {
  int repeats = 25;
  bool held_out = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--repeats=", 10) == 0) repeats = std::atoi(argv[i] + 10);
    if (std::strcmp(argv[i], "--held-out") == 0) held_out = true;
  }
  if (!held_out) {
    Counts counts;
    uint64_t seed = 1;
    CountWorld(kcc::bench::HomeWorld(), kcc::bench::FaultGrid(), repeats, 20 * repeats, &seed,
               &counts);
    PrintMatrix(counts);
    std::printf("\n");
    PrintSeverities(counts);
    const Score score(counts);
    score.Print("in sample");
    return score.Holds() ? 0 : 1;
  }
  Counts all;
  uint64_t seed = 2'000'003;  // never used while lint was written
  for (const auto& world : kcc::bench::HeldOutWorlds()) {
    Counts counts;
    CountWorld(world, kcc::bench::HeldOutGrid(), repeats, 16 * repeats, &seed, &counts);
    Score(counts).Print(world.name.c_str());
    for (const auto& [fault, row] : counts.matrix) {
      for (const auto& [named, n] : row) all.matrix[fault][named] += n;
    }
    for (const auto& [fault, tally] : counts.by_severity[static_cast<int>(Severity::kModerate)]) {
      Tally& to = all.by_severity[static_cast<int>(Severity::kModerate)][fault];
      to.right += tally.right;
      to.all += tally.all;
    }
  }
  std::printf("\n");
  PrintMatrix(all);
  const Score score(all);
  score.Print("held out");
  return score.Holds() ? 0 : 1;
}
