#include "kcc/format/torch_file.h"

#include <algorithm>
#include <utility>

#include "kcc/format/npy.h"

namespace kcc {
namespace {

constexpr int64_t kPickleBytesMax = int64_t{1} << 30;
constexpr int64_t kOuterBytesMax = int64_t{1} << 32;

// The first byte string of a pickle that is an archive: what DataProto.__getstate__ puts there.
const TorchValue* FindArchive(const TorchPickle& pickle, std::string_view bytes) {
  for (const TorchValue& value : pickle.values) {
    if (value.kind != TorchValue::Kind::kBytes) continue;
    const auto begin = static_cast<size_t>(value.integer);
    if (bytes.substr(begin, static_cast<size_t>(value.size)).starts_with("PK\x03\x04"))
      return &value;
  }
  return nullptr;
}

}  // namespace

Result<> TorchFile::ReadArchive(int64_t begin, int64_t size, PickleCalls calls) {
  KCC_TRY(const std::vector<ZipMember> members, ListZip(file_, begin, size));
  const ZipMember* pickle = nullptr;
  for (const ZipMember& member : members) {
    if (member.name.ends_with("/data.pkl")) pickle = &member;
    const size_t slash = member.name.rfind("/data/");
    if (slash != std::string::npos) {
      storages_[member.name.substr(slash + 6)] = {member.offset, member.size};
    }
    if (member.name.ends_with("/byteorder")) {
      KCC_TRY(const std::string order,
              file_.Read(member.offset, static_cast<size_t>(std::min<int64_t>(member.size, 16))));
      if (order != "little") return InvalidError("was written on a big-endian machine");
    }
  }
  if (pickle == nullptr || pickle->size > kPickleBytesMax) {
    return InvalidError("is not a file of torch.save: it has no data.pkl");
  }
  KCC_TRY(const std::string bytes, file_.Read(pickle->offset, static_cast<size_t>(pickle->size)));
  KCC_TRY(pickle_, ParseTorchPickle(bytes, calls));
  return {};
}

Result<TorchFile> TorchFile::Open(const std::string& path, PickleCalls calls) {
  KCC_TRY(MappedFile mapped, MappedFile::Open(path));
  TorchFile file(std::move(mapped));
  const auto located = [&](Result<> read) -> Result<TorchFile> {
    if (!read.has_value()) return std::move(read.error()).At(Place{path});
    return std::move(file);
  };
  const int64_t size = file.size();
  KCC_TRY(const std::string first,
          file.file_.Read(0, static_cast<size_t>(std::min<int64_t>(size, 1))));
  if (first != "\x80" || calls == PickleCalls::kRefuse) {
    return located(file.ReadArchive(0, size, calls));
  }
  if (size > kOuterBytesMax) {
    return located(InvalidError("is a pickle of more than 4 GiB; save its tensors in safetensors"));
  }
  KCC_TRY(const std::string bytes, file.file_.Read(0, static_cast<size_t>(size)));
  auto outer = ParseTorchPickle(bytes, calls);
  if (!outer.has_value()) return located(std::move(outer.error()));
  const TorchValue* archive = FindArchive(*outer, bytes);
  if (archive == nullptr) {
    return located(InvalidError(
        "is a pickle that holds no file of torch.save, as verl's DataProto does; write "
        "the tensors with torch.save of a dictionary, or as safetensors"));
  }
  const int64_t begin = archive->integer;
  const int64_t length = archive->size;
  file.outer_ = std::move(*outer);
  return located(file.ReadArchive(begin, length, calls));
}

int64_t TorchFile::Elements(const TorchValue& tensor) {
  int64_t product = 1;
  for (const int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return -1;
  }
  return product;
}

bool TorchFile::IsContiguous(const TorchValue& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, tensor.shape[i], &expected)) return false;
  }
  return true;
}

Result<FileWindow> TorchFile::Map(const TorchValue& tensor, int64_t first, int64_t count) const {
  const TorchValue& storage = At(tensor.items[0]);
  const auto element = static_cast<int64_t>(DTypeBits(tensor.dtype) / 8);
  const auto it = storages_.find(storage.text);
  if (it == storages_.end()) {
    return InvalidError("the storage '" + storage.text + "' of a tensor is missing", Place{path()});
  }
  const Storage& found = it->second;
  int64_t end = 0;
  if (__builtin_add_overflow(tensor.integer, first + count, &end) || tensor.integer < 0 ||
      end > found.size / element) {
    return InvalidError("a tensor lies outside its storage '" + storage.text + "'", Place{path()});
  }
  const int64_t begin = found.offset + (tensor.integer + first) * element;
  if (begin % element != 0 && outer() == nullptr)
    return InvalidError("a tensor is not aligned", Place{path()});
  const int64_t bytes = count * element;
  if (bytes < 1 || bytes > static_cast<int64_t>(kWindowBytesMax)) {
    return InvalidError("a row of a tensor is too large or empty", Place{path()});
  }
  return file_.Map(begin, static_cast<size_t>(bytes));
}

}  // namespace kcc
