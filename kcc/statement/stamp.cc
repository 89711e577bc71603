#include "kcc/statement/stamp.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/format/json.h"
#include "kcc/format/safetensors.h"
#include "kcc/statement/predicate_json.h"

namespace kcc {
namespace {

constexpr std::string_view kContractKey = "kcc.contract";
constexpr std::string_view kTripleKey = "kcc.triple";
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr size_t kLengthBytes = 8;
constexpr size_t kPieceBytes = size_t{1} << 20;

// An open checkpoint: its header taken apart, its tensors left where they are.
struct CheckpointFile {
  FileDescriptor file;
  int64_t size = 0;
  int64_t data_begin = 0;
  std::map<std::string, std::string> metadata;
  std::vector<std::pair<std::string, std::string>> tensors;  // name and entry, in the file's order

  CheckpointStamp stamp() const {
    const auto value = [&](std::string_view key) {
      const auto found = metadata.find(std::string(key));
      return found == metadata.end() ? std::string() : found->second;
    };
    return {value(kContractKey), value(kTripleKey)};
  }
};

Result<std::string> ReadPiece(int fd, int64_t at, size_t size, const std::string& path) {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t count = ::pread(fd, bytes.data() + have, size - have,
                                  static_cast<off_t>(at + static_cast<int64_t>(have)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return IoError(std::string("cannot read: ") + std::strerror(errno), Place{path});
    }
    if (count == 0) return IoError("became shorter while it was read", Place{path});
    have += static_cast<size_t>(count);
  }
  return bytes;
}

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// What is asked of a tensor's entry: the dtype is not ours to judge, so its size cannot be checked
// against its shape.
Result<ByteRange> ReadRange(json::element entry) {
  json::object object;
  if (entry.get(object) != simdjson::SUCCESS) return InvalidError("is not an object");
  const auto offsets = JsonList(JsonMember(object, "data_offsets"));
  if (JsonText(JsonMember(object, "dtype")).empty() || !JsonList(JsonMember(object, "shape")) ||
      !offsets || offsets->size() != 2) {
    return InvalidError("lacks dtype, shape or data_offsets");
  }
  const auto begin = JsonInteger((*offsets)[0]);
  const auto end = JsonInteger((*offsets)[1]);
  if (!begin || !end || *begin < 0 || *end < *begin) {
    return InvalidError("has data_offsets that are not two rising integers");
  }
  return ByteRange{*begin, *end};
}

// Tensors must tile the data: what the header does not describe would be copied unseen.
Result<> CheckTiled(std::vector<ByteRange> ranges, int64_t data_bytes) {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  int64_t expected = 0;
  for (const ByteRange& range : ranges) {
    if (range.begin != expected) {
      return InvalidError("its tensors leave a hole or overlap at byte " +
                          std::to_string(expected) + " of the data");
    }
    expected = range.end;
  }
  if (expected != data_bytes) {
    return InvalidError("its header describes " + std::to_string(expected) +
                        " bytes of data, and it has " + std::to_string(data_bytes) +
                        ": it is truncated, or more follows");
  }
  return {};
}

Result<> ReadStampHeader(std::string_view text, CheckpointFile* checkpoint) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("its header is not an object");
  std::set<std::string_view> names;
  std::vector<ByteRange> ranges;
  for (const auto [name, entry] : object) {
    if (!names.insert(name).second) {
      return InvalidError("'" + std::string(name) + "' stands twice in its header");
    }
    if (name != kMetadataKey) {
      const Result<ByteRange> range = ReadRange(entry);
      if (!range.has_value()) {
        return InvalidError("tensor '" + std::string(name) + "' " + range.error().message());
      }
      ranges.push_back(*range);
      checkpoint->tensors.emplace_back(std::string(name), simdjson::minify(entry));
      continue;
    }
    json::object members;
    if (entry.get(members) != simdjson::SUCCESS) {
      return InvalidError("its __metadata__ is not an object");
    }
    for (const auto [key, value] : members) {
      std::string_view word;
      if (value.get(word) != simdjson::SUCCESS) {
        return InvalidError("its __metadata__ holds '" + std::string(key) + "', not a string");
      }
      if (!checkpoint->metadata.emplace(std::string(key), std::string(word)).second) {
        return InvalidError("its __metadata__ has '" + std::string(key) + "' twice");
      }
    }
  }
  return CheckTiled(std::move(ranges), checkpoint->size - checkpoint->data_begin);
}

Result<CheckpointFile> OpenCheckpoint(const std::string& path) {
  CheckpointFile checkpoint;
  KCC_TRY(checkpoint.file, OpenRegularFile(path));
  struct stat info {};
  if (::fstat(checkpoint.file.get(), &info) != 0) {
    return IoError(std::string("cannot look at it: ") + std::strerror(errno), Place{path});
  }
  checkpoint.size = info.st_size;
  const size_t first = static_cast<size_t>(std::min<int64_t>(checkpoint.size, kLengthBytes));
  KCC_TRY(const std::string length, ReadPiece(checkpoint.file.get(), 0, first, path));
  KCC_TRY(const int64_t header_size, SafetensorsHeaderSize(length, checkpoint.size, path));
  KCC_TRY(const std::string header,
          ReadPiece(checkpoint.file.get(), kLengthBytes, static_cast<size_t>(header_size), path));
  checkpoint.data_begin = static_cast<int64_t>(kLengthBytes) + header_size;
  if (const Result<> read = ReadStampHeader(header, &checkpoint); !read.has_value()) {
    return InvalidError("not a safetensors file to stamp: " + read.error().message(), Place{path});
  }
  return checkpoint;
}

// The new bytes before the tensors. These start at a multiple of what they started at before, up to
// a page: files are mapped into memory, and some are aligned on purpose.
std::string StampedPrefix(const CheckpointFile& checkpoint) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  json.Key(kMetadataKey).BeginObject();
  for (const auto& [key, value] : checkpoint.metadata) json.Field(key, value);
  json.EndObject();
  for (const auto& [name, entry] : checkpoint.tensors) json.Key(name).Raw(entry);
  json.EndObject();
  std::string text = json.Take();
  text.pop_back();  // the line feed
  constexpr int64_t kPage = 4096;
  constexpr int64_t kLeast = 8;
  const int64_t was = checkpoint.data_begin & -checkpoint.data_begin;
  const auto alignment = static_cast<size_t>(std::clamp(was, kLeast, kPage));
  const size_t total = (kLengthBytes + text.size() + alignment - 1) / alignment * alignment;
  text.resize(total - kLengthBytes, ' ');
  const auto size = static_cast<uint64_t>(text.size());
  std::string prefix(kLengthBytes, '\0');
  std::memcpy(prefix.data(), &size, sizeof(size));
  return prefix + text;
}

}  // namespace

