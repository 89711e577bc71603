// ListZip (npy.h): the central directory of a zip archive, as .npz files and PyTorch's .pt files
// have one. Every offset is checked against the file; nothing is decompressed.

#include <algorithm>
#include <cstring>
#include <set>

#include "kcc/format/npy.h"

namespace kcc {
namespace {

constexpr int64_t kEndBytes = 22;
constexpr int64_t kCommentMax = 65535;
constexpr int64_t kDirectoryBytesMax = int64_t{1} << 28;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64LocatorMagic = 0x07064b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr uint32_t kLocalMagic = 0x04034b50;

template <class T>
T LoadAt(std::string_view bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t entries = 0;
};

// The part of a file that an archive fills; offsets count from its beginning.
class Archive {
 public:
  Archive(const MappedFile& file, int64_t begin, int64_t size)
      : file_(file), begin_(begin), size_(size) {}

  int64_t size() const { return size_; }
  int64_t begin() const { return begin_; }
  Result<std::string> Read(int64_t offset, size_t size) const {
    return file_.Read(begin_ + offset, size);
  }

 private:
  const MappedFile& file_;
  int64_t begin_;
  int64_t size_;
};

Error BrokenZip(const std::string& what) {
  return InvalidError("not a readable zip archive: " + what);
}

Result<Directory> FindDirectory(const Archive& file) {
  const int64_t tail_size = std::min(file.size(), kEndBytes + kCommentMax);
  if (tail_size < kEndBytes) return BrokenZip("it is shorter than an empty one");
  const int64_t tail_begin = file.size() - tail_size;
  KCC_TRY(const std::string tail, file.Read(tail_begin, static_cast<size_t>(tail_size)));
  for (int64_t at = tail_size - kEndBytes; at >= 0; --at) {
    const auto i = static_cast<size_t>(at);
    if (LoadAt<uint32_t>(tail, i) != kEndMagic) continue;
    if (at + kEndBytes + LoadAt<uint16_t>(tail, i + 20) != tail_size) continue;
    Directory directory{LoadAt<uint32_t>(tail, i + 16), LoadAt<uint32_t>(tail, i + 12),
                        LoadAt<uint16_t>(tail, i + 10)};
    const bool wide = directory.offset == 0xffffffff || directory.size == 0xffffffff ||
                      directory.entries == 0xffff;
    if (!wide) return directory;
    if (at < 20 || LoadAt<uint32_t>(tail, i - 20) != kEnd64LocatorMagic) {
      return BrokenZip("its zip64 record is missing");
    }
    const auto end64 = LoadAt<uint64_t>(tail, i - 12);
    if (file.size() < 56 || end64 > static_cast<uint64_t>(file.size()) - 56)
      return BrokenZip("its zip64 record is outside");
    KCC_TRY(const std::string record, file.Read(static_cast<int64_t>(end64), 56));
    if (LoadAt<uint32_t>(record, 0) != kEnd64Magic) return BrokenZip("its zip64 record is not one");
    return Directory{LoadAt<uint64_t>(record, 48), LoadAt<uint64_t>(record, 40),
                     LoadAt<uint64_t>(record, 32)};
  }
  return BrokenZip("its end record is missing: it is truncated or no archive");
}

struct Entry {
  std::string name;
  uint64_t size = 0;
  uint64_t packed = 0;
  uint64_t local = 0;
};

// Replaces the values that are 0xffffffff by those of the zip64 extra field.
bool ReadExtra(std::string_view extra, Entry* entry) {
  while (extra.size() >= 4) {
    const auto id = LoadAt<uint16_t>(extra, 0);
    const auto size = LoadAt<uint16_t>(extra, 2);
    if (size_t{4} + size > extra.size()) return false;
    if (id == 1) {
      std::string_view values = extra.substr(4, size);
      for (uint64_t* value : {&entry->size, &entry->packed, &entry->local}) {
        if (*value != 0xffffffff) continue;
        if (values.size() < 8) return false;
        *value = LoadAt<uint64_t>(values, 0);
        values.remove_prefix(8);
      }
    }
    extra.remove_prefix(size_t{4} + size);
  }
  return true;
}

Result<ZipMember> Locate(const Archive& file, const Entry& entry) {
  const auto file_size = static_cast<uint64_t>(file.size());
  if (file_size < 30 || entry.local > file_size - 30) {
    return BrokenZip("'" + entry.name + "' starts outside the file");
  }
  KCC_TRY(const std::string local, file.Read(static_cast<int64_t>(entry.local), 30));
  if (LoadAt<uint32_t>(local, 0) != kLocalMagic)
    return BrokenZip("'" + entry.name + "' is not there");
  const uint64_t begin =
      entry.local + 30 + LoadAt<uint16_t>(local, 26) + LoadAt<uint16_t>(local, 28);
  if (begin > file_size || entry.size > file_size - begin) {
    return BrokenZip("'" + entry.name + "' is truncated");
  }
  return ZipMember{entry.name, file.begin() + static_cast<int64_t>(begin),
                   static_cast<int64_t>(entry.size)};
}

}  // namespace

Result<std::vector<ZipMember>> ListZip(const MappedFile& mapped) {
  return ListZip(mapped, 0, mapped.size());
}

Result<std::vector<ZipMember>> ListZip(const MappedFile& mapped, int64_t begin, int64_t size) {
  const Archive file(mapped, begin, size);
  KCC_TRY(const Directory directory, FindDirectory(file));
  const auto file_size = static_cast<uint64_t>(file.size());
  if (directory.offset > file_size || directory.size > file_size - directory.offset ||
      directory.size > static_cast<uint64_t>(kDirectoryBytesMax)) {
    return BrokenZip("its directory lies outside the file");
  }
  KCC_TRY(const std::string bytes,
          file.Read(static_cast<int64_t>(directory.offset), static_cast<size_t>(directory.size)));
  std::vector<ZipMember> members;
  std::set<std::string> names;
  std::string_view rest = bytes;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < 46 || LoadAt<uint32_t>(rest, 0) != kEntryMagic) {
      return BrokenZip("its directory is cut off");
    }
    const auto flags = LoadAt<uint16_t>(rest, 8);
    const auto method = LoadAt<uint16_t>(rest, 10);
    const size_t name_size = LoadAt<uint16_t>(rest, 28);
    const size_t extra_size = LoadAt<uint16_t>(rest, 30);
    const size_t total = 46 + name_size + extra_size + LoadAt<uint16_t>(rest, 32);
    if (total > rest.size()) return BrokenZip("its directory is cut off");
    Entry entry{std::string(rest.substr(46, name_size)), LoadAt<uint32_t>(rest, 24),
                LoadAt<uint32_t>(rest, 20), LoadAt<uint32_t>(rest, 42)};
    if (!ReadExtra(rest.substr(46 + name_size, extra_size), &entry)) {
      return BrokenZip("an extra field is cut off");
    }
    if ((flags & 1) != 0) return InvalidError("'" + entry.name + "' is encrypted");
    if (method != 0 || entry.packed != entry.size) {
      return InvalidError("'" + entry.name +
                          "' is compressed; save with np.savez instead of np.savez_compressed");
    }
    if (!names.insert(entry.name).second) return BrokenZip("'" + entry.name + "' stands twice");
    KCC_TRY(ZipMember member, Locate(file, entry));
    members.push_back(std::move(member));
    rest.remove_prefix(total);
  }
  return members;
}

}  // namespace kcc
