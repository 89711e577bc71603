#include "kcc/trace/reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/directory.h"
#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

static_assert(std::endian::native == std::endian::little, "traces are little-endian and mapped");

constexpr size_t kTraceJsonBytesMax = size_t{1} << 20;
constexpr int32_t kTopKMax = 1 << 20;

std::string TokenFileName(size_t index) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "tokens-%05zu.safetensors", index);
  return name.data();
}

// tokens-00000.safetensors and on, without a gap. A file named so but out of the row is an error:
// a copy that lost a part must not pass for the whole.
Result<std::vector<std::string>> ListTokenFiles(const std::string& directory) {
  KCC_TRY(std::vector<std::string> names, ListDirectory(directory));
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with("tokens-") || !name.ends_with(".safetensors");
  });
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != TokenFileName(i)) {
      return BrokenEvidenceError("expected " + TokenFileName(i) + ", found " + names[i] +
                                     ": a part of the trace is missing or misnamed",
                                 Place{directory});
    }
  }
  return names;
}

Error TensorError(const TensorInfo& tensor, const std::string& wanted, const std::string& file) {
  return InvalidError("tensor '" + tensor.name + "' is " + std::string(DTypeName(tensor.dtype)) +
                          tensor.ShapeText() + "; it must be " + wanted,
                      Place{file});
}

bool IsColumn(const TensorInfo& tensor, int64_t rows) {
  return tensor.shape.size() == 1 && tensor.shape[0] == rows;
}

// The columns of one file, checked one by one against the number of rows.
class TokenFileBuilder {
 public:
  TokenFileBuilder(const SafetensorsHeader& header, const TraceInfo& info, std::string path)
      : header_(header), info_(info), path_(std::move(path)) {}

  Result<> Build(TokenFile* out) {
    KCC_TRY(out->request, Required("request"));
    if (out->request.shape.size() != 1) return TensorError(out->request, "I32[N]", path_);
    out->rows = out->request.shape[0];
    rows_ = out->rows;
    KCC_TRY(out->position, Required("position"));
    KCC_TRY(out->token, Required("token"));
    KCC_TRY(out->logprob, Column("logprob", DType::kF32));
    KCC_TRY(out->advantage, Column("advantage", DType::kF32));
    KCC_TRY(out->gold, Column("gold", DType::kI32));
    KCC_TRY_VOID(Mask(out));
    KCC_TRY_VOID(Logits(out));
    KCC_TRY_VOID(TopK(out));
    return CheckEvidence(*out);
  }

 private:
  Result<TensorInfo> Required(std::string_view name) {
    KCC_TRY(std::optional<TensorInfo> tensor, Column(name, DType::kI32));
    if (!tensor) {
      return InvalidError("the tensor '" + std::string(name) +
                              "' is missing; a tokens file needs request, position and token",
                          Place{path_});
    }
    return std::move(*tensor);
  }

  Result<std::optional<TensorInfo>> Column(std::string_view name, DType dtype) {
    const TensorInfo* tensor = header_.Find(name);
    if (tensor == nullptr) return std::optional<TensorInfo>();
    const bool right_rows = rows_ < 0 || IsColumn(*tensor, rows_);
    if (tensor->dtype != dtype || !right_rows) {
      return TensorError(*tensor,
                         std::string(DTypeName(dtype)) + "[" +
                             (rows_ < 0 ? "N" : std::to_string(rows_)) + "] like 'request'",
                         path_);
    }
    return std::optional<TensorInfo>(*tensor);
  }

  Result<> Mask(TokenFile* out) {
    const TensorInfo* tensor = header_.Find("mask");
    if (tensor == nullptr) return {};
    if ((tensor->dtype != DType::kU8 && tensor->dtype != DType::kBool) ||
        !IsColumn(*tensor, rows_)) {
      return TensorError(*tensor, "U8[" + std::to_string(rows_) + "], 1 where a token counts",
                         path_);
    }
    out->mask = *tensor;
    return {};
  }

