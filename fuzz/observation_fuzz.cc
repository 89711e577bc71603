// Any bytes as an observation: reading ends, an error has words and a column within the line, what
// is taken is written in one way, and what is not can be logged as a line that could not be read.
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/monitorlog/unread_line.h"

namespace {

std::string Written(const kcc::MonitorObservation& observation) {
  kcc::JsonWriter writer(kcc::JsonWriter::Style::kCompact);
  kcc::WriteObservation(observation, &writer);
  return writer.Take();
}

std::string Written(const kcc::UnreadLine& line) {
  kcc::JsonWriter writer(kcc::JsonWriter::Style::kCompact);
  kcc::WriteUnread(line, &writer);
  return writer.Take();
}

void LogUnread(std::string_view line, const kcc::Error& error) {
  static const kcc::MonitorPolicy policy = [] {
    kcc::MonitorPolicy made;
    made.kernels = {{"fp8", kcc::KernelRole::kInfer, "", {}}};
    return made;
  }();
  const kcc::UnreadLine unread = kcc::UnreadLineOf(line, error, policy);
  KCC_CHECK(unread.kernel.empty() || unread.kernel == "fp8");
  const std::string text = Written(unread);
  const auto again = kcc::ReadUnread(text);
  KCC_CHECK(again.has_value());
  KCC_CHECK(Written(*again) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  static kcc::ObservationReader reader;
  const auto read = reader.Read(line);
  if (!read.has_value()) {
    KCC_CHECK(!read.error().message().empty());
    KCC_CHECK(read.error().place().column >= 0 &&
              static_cast<size_t>(read.error().place().column) <= size + 1);
    LogUnread(line, read.error());
    return 0;
  }
  const std::string text = Written(*read);
  const auto again = reader.Read(std::string_view(text).substr(0, text.find_last_not_of('\n') + 1));
  KCC_CHECK(again.has_value());
  KCC_CHECK(Written(*again) == text);
  return 0;
}
