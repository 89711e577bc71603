// The confusion matrix of kcc rl lint: every synthetic fault at every severity and noise, many
// times, against the name that lint gives it. --markdown prints the tables of docs/rl-lint.md.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

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

Counts Count(int repeats) {
  Counts counts;
  uint64_t seed = 1;
  for (const auto& fault : kcc::bench::FaultGrid()) {
    for (const double noise : {0.0005, 0.005, 0.02, 0.05}) {
      // A rate of false alarms of 1 % takes many clean batches to see.
      const int times = fault.fault == RlFault::kNone ? 20 * repeats : repeats;
      for (int i = 0; i < times; ++i) {
        const auto batch = kcc::bench::MakeBatch(fault, noise, 64, 160, ++seed);
        const auto report = kcc::LintRl(batch.View());
        if (!report.has_value()) {
          std::fprintf(stderr, "%s\n", report.error().Format().c_str());
          continue;
        }
        const RlFault named = report->fault();
        if (fault.severity == Severity::kModerate) ++counts.matrix[fault.fault][named];
        Tally& tally = counts.by_severity[static_cast<int>(fault.severity)][fault.fault];
        tally.right += named == fault.fault;
        ++tally.all;
        if (named != fault.fault && std::getenv("KCC_LINT_MISSES") != nullptr) {
          std::fprintf(stderr, "%s %s %g noise %g -> %s\n",
                       std::string(kcc::RlFaultName(fault.fault)).c_str(), fault.variant.c_str(),
                       fault.strength, noise, std::string(kcc::RlFaultName(named)).c_str());
        }
      }
    }
  }
  return counts;
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

}  // namespace

int main(int argc, char** argv) {
  int repeats = 25;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--repeats=", 10) == 0) repeats = std::atoi(argv[i] + 10);
  }
  const Counts counts = Count(repeats);
  PrintMatrix(counts);
  std::printf("\n");
  PrintSeverities(counts);
  int right = 0, all = 0, alarms = 0, clean = 0;
  for (const auto& [fault, tally] : counts.by_severity[static_cast<int>(Severity::kModerate)]) {
    if (fault == RlFault::kNone) {
      alarms = tally.all - tally.right;
      clean = tally.all;
    } else {
      right += tally.right;
      all += tally.all;
    }
  }
  std::printf("\nmoderate faults named: %.2f %% of %d; false alarms: %.2f %% of %d\n",
              100.0 * right / all, all, 100.0 * alarms / clean, clean);
  return right < 0.99 * all || alarms > 0.01 * clean;
}
