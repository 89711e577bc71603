// Any bytes as a .kld file: the header is refused, or every row lies within the file and decodes
// or is refused.
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/trace/kld.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header =
      kcc::ParseKldHeader(bytes.substr(0, kcc::kKldHeaderBytes), static_cast<int64_t>(size));
  if (!header.has_value()) return 0;
  std::vector<float> logprobs(static_cast<size_t>(header->n_vocab));
  int64_t at = header->rows_offset;
  for (int64_t row = 0; row < header->n_chunk * header->rows_per_chunk(); ++row) {
    KCC_CHECK(at + header->row_bytes() <= static_cast<int64_t>(size));
    const auto* begin = reinterpret_cast<const std::byte*>(data) + at;
    if (kcc::DecodeKldRow(*header, begin, logprobs).has_value()) {
      for (const float logprob : logprobs) KCC_CHECK(std::isfinite(logprob));
    }
    at += header->row_bytes();
  }
  KCC_CHECK(at == static_cast<int64_t>(size));
  return 0;
}
