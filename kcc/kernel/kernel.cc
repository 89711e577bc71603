#include "kcc/kernel/kernel.h"

namespace kcc {

std::map<std::string, std::string> DeclaredBy(const KernelInfo& info) {
  std::map<std::string, std::string> declared = info.declares;
  for (const KernelOption& option : info.options) declared.emplace(option.name, option.value);
  return declared;
}

void SetSampling(const Sampling& sampling, TraceInfo* info) {
  info->sampling_altered = sampling.temperature > 0 && (sampling.top_k > 0 || sampling.top_p < 1);
  SetTemperatures(sampling.temperature, info);
}

}  // namespace kcc
