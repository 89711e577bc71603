// The confusion matrix of kcc rl lint on batches of real engines, by number of tokens.
//
//   tools/lint_pools.py --work DIR        what the engines say, once
//   rl_lint_engines DIR                   kernels and strengths that no line was set by
//   rl_lint_engines DIR --tuned           those that the lines were set by
//
// A cell counts batches: named right, unsure with the truth among the candidates, called clean, and
// wrong. Exit code 1 if 1 % of the clean batches of a size are called faulty.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bench/rl/engine_batches.h"
#include "kcc/rl/lint.h"

namespace {

using kcc::RlFault;
using kcc::bench::EngineFault;

constexpr int64_t kTokens[] = {100, 300, 1000, 1772, 10000};
constexpr size_t kSizes = std::size(kTokens);

struct EnginePair {
  const char* rollout;
  const char* train;
};
// Whole families are held out: no line was set by a batch of PyTorch, llama.cpp, vLLM or ONNX
// Runtime.
constexpr EnginePair kTuned[] = {
    {"bf16", "train"},         {"fp8", "train"},         {"int8", "train"},
    {"int4", "train"},         {"e5m2", "train"},        {"hopper-fp8", "train"},
    {"int4-channel", "train"}, {"int4-head", "train"},   {"accumulate-bf16", "train"},
    {"exp-fast", "train"},     {"logits-bf16", "train"}, {"kv-e5m2", "train"},
};
constexpr EnginePair kHeldOut[] = {
    {"split-k", "train"},
    {"kv-e4m3", "train"},
    {"int8-activations", "train"},
    {"torch-bf16-sdpa", "train"},
    {"onnx", "torch-bf16-eager"},
    {"llamacpp-q8", "torch-bf16-eager"},
    {"llamacpp-q4", "torch-bf16-eager"},
    {"fp8", "torch-bf16-eager"},
    {"int4", "torch-bf16-sdpa"},
    {"vllm-bf16", "train"},
    {"vllm-bf16", "torch-bf16-eager"},
};
constexpr EnginePair kOtherWeights[] = {{"bf16", "weights-noise-10"}, {"bf16", "weights-layer"}};
constexpr EnginePair kHeldOutWeights[] = {{"fp8", "weights-layer"},
                                          {"llamacpp-q3", "torch-bf16-eager"},
                                          {"llamacpp-q2", "torch-bf16-eager"}};

struct Cell {
  int named = 0, unsure = 0, clean = 0, wrong = 0;
  std::map<std::string, int> wrongly;  // what it was called; unsure without the truth listed

  int all() const { return named + unsure + clean + wrong; }
};
struct Line {
  RlFault truth;
  std::string name;
  Cell cells[kSizes];
};

void Count(const EngineFault& fault, const kcc::RlLintReport& report, Cell* cell) {
  const RlFault named = report.fault();
  if (named == fault.truth) {
    ++cell->named;
  } else if (named == RlFault::kNone) {
    ++cell->clean;
  } else if (named == RlFault::kUnsure &&
             (fault.truth == RlFault::kNone || report.findings.front().MayBe(fault.truth))) {
    ++cell->unsure;
  } else {
    ++cell->wrong;
    ++cell->wrongly[named == RlFault::kUnsure ? "unsure of others"
                                              : std::string(kcc::RlFaultName(named))];
  }
}

void CountPair(const std::string& directory, const EnginePair& pair,
               const std::vector<EngineFault>& faults, int repeats, std::vector<Line>* lines) {
  for (const std::string prefixes : {"0.7", "1", "1.3"}) {
    const std::string at = directory + "/" + prefixes + "/";
    const auto pool = kcc::bench::ReadEnginePool(at + pair.rollout, at + pair.train);
    if (!pool.has_value()) {
      std::fprintf(stderr, "%s\n", pool.error().Format().c_str());
      std::exit(4);
    }
    for (size_t f = 0; f < faults.size(); ++f) {
      if (faults[f].prefixes() != prefixes) continue;
      const kcc::bench::EngineSource source(*pool, faults[f]);
      const bool clean = faults[f].truth == RlFault::kNone;
      for (size_t n = 0; n < kSizes; ++n) {
        for (int i = 0; i < repeats * (clean ? 4 : 1); ++i) {
          const auto batch = source.Draw(kTokens[n], static_cast<uint64_t>(i + 1) * 7919 + n);
          const auto report = kcc::LintRl(batch.View());
          if (!report.has_value()) {
            std::fprintf(stderr, "%s\n", report.error().Format().c_str());
            std::exit(4);
          }
          Count(faults[f], *report, &(*lines)[f].cells[n]);
        }
      }
    }
  }
}

std::string Percent(int part, int all) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", all > 0 ? 100.0 * part / all : 0.0);
  return text;
}

