// How long reading a contract takes, beside yaml-cpp's own YAML::Load of the same text.
//
// 1,000 clauses, each on all of 50 slices; and the same clauses on one slice each, where less of
// the time is scanning. The runs alternate in one process and the median of each is reported; the
// contract that was read is checked first.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

constexpr int kClauses = 1000;
constexpr int kSlices = 50;

// Distinct (metric, level) pairs, so that no clause makes another one redundant.
std::vector<std::string> ClauseHeads() {
  std::vector<std::string> heads;
  for (const char* level : {"L1", "L2", "L3"}) {
    for (const Quantity& quantity : Catalog()) {
      if (quantity.level != QuantityLevel::kToken) continue;
      for (const Aggregate aggregate : Aggregates()) {
        const Metric metric{&quantity, aggregate, Side::kInfer};
        const bool higher = MetricDirection(metric) == Direction::kHigherIsBetter;
        heads.push_back("metric: " + MetricName(metric) + (higher ? ", atLeast: " : ", atMost: ") +
                        "0.05, level: " + level);
      }
    }
  }
  return heads;
}

std::string ContractText(bool all_slices) {
  std::string text =
      "apiVersion: kcc/v1\nkind: KernelContract\n"
      "metadata: {name: bench, version: 1.0.0}\nspec:\n  slices:\n";
  std::string names;
  for (int i = 0; i < kSlices; ++i) {
    const std::string number = std::to_string(i);
    text += "    - {name: slice-" + number + ", where: \"prompt_tokens >= " + number +
            "00 and 'tag-" + number + "' in tags\"}\n";
    names += (i == 0 ? "slice-" : ", slice-") + number;
  }
  text += "  numerical:\n";
  const std::vector<std::string> heads = ClauseHeads();
  KCC_CHECK(heads.size() >= kClauses);
  for (int i = 0; i < kClauses; ++i) {
    const std::string own = "slice-" + std::to_string(i % kSlices);
    text += "    - {id: N-" + std::to_string(i) + ", " + heads[static_cast<size_t>(i)] +
            ", slices: [" + (all_slices ? names : own) + "], why: \"measured in run " +
            std::to_string(i) + "\"}\n";
  }
  return text;
}

double MedianMs(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

template <class Function>
double TimeMs(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

struct Row {
  std::string name;
  size_t bytes = 0;
  double kcc_ms = 0;
  double yaml_ms = 0;
};

Row Measure(std::string name, bool all_slices, int runs) {
  const std::string text = ContractText(all_slices);
  const ReadOutcome outcome = ReadContract(text);
  KCC_CHECK(outcome.contract && outcome.diagnostics.empty());
  KCC_CHECK(outcome.contract->clauses.size() == kClauses);
  KCC_CHECK(outcome.contract->clauses[7].slices.size() == (all_slices ? kSlices : 1));
  std::vector<double> kcc_times;
  std::vector<double> yaml_times;
  for (int i = 0; i < runs; ++i) {
    kcc_times.push_back(TimeMs([&] { KCC_CHECK(ReadContract(text).contract); }));
    yaml_times.push_back(TimeMs([&] { KCC_CHECK(YAML::Load(text)["spec"].IsMap()); }));
  }
  return {std::move(name), text.size(), MedianMs(kcc_times), MedianMs(yaml_times)};
}

int Main(int argc, char** argv) {
  const bool json_wanted = argc > 1 && std::string_view(argv[1]) == "--json";
  constexpr int kRuns = 15;
  const std::vector<Row> rows = {Measure("1,000 clauses x 50 slices", true, kRuns),
                                 Measure("1,000 clauses, one slice each", false, kRuns)};
  if (json_wanted) {
    JsonWriter json;
    json.BeginArray();
    for (const Row& row : rows) {
      json.BeginObject().Field("case", row.name).Field("bytes", row.bytes);
      json.Field("read_contract_ms", row.kcc_ms).Field("yaml_load_ms", row.yaml_ms);
      json.Field("ratio", row.kcc_ms / row.yaml_ms).EndObject();
    }
    json.EndArray();
    std::fputs(json.Take().c_str(), stdout);
    return 0;
  }
  std::printf("%-32s %10s %14s %14s %7s\n", "case", "bytes", "ReadContract", "YAML::Load", "ratio");
  for (const Row& row : rows) {
    std::printf("%-32s %10zu %11.2f ms %11.2f ms %7.2f\n", row.name.c_str(), row.bytes, row.kcc_ms,
                row.yaml_ms, row.kcc_ms / row.yaml_ms);
  }
  return 0;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) { return kcc::Main(argc, argv); }
