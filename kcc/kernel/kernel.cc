#include "kcc/kernel/kernel.h"

namespace kcc {

std::map<std::string, std::string> DeclaredBy(const KernelInfo& info) {
  std::map<std::string, std::string> declared = info.declares;
  for (const KernelOption& option : info.options) declared.emplace(option.name, option.value);
  return declared;
}

Request AnsweredLine(const KernelRequest& asked) {
  Request line = asked.request;
  // Both kernels are asked in the same order, so the place is nobody's word but the asker's.
  if (asked.ordinal >= 0) {
    line.fields.try_emplace("ordinal", static_cast<double>(asked.ordinal));
  }
  line.fields["failed"] = false;
  return line;
}

void SetSampling(const Sampling& sampling, TraceInfo* info) {
  info->sampling_altered = sampling.temperature > 0 && (sampling.top_k > 0 || sampling.top_p < 1);
  SetTemperatures(sampling.temperature, info);
}

TraceInfo TraceInfoOf(const KernelInfo& kernel) {
  TraceInfo info;
  info.kernel_fingerprint = kernel.fingerprint;
  info.model_digest = kernel.model_digest;
  info.vocab_size = kernel.vocab_size;
  info.evidence = kernel.evidence;
  info.semantics = kernel.semantics;
  info.path = kernel.path;
  SetTemperatures(kernel.temperature, &info);
  info.declares = DeclaredBy(kernel);
  return info;
}

}  // namespace kcc
