// Archives written byte by byte, as no well-behaved writer would: stored zip files, .npy members,
// and pickles of torch.save. Shared with the tests of later folders and the fuzz seeds.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace kcc::testing {

template <class T>
void AppendRaw(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// .npy bytes: the shape as NumPy prints it, "(2, 3)", and the elements' raw bytes.
inline std::string NpyBytes(const std::string& descr, const std::string& shape,
                            const std::string& data) {
  const std::string dict =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string bytes("\x93NUMPY\x01\x00", 8);
  AppendRaw(&bytes, static_cast<uint16_t>(dict.size()));
  return bytes + dict + data;
}

template <class T>
std::string RawOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

using Members = std::vector<std::pair<std::string, std::string>>;

// A zip archive without compression; zip64 where there are too many members for the old record.
inline std::string StoredZip(const Members& members) {
  std::string bytes;
  std::string directory;
  for (const auto& [name, data] : members) {
    const auto offset = static_cast<uint32_t>(bytes.size());
    const auto size = static_cast<uint32_t>(data.size());
    bytes.append("PK\x03\x04", 4).append(14, '\0');
    AppendRaw(&bytes, size);
    AppendRaw(&bytes, size);
    AppendRaw(&bytes, static_cast<uint16_t>(name.size()));
    AppendRaw(&bytes, uint16_t{0});
    bytes += name + data;
    directory.append("PK\x01\x02", 4).append(16, '\0');
    AppendRaw(&directory, size);
    AppendRaw(&directory, size);
    AppendRaw(&directory, static_cast<uint16_t>(name.size()));
    directory.append(12, '\0');
    AppendRaw(&directory, offset);
    directory += name;
  }
  const uint64_t begin = bytes.size();
  const uint64_t count = members.size();
  bytes += directory;
  const bool wide = count >= 0xffff;
  if (wide) {
    const uint64_t record = bytes.size();
    bytes.append("PK\x06\x06", 4).append(20, '\0');
    AppendRaw(&bytes, count);
    AppendRaw(&bytes, count);
    AppendRaw(&bytes, uint64_t{directory.size()});
    AppendRaw(&bytes, begin);
    bytes.append("PK\x06\x07", 4).append(4, '\0');
    AppendRaw(&bytes, record);
    AppendRaw(&bytes, uint32_t{1});
  }
  bytes.append("PK\x05\x06", 4).append(4, '\0');
  AppendRaw(&bytes, static_cast<uint16_t>(wide ? 0xffff : count));
  AppendRaw(&bytes, static_cast<uint16_t>(wide ? 0xffff : count));
  AppendRaw(&bytes, static_cast<uint32_t>(directory.size()));
  AppendRaw(&bytes, static_cast<uint32_t>(begin));
  return bytes.append(2, '\0');
}

// ---- Pickles, opcode by opcode -----------------------------------------------------------------

inline std::string PickleText(const std::string& text) {
  std::string bytes = "X";
  AppendRaw(&bytes, static_cast<uint32_t>(text.size()));
  return bytes + text;
}

inline std::string PickleInt(int64_t value) {
  std::string bytes("\x8a\x08", 2);
  AppendRaw(&bytes, value);
  return bytes;
}

inline std::string PickleTuple(const std::vector<int64_t>& values) {
  std::string bytes = "(";
  for (const int64_t value : values) bytes += PickleInt(value);
  return bytes + "t";
}

// A F32 tensor over the storage called `key`.
inline std::string PickleTensor(const std::string& key, const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + PickleText("storage") +
         "ctorch\nFloatStorage\n" + PickleText(key) + PickleText("cpu") + PickleInt(8) + "tQ" +
         PickleInt(0) + PickleTuple(shape) + PickleTuple(strides) + "tR";
}

// A file of torch.save: the pickle's value, and the bytes of its storages "0", "1" …
inline std::string TorchBytes(const std::string& pickle, const std::vector<std::string>& storages) {
  std::string protocol("\x80\x02", 2);
  Members members = {{"x/data.pkl", protocol + pickle + "."}};
  for (size_t i = 0; i < storages.size(); ++i) {
    members.emplace_back("x/data/" + std::to_string(i), storages[i]);
  }
  // The first storage is aligned, as torch aligns all of them: by the length of a name before it.
  const size_t at = 30 + members[0].first.size() + members[0].second.size() + 30 + 8;
  members[0].first = std::string((8 - at % 8) % 8, 'x') + members[0].first;
  return StoredZip(members);
}

}  // namespace kcc::testing
