// Any bytes as a line that an exec kernel answers: hello, scored or generated, which the first byte
// chooses. It ends in an error with words, or in an answer that keeps the protocol's promises.
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/kernel/exec_protocol.h"
#include "kcc/trace/evidence_check.h"

namespace {

template <class T>
bool Refused(const kcc::Result<T>& answer) {
  if (answer.has_value()) return false;
  KCC_CHECK(!answer.error().message().empty());
  return true;
}

void CheckGenerated(std::string_view line, const std::vector<kcc::KernelRequest>& asked,
                    const kcc::KernelInfo& info) {
  kcc::Sampling sampling;
  sampling.output_tokens_max = 4;
  sampling.stop = {2};
  const auto generated = kcc::ParseGenerated(line, 1, asked, sampling, info);
  if (Refused(generated)) return;
  KCC_CHECK(generated->size() == asked.size());
  for (const kcc::GeneratedRequest& row : *generated) {
    KCC_CHECK(row.tokens.size() <= 4);
    KCC_CHECK(row.logprobs.empty() || row.logprobs.size() == row.tokens.size());
    for (const int32_t token : row.tokens) KCC_CHECK(token >= 0 && token < info.vocab_size);
    for (const float logprob : row.logprobs) KCC_CHECK(kcc::CheckLogprob(logprob).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view line(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<kcc::KernelRequest> asked(2);
  for (size_t i = 0; i < asked.size(); ++i) {
    asked[i].request.id = i == 0 ? "a" : "b";
    asked[i].tokens = {1, 2, 3};
    asked[i].prompt_tokens = 2;
  }
  kcc::KernelInfo info;
  info.fingerprint = "toy-1";
  info.vocab_size = 11;
  info.generates = true;
  switch (data[0] % 3) {
    case 0: {
      const auto hello = kcc::ParseHello(line);
      if (Refused(hello)) break;
      KCC_CHECK(hello->vocab_size >= 1 && !hello->fingerprint.empty());
      KCC_CHECK(std::isfinite(hello->temperature) && hello->temperature > 0);
      KCC_CHECK(hello->batch_requests_max >= 0);
      (void)kcc::DeclaredBy(*hello);
      break;
    }
    case 1:
      Refused(kcc::ParseScored(line, 1, asked, info.fingerprint));
      break;
    default:
      CheckGenerated(line, asked, info);
  }
  return 0;
}
