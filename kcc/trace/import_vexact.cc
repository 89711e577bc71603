// VeXact's dump: all_logits.pt {request: [logits of one generated token, …]}, optionally
// all_logprobs.pt of the same form, all_token_ids_list.json {request: prompt and generated ids}
// and metadata.json {request: {prompt_len, response_len, …}}. Logits are already those that
// predicted the token; BF16 and F16 are kept as they are.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "kcc/base/file.h"
#include "kcc/format/torch_file.h"
#include "kcc/trace/alignment_check.h"
#include "kcc/trace/import_formats.h"
#include "kcc/trace/import_responses.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

constexpr size_t kJsonBytesMax = size_t{1} << 30;

struct DumpRequest {
  std::vector<int64_t> ids;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  std::optional<double> latency_s;
};

// The two JSON files say which tokens there are; the tensors only have rows. A dump in which the
// two disagree by one row would pair every logit with its neighbour's token, so lengths are
// compared here and again with the tensors (TensorsOf).
Result<std::map<std::string, DumpRequest>> ReadRequestsOf(const std::string& directory) {
  std::map<std::string, DumpRequest> requests;
  const std::string ids_path = directory + "/all_token_ids_list.json";
  KCC_TRY(const std::string ids_text, ReadRegularFile(ids_path, kJsonBytesMax));
  KCC_TRY(const std::string metadata_text,
          ReadRegularFile(directory + "/metadata.json", kJsonBytesMax));
  json::parser ids_parser;
  json::parser metadata_parser;
  KCC_TRY(const json::element ids_root, ParseJson(ids_parser, ids_text));
  KCC_TRY(const json::element metadata_root, ParseJson(metadata_parser, metadata_text));
  json::object ids;
  json::object metadata;
  if (ids_root.get(ids) != simdjson::SUCCESS || metadata_root.get(metadata) != simdjson::SUCCESS) {
    return InvalidError("all_token_ids_list.json and metadata.json must hold objects");
  }
  // A lookup in the object itself walks through it.
  std::unordered_map<std::string_view, json::element> metadata_of;
  for (const auto [key, value] : metadata) metadata_of.emplace(key, value);
  for (const auto [key, value] : ids) {
    DumpRequest request;
    auto read = JsonTokenIds(value, key);
    if (!read.has_value()) {
      return Error(read.error().code(),
                   "request '" + std::string(key) + "': " + read.error().message(),
                   Place{ids_path});
    }
    request.ids = std::move(*read);
    const auto member = metadata_of.find(key);
    json::object fields;
    if (member == metadata_of.end() || member->second.get(fields) != simdjson::SUCCESS) {
      return BrokenEvidenceError("metadata.json does not have request '" + std::string(key) + "'");
    }
    const auto integer = [&](std::string_view name) {
      const auto element = JsonMember(fields, name);
      return element ? JsonInteger(*element).value_or(-1) : -1;
    };
    // -1 where it is missing or no integer, which the check below refuses.
    request.prompt_tokens = integer("prompt_len");
    request.output_tokens = integer("response_len");
    if (const auto time = JsonMember(fields, "processing_time"))
      request.latency_s = JsonNumber(*time);
    if (request.prompt_tokens < 1 || request.output_tokens < 0 ||
        request.prompt_tokens + request.output_tokens != static_cast<int64_t>(request.ids.size())) {
      return BrokenEvidenceError("request '" + std::string(key) +
                                 "': prompt_len and response_len of metadata.json do not add up to "
                                 "its " +
                                 std::to_string(request.ids.size()) + " token ids");
    }
    requests.emplace(std::string(key), std::move(request));
  }
  return requests;
}

