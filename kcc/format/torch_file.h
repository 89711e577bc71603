// A file of torch.save, as far as it holds dictionaries, lists, numbers, texts and tensors: the
// pickle is read by a small machine of its own that knows these and calls nothing, so a hostile
// file can say anything and do nothing. Tensors are found, not loaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/format/mapped_file.h"

namespace kcc {

struct TorchValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kList,
    kTuple,
    kDict,
    kGlobal,
    kStorage,
    kTensor
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;         // kBool, kInt; kStorage: elements; kTensor: first element
  double number = 0;           // kFloat
  std::string text;            // kText; kGlobal: "module name"; kStorage: key
  std::vector<int32_t> items;  // kList, kTuple; kDict: key, value, key, value …; kTensor: storage
  std::vector<int64_t> shape, strides;  // kTensor
  DType dtype = DType::kF32;            // kStorage, kTensor
};

// The values a pickle leaves; index into `values`.
struct TorchPickle {
  std::vector<TorchValue> values;
  int32_t root = 0;
};
Result<TorchPickle> ParseTorchPickle(std::string_view bytes);

class TorchFile {
 public:
  static Result<TorchFile> Open(const std::string& path);

  const TorchValue& root() const { return At(pickle_.root); }
  const TorchValue& At(int32_t index) const { return pickle_.values[static_cast<size_t>(index)]; }
  const std::string& path() const { return file_.path(); }
  int64_t size() const { return file_.size(); }

  // The bytes of elements [first, first + count) of a contiguous tensor.
  Result<FileWindow> Map(const TorchValue& tensor, int64_t first, int64_t count) const;

  static bool IsContiguous(const TorchValue& tensor);
  static int64_t Elements(const TorchValue& tensor);

 private:
  struct Storage {
    int64_t offset = 0;
    int64_t size = 0;
  };
  explicit TorchFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  TorchPickle pickle_;
  std::map<std::string, Storage> storages_;  // by key
};

}  // namespace kcc
