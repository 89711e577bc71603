// Gradients of the trainer as a file, for tests that compare them with PyTorch's.
//
//   kcc_train_gradients MODEL KERNEL SEQUENCES OUT [THREADS [TARGET]]
//
// SEQUENCES has a line for each sequence: the first token whose log-prob counts, then all tokens.
// OUT is a safetensors file with the gradient of the sum of -log p over these tokens, by the
// model's tensor names, and `log_probs`. KERNEL is the lab's, as in 'fp8?threads=2'.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "kcc/base/file.h"
#include "kcc/format/safetensors.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/train/gradient_pass.h"

namespace kcc {
namespace {

struct Sequences {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<PackedSequence> packed;
};

void ReadSequences(const std::string& path, Sequences* made) {
  std::ifstream in(path);
  std::vector<size_t> first;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    first.push_back(0);
    words >> first.back();
    made->tokens.emplace_back();
    for (int32_t token; words >> token;) made->tokens.back().push_back(token);
  }
  for (size_t i = 0; i < first.size(); ++i) made->packed.push_back({"", made->tokens[i], first[i]});
}

Result<> WriteTensors(const ModelConfig& config, ModelWeights* gradients,
                      std::span<const float> log_probs, const std::string& path) {
  std::vector<TensorInfo> infos;
  std::string bytes;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       std::span<const float> values) {
    infos.push_back({name, DType::kF32, std::move(shape), 0, 0});
    const auto raw = std::as_bytes(values);
    bytes.append(reinterpret_cast<const char*>(raw.data()), raw.size());
  };
  for (const ModelTensor& tensor : TensorsOf(config, gradients))
    add(tensor.name, tensor.shape, *tensor.values);
  add("log_probs", {static_cast<int64_t>(log_probs.size())}, log_probs);
  return WriteFileAtomically(path, SafetensorsPrefix(infos, {}) + bytes);
}

Result<> Main(const std::vector<std::string>& arguments) {
  KCC_TRY(const LabUri uri, ParseLabUri("lab:" + arguments[2]));
  KCC_TRY(const LabSwitches switches, ResolveSwitches(uri.kernel, uri.options));
  KCC_TRY(const Checkpoint checkpoint, ReadCheckpoint(arguments[1]));
  Sequences sequences;
  ReadSequences(arguments[3], &sequences);
  const size_t threads = arguments.size() > 5 ? std::stoul(arguments[5]) : 1;
  Target target = BestTarget();
  if (arguments.size() > 6) {
    KCC_TRY(target, ParseTarget(arguments[6]));
  }
  ForkJoin pool(threads);
  KCC_TRY(const auto pass, GradientPass::Make(checkpoint, switches, pool, target));
  KCC_TRY_VOID(pass->Forward(sequences.packed));
  ModelWeights gradients = ZeroWeights(checkpoint.config);
  pass->Backward(std::vector<float>(pass->log_probs().size(), -1.0f), &gradients);
  return WriteTensors(checkpoint.config, &gradients, pass->log_probs(), arguments[4]);
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s MODEL KERNEL SEQUENCES OUT [THREADS [TARGET]]\n", argv[0]);
    return 2;
  }
  const kcc::Result<> done = kcc::Main(arguments);
  if (done.has_value()) return 0;
  std::fprintf(stderr, "%s\n", done.error().Format().c_str());
  return 4;
}
