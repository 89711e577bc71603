// Any bytes, as a schema and as an answer that is held to it: reading either ends, and what fits a
// schema is JSON. The first line is the schema.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/rescore/json_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBytesMax = 4096;
  if (size > kBytesMax) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view answer = input.substr(std::min(line + 1, input.size()));
  const kcc::Fit any = kcc::JsonSchema::Any().Check(answer);
  KCC_CHECK(any != kcc::Fit::kUnknown || answer.size() > 64);
  const auto schema = kcc::JsonSchema::Parse(input.substr(0, line), "schema.json");
  if (!schema.has_value()) return 0;
  KCC_CHECK(any == kcc::Fit::kFits || schema->Check(answer) != kcc::Fit::kFits);
  schema->Check(answer);
  return 0;
}
