// The lab's engine: prefill and decode throughput, f32 and 8-bit, on the shipped model.
//
//   lab_bench [--json] [--threads N] [MODEL_DIRECTORY]
//
// Before a time is reported, batch-invariant f32 logits of the prompt are compared between one and
// two threads, bit for bit. tools/bench_lab.py puts llama.cpp's figures beside these.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/json_writer.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc {
namespace {

constexpr size_t kPrompt = 512;
constexpr int32_t kOutput = 128;
constexpr int kRounds = 5;

KernelRequest MakeRequest(size_t vocab) {
  KernelRequest request;
  request.request.id = "bench";
  for (size_t i = 0; i < kPrompt; ++i) {
    request.tokens.push_back(static_cast<int32_t>((i * 7919 + 13) % std::min<size_t>(vocab, 256)));
  }
  request.prompt_tokens = static_cast<int32_t>(kPrompt);
  return request;
}

std::unique_ptr<LabKernel> OpenOrExit(const std::string& model, NamedValues options) {
  options.emplace_back("audit", "off");
  auto kernel = LabKernel::Open({"custom", model, std::move(options)});
  if (!kernel.has_value()) {
    std::fprintf(stderr, "%s\n", kernel.error().Format().c_str());
    std::exit(4);
  }
  return std::move(*kernel);
}

std::vector<float> LastLogits(LabKernel* kernel, const KernelRequest& request, int32_t outputs,
                              double* seconds) {
  const SystemClock clock;
  Sampling sampling;
  sampling.temperature = 0;
  sampling.output_tokens_max = outputs;
  std::vector<float> last;
  const double begin = clock.MonotonicSeconds();
  const auto done = kernel->engine().Generate(
      {&request, 1}, sampling, [&](size_t, size_t, int32_t, std::span<const float> logits) {
        last.assign(logits.begin(), logits.end());
        return Result<>();
      });
  *seconds = clock.MonotonicSeconds() - begin;
  if (!done.has_value()) {
    std::fprintf(stderr, "%s\n", done.error().Format().c_str());
    std::exit(4);
  }
  return last;
}

struct Figures {
  double prefill = 0;  // tokens per second, best of the rounds
  double decode = 0;
};

Figures MeasureKernel(LabKernel* kernel, const KernelRequest& request) {
  double first = 1e300;
  double whole = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    double seconds = 0;
    LastLogits(kernel, request, 1, &seconds);
    first = std::min(first, seconds);
    LastLogits(kernel, request, 1 + kOutput, &seconds);
    whole = std::min(whole, seconds);
  }
  return {static_cast<double>(kPrompt) / first, kOutput / (whole - first)};
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  using namespace kcc;
  bool json = false;
  std::string threads = "2";
  std::string model(kLabModelDirectory);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      threads = argv[++i];
    } else {
      model = argv[i];
    }
  }
  if (std::FILE* file = std::fopen((model + "/model.safetensors").c_str(), "rb")) {
    std::fclose(file);
  } else {
    std::printf("no checkpoint in %s: nothing to measure\n", model.c_str());
    return 0;
  }
  const auto one = OpenOrExit(model, {{"threads", "1"}});
  const auto two = OpenOrExit(model, {{"threads", "2"}});
  const KernelRequest request = MakeRequest(one->model().config.vocab);
  double seconds = 0;
  if (LastLogits(one.get(), request, 8, &seconds) != LastLogits(two.get(), request, 8, &seconds)) {
    std::fprintf(stderr, "one and two threads disagree\n");
    return 1;
  }
  JsonWriter writer;
  writer.BeginObject().Field("promptTokens", kPrompt).Field("outputTokens", kOutput);
  if (!json) {
    std::printf("%-8s %14s %14s   tokens/s, threads: %s\n", "weights", "prefill", "decode",
                threads.c_str());
  }
  for (const char* weights : {"f32", "int8", "e4m3", "bf16", "int4"}) {
    NamedValues options = {{"weights", weights}, {"threads", threads}};
    if (std::strcmp(weights, "f32") != 0) options.emplace_back("lm_head", "weights");
    const auto kernel = OpenOrExit(model, options);
    const Figures figures = MeasureKernel(kernel.get(), request);
    writer.Key(weights).BeginObject();
    writer.Field("prefill", figures.prefill).Field("decode", figures.decode).EndObject();
    if (!json) std::printf("%-8s %14.0f %14.0f\n", weights, figures.prefill, figures.decode);
  }
  if (json) std::fputs(writer.EndObject().Take().c_str(), stdout);
  return 0;
}
