#include "kcc/train/initial_weights.h"

#include <cmath>

#include "kcc/lab/rope.h"
#include "kcc/lab/sampler.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// Two normal numbers from two uniform ones (Box and Muller 1958).
void FillNormal(uint64_t seed, double deviation, std::vector<float>* values) {
  for (size_t i = 0; i < values->size(); i += 2) {
    const double radius = std::sqrt(-2 * Log(1 - UniformAt(seed, i)));
    double cosine = 0;
    double sine = 0;
    CosSin(UniformAt(seed, i + 1) * 6.28318530717958647693, &cosine, &sine);
    (*values)[i] = static_cast<float>(deviation * radius * cosine);
    if (i + 1 < values->size()) (*values)[i + 1] = static_cast<float>(deviation * radius * sine);
  }
}

}  // namespace

ModelWeights InitialWeights(const ModelConfig& config, uint64_t seed) {
  ModelWeights made = ZeroWeights(config);
  uint64_t place = 0;
  for (const ModelTensor& tensor : TensorsOf(config, &made)) {
    // Apart for each tensor: the seed's own numbers are far from those of its neighbours.
    const auto own = static_cast<uint64_t>(UniformAt(seed, ++place) * 0x1p53);
    if (tensor.shape.size() == 2) {
      FillNormal(own, config.initializer_range, tensor.values);
    } else if (!tensor.name.ends_with(".bias")) {
      tensor.values->assign(tensor.elements(), 1.0f);
    }
  }
  if (config.tied) made.lm_head = made.embedding;
  return made;
}

}  // namespace kcc
