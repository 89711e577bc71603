// The summary reader behind the checksum: whatever is accepted must be in canonical form, so that
// equal summaries cannot have different bytes.
#include <cstdint>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/summary/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto summary = kcc::DecodeSummaryBody(body);
  if (!summary) return 0;
  const std::string bytes = kcc::EncodeSummary(*summary);
  const auto again = kcc::DecodeSummary(bytes);
  KCC_CHECK(again.has_value());
  KCC_CHECK(kcc::EncodeSummary(*again) == bytes);
  return 0;
}
