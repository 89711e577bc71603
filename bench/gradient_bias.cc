// The bias that every correction of experiment E3 leaves, exactly, on problems that can be
// enumerated (kcc/experiment/gradient_bias.h), as the tables of docs/results/gradient-bias.md.
//
//   gradient_bias [--vocabulary=4] [--length=3] [--samples=25600] [--seed=1]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kcc/experiment/experiment_page.h"
#include "kcc/experiment/gradient_bias.h"

int main(int argc, char** argv) {
  size_t vocabulary = 4, length = 3, samples = 25600;
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const auto number = [&](const char* name, auto* to) {
      const size_t size = std::strlen(name);
      if (std::strncmp(argv[i], name, size) == 0) *to = std::strtoull(argv[i] + size, nullptr, 10);
    };
    number("--vocabulary=", &vocabulary);
    number("--length=", &length);
    number("--samples=", &samples);
    number("--seed=", &seed);
  }
  for (const double gap : {0.06, 0.2, 0.5}) {
    const auto problem = kcc::RandomEnumerable(vocabulary, length, gap, seed);
    const auto made = kcc::MeasureBiases(problem, kcc::ExperimentCorrections(), samples, seed + 1);
    if (!made.has_value()) {
      std::fprintf(stderr, "%s\n", made.error().Format().c_str());
      return 4;
    }
    const kcc::EnumerableLaws& laws = made->laws;
    std::printf(
        "Mean |log w| %s, TV %s, KL %s; A %s, G %s, |grad J| %s; %zu bounds refuted.\n\n%s\n",
        kcc::BriefNumber(laws.mean_abs_log_ratio).c_str(), kcc::BriefNumber(laws.tv).c_str(),
        kcc::BriefNumber(laws.kl).c_str(), kcc::BriefNumber(laws.advantage_max).c_str(),
        kcc::BriefNumber(laws.score_max).c_str(), kcc::BriefNumber(laws.gradient_length()).c_str(),
        made->refuted(),
        kcc::MarkdownTable(kcc::BiasTableHead(), kcc::BiasTableRows(*made)).c_str());
  }
  return 0;
}
