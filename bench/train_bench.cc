// Steps of the trainer, one for each line on standard input, with their CPU time: what
// bench/train_torch.py puts beside PyTorch's.
//
//   train_bench MODEL EXAMPLES KERNEL THREADS RATE
//
// EXAMPLES is one batch, taken whole in every step. Prints a JSON object for each step.
#include <sys/resource.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "kcc/base/json_writer.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/train/trainer.h"

namespace kcc {
namespace {

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result<> Main(char** argv) {
  KCC_TRY(const Checkpoint checkpoint, ReadCheckpoint(argv[1]));
  KCC_TRY(const ExampleSet examples, ReadExamples(argv[2]));
  KCC_TRY(const LabUri uri, ParseLabUri(argv[3]));
  TrainOptions options;
  KCC_TRY(options.kernel, ResolveSwitches(uri.kernel, uri.options));
  options.schedule = {ScheduleKind::kConstant, std::stod(argv[5]), 1, 0, 1 << 20};
  options.batch_tokens = options.pack_tokens = size_t{1} << 30;
  ForkJoin pool(std::stoul(argv[4]));
  KCC_TRY(const auto trainer, Trainer::Make(checkpoint, options, examples.examples, pool));
  for (std::string line; std::getline(std::cin, line);) {
    const double before = CpuSeconds();
    KCC_TRY(const StepReport report, trainer->Step());
    JsonWriter json(JsonWriter::Style::kCompact);
    json.BeginObject().Field("loss", report.loss).Field("gradientLength", report.gradient_length);
    json.Field("tokens", report.tokens).Field("cpu", CpuSeconds() - before).EndObject();
    std::cout << json.Take() << std::flush;
  }
  return {};
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s MODEL EXAMPLES KERNEL THREADS RATE\n", argv[0]);
    return 2;
  }
  const kcc::Result<> done = kcc::Main(argv);
  if (done.has_value()) return 0;
  std::fprintf(stderr, "%s\n", done.error().Format().c_str());
  return 4;
}
