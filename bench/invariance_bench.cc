// The price of batch invariance: CPU seconds of batch=invariant over those of batch=dynamic, kernel
// by kernel, generating and scoring, on the shipped model.
//
//   invariance_bench [--turns=9] [--threads=1] [--requests=64] [--model=DIR]
//
// Other programs may run beside it: CPU time is counted, the engines take turns, and what is
// reported is the median over turns of the ratio within a turn. A second dynamic engine takes part:
// its ratio to the first says what is noise. Before a time is reported, the invariant engine's
// tokens are compared between two sizes of the batch.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kcc/lab/lab_kernel.h"

namespace kcc {
namespace {

constexpr std::array kKernels = {"f32", "bf16", "fp8", "int8", "int4", "int3"};
constexpr std::array<size_t, 3> kCompany = {1, 16, 64};
constexpr int32_t kOutput = 32;

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::vector<KernelRequest> MakeRequests(size_t count, size_t vocab) {
  std::vector<KernelRequest> requests(count);
  for (size_t r = 0; r < count; ++r) {
    requests[r].request.id = "r" + std::to_string(r);
    for (size_t i = 0; i < 24 + r * 37 % 64; ++i) {
      const size_t token = (i * 7919 + r * 104729 + 13) % std::min<size_t>(vocab, 256);
      requests[r].tokens.push_back(static_cast<int32_t>(token));
    }
    requests[r].prompt_tokens = static_cast<int32_t>(requests[r].tokens.size());
  }
  return requests;
}

template <class T>
T MustHave(Result<T> made) {
  if (!made.has_value()) {
    std::fprintf(stderr, "%s\n", made.error().Format().c_str());
    std::exit(4);
  }
  return std::move(*made);
}

struct Arm {
  std::unique_ptr<LabKernel> kernel;

  Arm(const std::string& name, const std::string& model, const std::string& batch, size_t company,
      const std::string& threads)
      : kernel(MustHave(LabKernel::Open({name,
                                         model,
                                         {{"batch", batch},
                                          {"concurrency", std::to_string(company)},
                                          {"threads", threads},
                                          {"audit", "off"}}}))) {}

  std::vector<std::vector<int32_t>> Generate(const std::vector<KernelRequest>& requests) {
    Sampling sampling;
    sampling.seed = 3;
    sampling.output_tokens_max = kOutput;
    std::vector<std::vector<int32_t>> outputs;
    for (RequestOutcome& outcome : MustHave(kernel->engine().Generate(requests, sampling, Sink())))
      outputs.push_back(std::move(outcome.output));
    return outputs;
  }

  void Score(const std::vector<KernelRequest>& requests) {
    MustHave(kernel->engine().Score(requests, Sink()));
  }

  static LogitsSink Sink() {
    return [](size_t, size_t, int32_t, std::span<const float>) { return Result<>(); };
  }
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Quartile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Settings {
  int turns = 9;
  size_t requests = 64;
  std::string threads = "1";
  std::string model = std::string(kLabModelDirectory);
};

// One row of the table: a kernel, some work, so many sequences at once.
void Measure(const Settings& settings, const char* kernel, bool generates, size_t company,
             std::vector<KernelRequest> requests, std::vector<Arm*> arms) {
  if (company == 1) requests.resize(std::max<size_t>(1, requests.size() / 8));
  const std::vector<std::vector<int32_t>> outputs = arms[0]->Generate(requests);
  size_t tokens = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    tokens += outputs[r].size();
    if (generates) continue;
    requests[r].tokens.insert(requests[r].tokens.end(), outputs[r].begin(), outputs[r].end());
  }
  std::vector<double> price, noise, invariant, dynamic;
  for (int turn = 0; turn < settings.turns; ++turn) {
    std::array<double, 3> seconds{};
    for (size_t i = 0; i < arms.size(); ++i) {
      const size_t arm = (i + static_cast<size_t>(turn)) % arms.size();
      const double before = CpuSeconds();
      if (generates) {
        arms[arm]->Generate(requests);
      } else {
        arms[arm]->Score(requests);
      }
      seconds[arm] = CpuSeconds() - before;
    }
    price.push_back(seconds[0] / seconds[1]);
    noise.push_back(seconds[2] / seconds[1]);
    invariant.push_back(seconds[0]);
    dynamic.push_back(seconds[1]);
  }
  const auto per_token = [&](const std::vector<double>& seconds) {
    return 1e6 * Median(seconds) / static_cast<double>(tokens);
  };
  std::printf("%s,%s,%zu,%zu,%.1f,%.1f,%.3f,%.3f,%.3f,%.3f\n", kernel,
              generates ? "generate" : "score", company, tokens, per_token(dynamic),
              per_token(invariant), Median(price), Quartile(price, 0.25), Quartile(price, 0.75),
              Median(noise));
  std::fflush(stdout);
}

int Main(const Settings& settings) {
  std::printf(
      "kernel,work,sequences,tokens,dynamic_us,invariant_us,ratio,ratio_q1,ratio_q3,"
      "dynamic_again\n");
  for (const char* kernel : kKernels) {
    for (const size_t company : kCompany) {
      Arm invariant(kernel, settings.model, "invariant", company, settings.threads);
      Arm dynamic(kernel, settings.model, "dynamic", company, settings.threads);
      Arm again(kernel, settings.model, "dynamic", company, settings.threads);
      const auto requests = MakeRequests(settings.requests, invariant.kernel->model().config.vocab);
      if (company == 1) {
        const std::vector<KernelRequest> some(requests.begin(), requests.begin() + 8);
        Arm other(kernel, settings.model, "invariant", 8, settings.threads);
        if (invariant.Generate(some) != other.Generate(some)) {
          std::fprintf(stderr, "%s: batch=invariant depends on the batch\n", kernel);
          return 1;
        }
      }
      for (const bool generates : {true, false})
        Measure(settings, kernel, generates, company, requests, {&invariant, &dynamic, &again});
    }
  }
  return 0;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  kcc::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto value = [&](const std::string& name) {
      return text.starts_with(name) ? text.substr(name.size()) : std::string();
    };
    if (const auto turns = value("--turns="); !turns.empty()) settings.turns = std::stoi(turns);
    if (const auto count = value("--requests="); !count.empty())
      settings.requests = std::stoul(count);
    if (const auto threads = value("--threads="); !threads.empty()) settings.threads = threads;
    if (const auto model = value("--model="); !model.empty()) settings.model = model;
  }
  if (settings.turns < 1 || settings.requests < 8) {
    std::fprintf(stderr, "%s: at least one turn and eight requests\n", argv[0]);
    return 2;
  }
  return kcc::Main(settings);
}