// The tensors under a request: a list of them, or a tensor of rows. They have `tokens` rows
// altogether, or it is an error: what a file claims is compared before it is believed.
Result<std::vector<const TorchValue*>> TensorsOf(const TorchFile& file, const std::string& id,
                                                 const TorchValue& value, int64_t width,
                                                 int64_t tokens) {
  std::vector<const TorchValue*> tensors;
  const auto differ = [&](int64_t rows) {
    return BrokenEvidenceError("request '" + id + "' has " + std::to_string(rows) +
                               " rows of logits for " + std::to_string(tokens) +
                               " generated tokens: one too many or too few is a shift by one");
  };
  if (value.kind == TorchValue::Kind::kTensor) {
    tensors.push_back(&value);
  } else if (value.kind != TorchValue::Kind::kList) {
    return InvalidError("each request must hold a list of tensors", Place{file.path()});
  } else if (static_cast<int64_t>(value.items.size()) > tokens) {
    return differ(static_cast<int64_t>(value.items.size()));
  } else {
    for (const int32_t item : value.items) tensors.push_back(&file.At(item));
  }
  int64_t rows = 0;
  for (const TorchValue* tensor : tensors) {
    const int64_t elements = TorchFile::Elements(*tensor);
    if (tensor->kind != TorchValue::Kind::kTensor || tensor->shape.empty() ||
        tensor->shape.back() != width || !TorchFile::IsContiguous(*tensor) || elements < 0 ||
        __builtin_add_overflow(rows, elements / width, &rows)) {
      return InvalidError("logits must be contiguous tensors of one width", Place{file.path()});
    }
  }
  if (rows != tokens) return differ(rows);
  return tensors;
}

// The first tensor in the file, which tells width and dtype.
// A root of another kind has no items, or items that are no tensors: Run says so.
const TorchValue* FirstTensor(const TorchFile& file) {
  for (size_t i = 1; i < file.root().items.size(); i += 2) {
    const TorchValue& value = file.At(file.root().items[i]);
    if (value.kind == TorchValue::Kind::kTensor) return &value;
    if (value.kind == TorchValue::Kind::kList && !value.items.empty()) {
      return &file.At(value.items[0]);
    }
  }
  return nullptr;
}

// Log-probs as plain numbers or one-element tensors.
Result<std::vector<double>> LogprobsOf(const TorchFile& file, const TorchValue& list) {
  std::vector<double> logprobs;
  for (const int32_t item : list.items) {
    const TorchValue& value = file.At(item);
    if (value.kind == TorchValue::Kind::kFloat) {
      logprobs.push_back(value.number);
    } else if (value.kind == TorchValue::Kind::kTensor && value.dtype == DType::kF32 &&
               TorchFile::Elements(value) == 1) {
      KCC_TRY(const FileWindow window, file.Map(value, 0, 1));
      float number = 0;
      std::memcpy(&number, window.data(), 4);
      logprobs.push_back(number);
    } else {
      return InvalidError("log-probs must be numbers or F32 tensors of one element",
                          Place{file.path()});
    }
  }
  return logprobs;
}

// The values of a dictionary by their keys.
Result<std::unordered_map<std::string_view, const TorchValue*>> ByKey(const TorchFile& file) {
  std::unordered_map<std::string_view, const TorchValue*> values;
  const std::vector<int32_t>& items = file.root().items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    // Views into the file's own texts, which outlive the map.
    const std::string& key = file.At(items[i]).text;
    if (!values.emplace(key, &file.At(items[i + 1])).second) {
      return InvalidError("holds request '" + key + "' twice", Place{file.path()});
    }
  }
  return values;
}

// One pass over all_logits.pt, request by request in the order of the file, so that a dump larger
// than memory is read once. Its first tensor decides width and dtype for all.
class DumpImport {
 public:
  DumpImport(const TorchFile& logits, const TorchFile* logprobs, const ImportOptions& options)
      : logits_(logits), logprobs_(logprobs), options_(options) {}