  Result<> Logits(TokenFile* out) {
    const TensorInfo* tensor = header_.Find("logits");
    if (tensor == nullptr) return {};
    const bool known = tensor->dtype == DType::kF32 || tensor->dtype == DType::kF16 ||
                       tensor->dtype == DType::kBF16;
    if (!known || tensor->shape.size() != 2 || tensor->shape[0] != rows_ ||
        tensor->shape[1] < info_.vocab_size || tensor->shape[1] > kVocabSizeMax) {
      return TensorError(*tensor,
                         "F32, F16 or BF16 [" + std::to_string(rows_) +
                             ", V] with V at least the "
                             "vocabSize " +
                             std::to_string(info_.vocab_size) + " of trace.json",
                         path_);
    }
    out->logits = *tensor;
    return {};
  }

  Result<> TopK(TokenFile* out) {
    const TensorInfo* ids = header_.Find("top_ids");
    const TensorInfo* logprobs = header_.Find("top_logprobs");
    if (ids == nullptr && logprobs == nullptr) return {};
    if (ids == nullptr || logprobs == nullptr) {
      return InvalidError("top_ids and top_logprobs must come together", Place{path_});
    }
    const auto fits = [&](const TensorInfo& tensor, DType dtype) {
      return tensor.dtype == dtype && tensor.shape.size() == 2 && tensor.shape[0] == rows_ &&
             tensor.shape[1] >= 1 && tensor.shape[1] <= kTopKMax;
    };
    if (!fits(*ids, DType::kI32)) return TensorError(*ids, "I32[N, k]", path_);
    if (!fits(*logprobs, DType::kF32) || logprobs->shape != ids->shape) {
      return TensorError(*logprobs, "F32" + ids->ShapeText() + " like top_ids", path_);
    }
    out->top_ids = *ids;
    out->top_logprobs = *logprobs;
    return {};
  }

  Result<> CheckEvidence(const TokenFile& file) {
    const bool holds = info_.evidence == EvidenceLevel::kLogits         ? file.logits.has_value()
                       : info_.evidence == EvidenceLevel::kTopK         ? file.top_ids.has_value()
                       : info_.evidence == EvidenceLevel::kSampledToken ? file.logprob.has_value()
                                                                        : true;
    if (holds) return {};
    return InvalidError("trace.json promises the evidence '" + std::string(Name(info_.evidence)) +
                            "', but the tensors for it are not in this file",
                        Place{path_});
  }

  const SafetensorsHeader& header_;
  const TraceInfo& info_;
  std::string path_;
  int64_t rows_ = -1;
};

Result<TokenFile> OpenTokenFile(const std::string& path, const TraceInfo& info, Sha256* identity) {
  KCC_TRY(MappedFile file, MappedFile::Open(path));
  KCC_TRY(const std::string prefix,
          file.Read(0, std::min<size_t>(8, static_cast<size_t>(file.size()))));
  KCC_TRY(const int64_t size, SafetensorsHeaderSize(prefix, file.size(), path));
  KCC_TRY(const std::string text, file.Read(8, static_cast<size_t>(size)));
  KCC_TRY(const SafetensorsHeader header, ParseSafetensorsHeader(text, file.size(), path));
  TokenFile tokens(std::move(file));
  tokens.data_begin = header.data_begin;
  KCC_TRY_VOID(TokenFileBuilder(header, info, path).Build(&tokens));
  for (const TensorInfo& tensor : header.tensors) {
    identity->Update(tensor.name + " " + std::string(DTypeName(tensor.dtype)) + tensor.ShapeText() +
                     " " + std::to_string(tensor.begin) + "\n");
  }
  return tokens;
}

Result<> CheckCounts(const TraceInfo& info, int64_t requests, int64_t tokens,
                     const std::string& directory) {
  const auto differ = [&](std::string_view what, int64_t promised, int64_t found) {
    return BrokenEvidenceError("trace.json promises " + std::to_string(promised) + " " +
                                   std::string(what) + ", there are " + std::to_string(found) +
                                   ": the trace was cut off or edited",
                               Place{directory});
  };
  if (info.requests && *info.requests != requests) {
    return differ("requests", *info.requests, requests);
  }
  if (info.tokens && *info.tokens != tokens) return differ("tokens", *info.tokens, tokens);
  return {};
}

std::string ModelKernel(const std::string& name) {
  return "'exec:python3 -m kcc.kernels.torch_lm " + name + "'";
}

