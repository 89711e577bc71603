// Any bytes as a stored request: reading ends, and what is taken is what would be written.
#include <cstdint>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/replay/stored_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto stored = kcc::ParseStoredRequest(text);
  if (!stored.has_value()) {
    KCC_CHECK(!stored.error().message().empty());
    return 0;
  }
  KCC_CHECK(kcc::StoredRequestJson(*stored) == text);
  if (stored->store == kcc::StoreRequests::kFull) {
    const kcc::KernelRequest request = kcc::RequestToRun(*stored);
    KCC_CHECK(kcc::CheckSuppliedRequest(*stored, request).has_value());
  }
  return 0;
}