Result<StampedCheckpoint> StampCheckpoint(const std::string& from, const std::string& to,
                                          const CheckpointStamp& stamp) {
  KCC_TRY_VOID(CheckDigest(stamp.contract, "the contract"));
  KCC_TRY_VOID(CheckDigest(stamp.triple, "the triple"));
  KCC_TRY(CheckpointFile checkpoint, OpenCheckpoint(from));
  StampedCheckpoint made;
  made.before = checkpoint.stamp();
  made.payload_bytes = checkpoint.size - checkpoint.data_begin;
  checkpoint.metadata[std::string(kContractKey)] = stamp.contract;
  checkpoint.metadata[std::string(kTripleKey)] = stamp.triple;
  const std::string prefix = StampedPrefix(checkpoint);
  if (static_cast<int64_t>(prefix.size()) >
      kSafetensorsHeaderBytesMax + static_cast<int64_t>(kLengthBytes)) {
    return InvalidError("its header has no room for a stamp: the format allows " +
                            std::to_string(kSafetensorsHeaderBytesMax) + " bytes",
                        Place{from});
  }
  Sha256 payload;
  Sha256 file;
  const auto copy = [&](const WritePiece& write) -> Result<> {
    file.Update(prefix);
    KCC_TRY_VOID(write(prefix));
    for (int64_t at = checkpoint.data_begin; at < checkpoint.size;) {
      const auto size = static_cast<size_t>(
          std::min<int64_t>(checkpoint.size - at, static_cast<int64_t>(kPieceBytes)));
      KCC_TRY(const std::string piece, ReadPiece(checkpoint.file.get(), at, size, from));
      payload.Update(piece);
      file.Update(piece);
      KCC_TRY_VOID(write(piece));
      at += static_cast<int64_t>(size);
    }
    return {};
  };
  KCC_TRY_VOID(WriteFileInPieces(to, copy));
  made.payload_digest = payload.Finish();
  made.file_digest = file.Finish();
  return made;
}

Result<CheckpointStamp> ReadCheckpointStamp(const std::string& path) {
  KCC_TRY(const CheckpointFile checkpoint, OpenCheckpoint(path));
  CheckpointStamp stamp = checkpoint.stamp();
  for (const std::string* digest : {&stamp.contract, &stamp.triple}) {
    if (digest->empty()) continue;
    const Result<> valid = CheckDigest(*digest, "the stamp");
    if (!valid.has_value()) return InvalidError(valid.error().message(), Place{path});
  }
  return stamp;
}

}  // namespace kcc
