// A file of torch.save, as far as it holds dictionaries, lists, numbers, texts and tensors: the
// pickle is read by a small machine of its own that knows these and calls nothing, so a hostile
// file can say anything and do nothing. Tensors are found, not loaded.
//
// verl's DataProto.save_to_disk writes a pickle that holds such a file in one of its byte strings;
// it is found there. Its objects are described (their class and arguments), never made.
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
    kTensor,
    kBytes,
    kObject  // a call that was not made
  };
  Kind kind = Kind::kNone;
  // kBool, kInt; kStorage: elements; kTensor: first element; kBytes: where they begin in the pickle
  int64_t integer = 0;
  int64_t size = 0;   // kBytes
  double number = 0;  // kFloat
  std::string text;   // kText; kGlobal, kObject: "module name"; kStorage: key
  // kList, kTuple; kDict: key, value, key, value …; kTensor: storage; kObject: arguments, then the
  // state it was given, if any
  std::vector<int32_t> items;
  std::vector<int64_t> shape, strides;  // kTensor
  DType dtype = DType::kF32;            // kStorage, kTensor
};

// The values a pickle leaves; index into `values`.
struct TorchPickle {
  std::vector<TorchValue> values;
  int32_t root = 0;
};
// What becomes of a call that the machine does not know: refused, or described as a kObject.
enum class PickleCalls : uint8_t { kRefuse, kDescribe };
Result<TorchPickle> ParseTorchPickle(std::string_view bytes,
                                     PickleCalls calls = PickleCalls::kRefuse);

class TorchFile {
 public:
  static Result<TorchFile> Open(const std::string& path, PickleCalls calls = PickleCalls::kRefuse);

  const TorchValue& root() const { return At(pickle_.root); }
  const TorchValue& At(int32_t index) const { return pickle_.values[static_cast<size_t>(index)]; }
  const std::string& path() const { return file_.path(); }
  int64_t size() const { return file_.size(); }
  const TorchPickle& pickle() const { return pickle_; }
  // The pickle around the file, where it came in one (DataProto); else null.
  const TorchPickle* outer() const { return outer_.values.empty() ? nullptr : &outer_; }

  // The bytes of elements [first, first + count) of a contiguous tensor. In a file that came in a
  // pickle they lie at any address; elsewhere they are aligned.
  Result<FileWindow> Map(const TorchValue& tensor, int64_t first, int64_t count) const;

  static bool IsContiguous(const TorchValue& tensor);
  static int64_t Elements(const TorchValue& tensor);

 private:
  struct Storage {
    int64_t offset = 0;
    int64_t size = 0;
  };
  explicit TorchFile(MappedFile file) : file_(std::move(file)) {}
  Result<> ReadArchive(int64_t begin, int64_t size, PickleCalls calls);

  MappedFile file_;
  TorchPickle pickle_;
  TorchPickle outer_;
  std::map<std::string, Storage> storages_;  // by key
};

}  // namespace kcc
