// Any bytes as a NumPy header, as an .npz archive, and as the pickle of a torch file.
#include <cstdint>
#include <string_view>

#include "fuzz/memory_file.h"
#include "kcc/base/check.h"
#include "kcc/format/npy.h"
#include "kcc/format/torch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = kcc::ParseNpyHeader(bytes, static_cast<int64_t>(size));
  if (header.has_value()) {
    const auto element = static_cast<int64_t>(header->element_bytes());
    KCC_CHECK(header->data_offset + header->elements() * element == static_cast<int64_t>(size));
  }
  for (const kcc::PickleCalls calls : {kcc::PickleCalls::kRefuse, kcc::PickleCalls::kDescribe}) {
    const auto pickle = kcc::ParseTorchPickle(bytes, calls);
    if (!pickle.has_value()) continue;
    for (const kcc::TorchValue& value : pickle->values) {
      for (const int32_t item : value.items) {
        KCC_CHECK(item >= 0 && static_cast<size_t>(item) < pickle->values.size());
      }
    }
  }
  const kcc::MemoryFile file(data, size);
  const auto mapped = kcc::MappedFile::Open(file.path());
  KCC_CHECK(mapped.has_value());
  const auto members = kcc::ListZip(*mapped);
  if (members.has_value()) {
    for (const kcc::ZipMember& member : *members) {
      KCC_CHECK(member.offset >= 0 && member.size >= 0 &&
                member.offset <= static_cast<int64_t>(size) - member.size);
    }
  }
  (void)kcc::TorchFile::Open(file.path());
  (void)kcc::TorchFile::Open(file.path(), kcc::PickleCalls::kDescribe);
  return 0;
}
