// Any bytes as requests.jsonl and as trace.json: refused, or what was read survives being written
// and read again.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/memory_file.h"
#include "kcc/base/check.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const kcc::MemoryFile file(data, size);
  const auto requests = kcc::ReadRequests(file.path());
  if (requests.has_value()) {
    for (const kcc::Request& request : *requests) {
      const std::string line = kcc::RequestJson(request);
      const auto again = kcc::ParseRequest(line);
      KCC_CHECK(again.has_value());
      KCC_CHECK(kcc::RequestJson(*again) == line);
    }
  }
  const auto info = kcc::ParseTraceInfo(bytes, "trace.json");
  if (info.has_value()) {
    const std::string text = kcc::TraceInfoJson(*info);
    const auto again = kcc::ParseTraceInfo(text, "trace.json");
    KCC_CHECK(again.has_value() && kcc::TraceInfoJson(*again) == text);
  }
  return 0;
}