// What a name that is no directory may have been meant for.
Error NoTrace(const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored)) {
    // "owner/model", as Hugging Face writes it.
    const bool model = std::count(name.begin(), name.end(), '/') == 1 && name[0] != '/' &&
                       name[0] != '.' && name.back() != '/';
    return IoError("there is no such trace; a trace is a directory (docs/trace.md)" +
                       (model ? "; if a Hugging Face model is meant, write " + ModelKernel(name)
                              : std::string()),
                   Place{name});
  }
  constexpr std::string_view kSummary = ".kccs";
  return IoError(name.ends_with(kSummary)
                     ? "is a summary, not a trace; kcc judge CONTRACT SUMMARY judges it"
                     : "is a file, and a trace is a directory; kcc import makes one from what a "
                       "server or a trainer wrote",
                 Place{name});
}

// A directory without trace.json, and the traces that stand in it.
Error TraceBelow(const std::string& directory) {
  std::vector<std::string> below;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (std::filesystem::exists(at->path() / "trace.json", failed)) {
      below.push_back(at->path().filename().string());
    }
  }
  std::sort(below.begin(), below.end());
  constexpr size_t kNamesMax = 8;
  if (below.size() > kNamesMax) below.resize(kNamesMax);
  const std::vector<std::string_view> names(below.begin(), below.end());
  std::string more;
  if (!names.empty()) {
    more = "; it holds the traces " + JoinWords(names);
  } else if (std::filesystem::exists(std::filesystem::path(directory) / "config.json", failed)) {
    more = "; it looks like a model: as a kernel it is " + ModelKernel(directory);
  }
  return IoError("holds no trace.json, so it is no trace" + more, Place{directory});
}

}  // namespace

Result<TraceReader> TraceReader::Open(const std::string& directory) {
  TraceReader reader;
  reader.directory_ = directory;
  const std::string info_path = directory + "/trace.json";
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) return NoTrace(directory);
  if (!std::filesystem::exists(info_path, ignored)) return TraceBelow(directory);
  KCC_TRY(const std::string info_text, ReadRegularFile(info_path, kTraceJsonBytesMax));
  KCC_TRY(reader.info_, ParseTraceInfo(info_text, info_path));
  const std::string requests_path = directory + "/requests.jsonl";
  KCC_TRY(reader.requests_, ReadRequests(requests_path));
  if (reader.requests_.empty()) {
    return BrokenEvidenceError("holds no request: an empty trace shows nothing",
                               Place{requests_path});
  }

  Sha256 identity;
  identity.Update("kcc trace 1\n");
  identity.Update(TraceInfoJson(reader.info_));
  for (const Request& request : reader.requests_) identity.Update(RequestJson(request) + "\n");
  KCC_TRY(const std::vector<std::string> names, ListTokenFiles(directory));
  for (const std::string& name : names) {
    identity.Update(name + "\n");
    KCC_TRY(TokenFile file, OpenTokenFile(directory + "/" + name, reader.info_, &identity));
    file.first_row = reader.token_count_;
    reader.token_count_ += file.rows;
    reader.files_.push_back(std::move(file));
  }
  KCC_TRY_VOID(CheckCounts(reader.info_, static_cast<int64_t>(reader.requests_.size()),
                           reader.token_count_, directory));
  if (reader.token_count_ == 0 && reader.info_.evidence != EvidenceLevel::kNone) {
    return BrokenEvidenceError("holds no token, though trace.json promises the evidence '" +
                                   std::string(Name(reader.info_.evidence)) + "'",
                               Place{directory});
  }
  reader.identity_ = identity.Finish();
  return reader;
}

bool TraceReader::has_mask() const {
  return std::any_of(files_.begin(), files_.end(),
                     [](const TokenFile& file) { return file.mask.has_value(); });
}

int64_t TraceReader::payload_bytes() const {
  int64_t bytes = 0;
  for (const TokenFile& file : files_) {
    bytes += file.file.size();
  }
  return bytes;
}

std::string TraceReader::RowPlace(int64_t row) const {
  for (const TokenFile& file : files_) {
    if (row < file.first_row + file.rows) {
      return std::filesystem::path(file.file.path()).filename().string() + ", row " +
             std::to_string(row - file.first_row);
    }
  }
  return "row " + std::to_string(row);
}

}  // namespace kcc
