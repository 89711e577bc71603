#include "kcc/lab/checkpoint.h"

#include <cmath>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/format/mapped_file.h"
#include "kcc/format/safetensors.h"
#include "kcc/numeric/widen.h"

namespace kcc {
namespace {

constexpr size_t kConfigBytesMax = size_t{1} << 20;
constexpr int64_t kModelBytesMax = int64_t{4} << 30;  // the lab is for small models

// model.safetensors, opened, with the digest of all its bytes fed to `hash`.
class TensorFile {
 public:
  static Result<TensorFile> Open(const std::string& path, Sha256* hash) {
    KCC_TRY(MappedFile file, MappedFile::Open(path));
    if (file.size() > kModelBytesMax) {
      return InvalidError("a checkpoint of more than 4 GiB is not for the lab", Place{path});
    }
    KCC_TRY(const std::string first,
            file.Read(0, std::min<size_t>(8, static_cast<size_t>(file.size()))));
    KCC_TRY(const int64_t header_size, SafetensorsHeaderSize(first, file.size(), path));
    KCC_TRY(const std::string json, file.Read(8, static_cast<size_t>(header_size)));
    KCC_TRY(SafetensorsHeader header, ParseSafetensorsHeader(json, file.size(), path));
    for (int64_t at = 0; at < file.size(); at += static_cast<int64_t>(kWindowBytesMax)) {
      const auto size = std::min<int64_t>(static_cast<int64_t>(kWindowBytesMax), file.size() - at);
      KCC_TRY(const FileWindow window, file.Map(at, static_cast<size_t>(size)));
      hash->Update({reinterpret_cast<const char*>(window.data()), window.size()});
    }
    return TensorFile(std::move(file), std::move(header));
  }

  Result<std::vector<float>> Read(const std::string& name, std::vector<int64_t> shape) const {
    const Place place{file_.path()};
    const TensorInfo* info = header_.Find(name);
    if (info == nullptr) return InvalidError("tensor '" + name + "' is missing", place);
    TensorInfo wanted;
    wanted.shape = std::move(shape);
    if (info->shape != wanted.shape) {
      return InvalidError("tensor '" + name + "' has shape " + info->ShapeText() +
                              ", but config.json asks for " + wanted.ShapeText(),
                          place);
    }
    if (info->dtype != DType::kF32 && info->dtype != DType::kBF16 && info->dtype != DType::kF16) {
      return InvalidError("tensor '" + name + "' is " + std::string(DTypeName(info->dtype)) +
                              "; the lab reads F32, BF16 and F16",
                          place);
    }
    std::vector<float> values(static_cast<size_t>(info->elements()));
    const size_t element = DTypeBits(info->dtype) / 8;
    const size_t step = kWindowBytesMax / element;
    for (size_t i = 0; i < values.size(); i += step) {
      const size_t count = std::min(step, values.size() - i);
      KCC_TRY(const FileWindow window,
              file_.Map(info->begin + static_cast<int64_t>(i * element), count * element));
      WidenToFloat(window.data(), info->dtype, count, BestTarget(), values.data() + i);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) {
        return BrokenEvidenceError("tensor '" + name +
                                       "' holds a number that is not finite, at element " +
                                       std::to_string(i) + "; the checkpoint is damaged",
                                   place);
      }
    }
    return values;
  }

 private:
  TensorFile(MappedFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace

Result<Checkpoint> ReadCheckpoint(const std::string& directory) {
  const std::string config_path = directory + "/config.json";
  KCC_TRY(const std::string text, ReadRegularFile(config_path, kConfigBytesMax));
  Checkpoint checkpoint;
  KCC_TRY(checkpoint.config, ParseModelConfig(text, config_path));
  const ModelConfig& config = checkpoint.config;
  Sha256 hash;
  hash.Update(text);
  KCC_TRY(const TensorFile file, TensorFile::Open(directory + "/model.safetensors", &hash));
  for (const ModelTensor& tensor : TensorsOf(config, &checkpoint)) {
    KCC_TRY(*tensor.values, file.Read(tensor.name, tensor.shape));
  }
  if (config.tied) checkpoint.lm_head = checkpoint.embedding;
  checkpoint.digest = hash.Finish();
  return checkpoint;
}

}  // namespace kcc