  Result<ImportReport> Run(const std::string& directory, const std::string& output) {
    KCC_TRY(const auto requests, ReadRequestsOf(directory));
    const TorchValue* first = FirstTensor(logits_);
    if (logits_.root().kind != TorchValue::Kind::kDict || first == nullptr ||
        first->kind != TorchValue::Kind::kTensor || first->shape.empty()) {
      return InvalidError("all_logits.pt must hold {request: [tensor, …]}", Place{logits_.path()});
    }
    // Padded vocabularies are wider than the real one: --vocab-size says where it ends.
    width_ = first->shape.back();
    dtype_ = first->dtype;
    if (dtype_ != DType::kF32 && dtype_ != DType::kF16 && dtype_ != DType::kBF16) {
      return InvalidError("logits must be F32, F16 or BF16", Place{logits_.path()});
    }
    if (logprobs_ != nullptr) {
      KCC_TRY(logprobs_of_, ByKey(*logprobs_));
    }
    KCC_TRY(TraceWriter writer, CreateWriter(output));
    AlignmentCheck alignment(vocab_size_, !options_.semantics.has_value());
    std::set<std::string> seen;
    const auto& items = logits_.root().items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const std::string& id = logits_.At(items[i]).text;
      const auto it = requests.find(id);
      if (it == requests.end()) {
        return BrokenEvidenceError("all_token_ids_list.json does not have request '" + id + "'",
                                   Place{directory});
      }
      seen.insert(id);
      KCC_TRY_VOID(AddRequest(id, it->second, logits_.At(items[i + 1]), &writer, &alignment));
    }
    // A request without logits is not left out in silence: it would be a smaller evaluation set.
    for (const auto& [id, request] : requests) {
      if (request.output_tokens > 0 && !seen.contains(id)) {
        return BrokenEvidenceError("all_logits.pt does not have request '" + id + "'",
                                   Place{directory});
      }
    }
    KCC_TRY_VOID(alignment.Check());
    KCC_TRY_VOID(writer.Finish());
    return report_;
  }

 private:
  Result<TraceWriter> CreateWriter(const std::string& output) {
    vocab_size_ = options_.vocab_size > 0 ? options_.vocab_size : width_;
    if (width_ < 1 || width_ > kVocabSizeMax) {
      return InvalidError("the logits have " + std::to_string(width_) +
                          " entries a row; from 1 to " + std::to_string(kVocabSizeMax) +
                          " are read");
    }
    if (vocab_size_ > width_) {
      return InvalidError("the logits have " + std::to_string(width_) +
                          " entries, fewer than the " + "vocabulary of " +
                          std::to_string(vocab_size_));
    }
    if (options_.fingerprint.empty()) {
      return InvalidError("a dump does not name its kernel; give --fingerprint");
    }
    TraceInfo info;
    info.kernel_fingerprint = options_.fingerprint;
    info.model_digest = options_.model_digest;
    info.vocab_size = vocab_size_;
    info.evidence = EvidenceLevel::kLogits;
    info.semantics = options_.semantics.value_or(LogprobSemantics::kRaw);
    KCC_TRY_VOID(CheckTemperatureGiven(options_));
    info.path = options_.path.value_or(TracePath::kDecode);
    info.mode = options_.mode.value_or(TraceMode::kScored);
    // VeXact dumps what the rollout engine generated, token by token.
    info.sampled_by = options_.sampled_by.value_or(SampledBy::kInfer);
    SetTemperatures(options_.temperature, &info);
    TraceWriter::Options writer_options;
    writer_options.replace = options_.replace;
    writer_options.logits_dtype = dtype_;
    writer_options.logits_width = width_;
    writer_options.logprob = logprobs_ != nullptr;
    return TraceWriter::Create(output, std::move(info), writer_options);
  }

  Result<> AddRequest(const std::string& id, const DumpRequest& dump, const TorchValue& value,
                      TraceWriter* writer, AlignmentCheck* alignment) {
    KCC_TRY(const std::vector<const TorchValue*> tensors,
            TensorsOf(logits_, id, value, width_, dump.output_tokens));
    // Tensors may share a storage, but not all of it many times over.
    const auto element = static_cast<int64_t>(DTypeBits(dtype_) / 8);
    bytes_claimed_ += dump.output_tokens * width_ * element;
    if (bytes_claimed_ > logits_.size()) {
      return InvalidError("the tensors of logits claim more bytes than the file has",
                          Place{logits_.path()});
    }
    const auto rows = static_cast<size_t>(dump.output_tokens);
    std::vector<double> logprobs(rows, std::numeric_limits<double>::quiet_NaN());
    if (logprobs_ != nullptr) {
      const auto it = logprobs_of_.find(id);
      const size_t given = it == logprobs_of_.end() ? 0 : it->second->items.size();
      if (given != rows) {
        return BrokenEvidenceError("request '" + id + "' has " + std::to_string(given) +
                                   " log-probs for " + std::to_string(rows) + " tokens");
      }
      if (rows > 0) {
        KCC_TRY(logprobs, LogprobsOf(*logprobs_, *it->second));
      }
    }
    Request request;
    request.id = id;
    request.fields["prompt_tokens"] = static_cast<double>(dump.prompt_tokens);
    request.fields["output_tokens"] = static_cast<double>(dump.output_tokens);
    if (dump.latency_s) request.fields["latency_ms"] = *dump.latency_s * 1e3;
    FillFingerprint(options_.fingerprint, &request);
    KCC_TRY(const int32_t row_of_request, writer->AddRequest(request));
    ++report_.requests;
    size_t i = 0;
    for (const TorchValue* tensor : tensors) {
      if (tensor->dtype != dtype_) {
        return InvalidError("the tensors have different dtypes", Place{logits_.path()});
      }
      const int64_t count = TorchFile::Elements(*tensor) / width_;
      for (int64_t row = 0; row < count; ++row, ++i) {
        // Row by row: tensors lie anywhere in the file, and a row is far larger than what mapping
        // costs.
        KCC_TRY(const FileWindow window, logits_.Map(*tensor, row * width_, width_));
        TokenEvidence token;
        token.request = row_of_request;
        token.position = static_cast<int32_t>(dump.prompt_tokens + static_cast<int64_t>(i));
        token.token = static_cast<int32_t>(dump.ids[static_cast<size_t>(token.position)]);
        token.logits = window.data();
        token.logits_dtype = dtype_;
        token.logprob = static_cast<float>(logprobs[i]);
        auto added = writer->AddToken(token);
        if (!added.has_value()) {
          return Error(added.error().code(),
                       "request '" + id + "', position " + std::to_string(token.position) + ": " +
                           added.error().message(),
                       added.error().place());
        }
        alignment->Add(token);
        ++report_.tokens;
      }
    }
    return {};
  }

  const TorchFile& logits_;
  const TorchFile* logprobs_;
  const ImportOptions& options_;
  std::unordered_map<std::string_view, const TorchValue*> logprobs_of_;  // by request
  ImportReport report_;
  int64_t bytes_claimed_ = 0;
  int64_t width_ = 0;
  int64_t vocab_size_ = 0;
  DType dtype_ = DType::kF32;
};

}  // namespace

Result<ImportReport> ImportVexact(ImportInputs inputs, const std::string& output,
                                  const ImportOptions& options) {
  if (inputs.size() != 1) return InvalidError("give the one directory of a VeXact dump");
  const std::string& directory = inputs[0];
  KCC_TRY(const TorchFile logits, TorchFile::Open(directory + "/all_logits.pt"));
  std::optional<TorchFile> logprobs;
  std::error_code ignored;
  // Optional: the log-probs follow from the logits, and serve as a check of the alignment.
  if (std::filesystem::exists(directory + "/all_logprobs.pt", ignored)) {
    KCC_TRY(logprobs, TorchFile::Open(directory + "/all_logprobs.pt"));
  }
  auto report = DumpImport(logits, logprobs ? &*logprobs : nullptr, options).Run(directory, output);
  if (!report.has_value()) return std::move(report.error()).At(Place{directory});
  return report;
}

}  // namespace kcc