void Print(const std::vector<Line>& lines) {
  std::printf("| fault | |");
  for (const int64_t n : kTokens) std::printf(" %d |", static_cast<int>(n));
  std::printf("\n|---|---|");
  for (size_t n = 0; n < kSizes; ++n) std::printf("---|");
  std::printf("\n");
  for (const Line& line : lines) {
    std::printf("| %s | %s |", std::string(kcc::RlFaultName(line.truth)).c_str(),
                line.name.c_str());
    for (const Cell& cell : line.cells) {
      std::string text;
      const auto add = [&](const char* what, int count) {
        if (count == 0) return;
        text += (text.empty() ? "" : ", ") + std::string(what) + " " + Percent(count, cell.all());
      };
      add(line.truth == RlFault::kNone ? "none" : "named", cell.named);
      add("unsure", cell.unsure);
      add("none", cell.clean);
      for (const auto& [name, count] : cell.wrongly) add(("**" + name + "**").c_str(), count);
      std::printf(" %s |", text.c_str());
    }
    std::printf("\n");
  }
}

// True if less than 1 % of the clean batches of each size are called faulty.
bool PrintTotals(const std::vector<Line>& lines) {
  bool holds = true;
  for (size_t n = 0; n < kSizes; ++n) {
    int clean = 0, alarms = 0, unsure = 0, faults = 0, named = 0, listed = 0, missed = 0, wrong = 0;
    for (const Line& line : lines) {
      const Cell& cell = line.cells[n];
      if (line.truth == RlFault::kNone) {
        clean += cell.all();
        alarms += cell.wrong;
        unsure += cell.unsure;
      } else {
        faults += cell.all();
        named += cell.named;
        listed += cell.unsure;
        missed += cell.clean;
        wrong += cell.wrong;
      }
    }
    std::printf(
        "%d tokens: clean %d, called faulty %d, unsure %d; faults %d, named %d, unsure with the "
        "truth listed %d, called clean %d, wrong %d\n",
        static_cast<int>(kTokens[n]), clean, alarms, unsure, faults, named, listed, missed, wrong);
    holds = holds && alarms < 0.01 * clean;
  }
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  std::string directory;
  bool tuned = false;
  int repeats = 10;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tuned") == 0) {
      tuned = true;
    } else if (std::strncmp(argv[i], "--repeats=", 10) == 0) {
      repeats = std::atoi(argv[i] + 10);
    } else {
      directory = argv[i];
    }
  }
  if (directory.empty()) {
    std::fprintf(stderr, "usage: rl_lint_engines DIR [--tuned] [--repeats=N]\n");
    return 2;
  }
  const auto faults = tuned ? kcc::bench::EngineFaults() : kcc::bench::HeldOutEngineFaults();
  std::vector<Line> lines;
  lines.reserve(faults.size());
  for (const EngineFault& fault : faults) lines.push_back({fault.truth, fault.name, {}});
  const std::vector<EnginePair> pairs = tuned
                                            ? std::vector(std::begin(kTuned), std::end(kTuned))
                                            : std::vector(std::begin(kHeldOut), std::end(kHeldOut));
  for (const EnginePair& pair : pairs) CountPair(directory, pair, faults, repeats, &lines);
  const auto weights = tuned ? std::vector(std::begin(kOtherWeights), std::end(kOtherWeights))
                             : std::vector(std::begin(kHeldOutWeights), std::end(kHeldOutWeights));
  for (const EnginePair& pair : weights) {
    const std::vector<EngineFault> one = {{RlFault::kOtherWeights, kcc::bench::EngineChange::kClean,
                                           1, std::string(pair.rollout) + ", " + pair.train}};
    std::vector<Line> line = {{RlFault::kOtherWeights, one[0].name, {}}};
    CountPair(directory, pair, one, 4 * repeats, &line);
    lines.push_back(std::move(line[0]));
  }
  Print(lines);
  std::printf("\n");
  return PrintTotals(lines) ? 0 : 1;
}
