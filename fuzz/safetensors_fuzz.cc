// Any bytes as a safetensors file: the header is refused, or every tensor lies within the file,
// they tile it, and a header written for them reads back the same.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/format/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto file_size = static_cast<int64_t>(size);
  const auto header_size = kcc::SafetensorsHeaderSize(bytes.substr(0, 8), file_size, "f");
  if (!header_size.has_value()) return 0;
  const auto header = kcc::ParseSafetensorsHeader(
      bytes.substr(8, static_cast<size_t>(*header_size)), file_size, "f");
  if (!header.has_value()) return 0;
  int64_t end = header->data_begin;
  for (const kcc::TensorInfo& tensor : header->tensors) {
    KCC_CHECK(tensor.begin == end && tensor.end >= tensor.begin && tensor.elements() >= 0);
    end = tensor.end;
  }
  KCC_CHECK(end == file_size);

  std::vector<kcc::TensorInfo> tensors = header->tensors;
  const std::string prefix = kcc::SafetensorsPrefix(tensors, header->metadata);
  const int64_t written = static_cast<int64_t>(prefix.size()) + (end - header->data_begin);
  const auto again =
      kcc::ParseSafetensorsHeader(std::string_view(prefix).substr(8), written, "again");
  KCC_CHECK(again.has_value() && again->tensors.size() == header->tensors.size());
  return 0;
}
