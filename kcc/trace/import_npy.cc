// NumPy arrays. Two layouts, told by the rank of `token`:
//
//   flat   token [N], request [N] (row of requests.jsonl; default all 0), position [N] (default
//          0, 1, 2 … within the request), logits [N, V] | top_ids, top_logprobs [N, k] | logprob
//          [N], advantage, mask, gold [N]
//   batch  token [B, L], and everything else with [B, L] in front: the padded tensors that trainers
//          hold. Request b is row b, position t is column t; entries with mask 0 are padding or
//          prompt and are not written.
//
// Row i of logits, top_* and logprob is about token i: it predicted it. For logits as a forward
// pass returns them (row t predicts token t + 1) import with next_token_logits.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/format/npy.h"
#include "kcc/trace/alignment_check.h"
#include "kcc/trace/import_formats.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/token_id.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 10> kNames = {
    "token",   "request",   "position", "logits",       "top_ids",
    "logprob", "advantage", "mask",     "top_logprobs", "gold"};

constexpr int64_t kListedMax = 1 << 20;
constexpr int64_t kRequestsMin = 1 << 10;  // a file of fewer elements may number so many requests

// A column as doubles; empty if there is none.
struct Columns {
  std::vector<double> token, request, position, top_ids, top_logprobs, logprob, advantage, mask,
      gold;
};

// Small columns are read whole, as doubles, which hold every id and every float32 exactly; logits
// are read through a window. Row i of one column is about the same token as row i of another.
class ArrayImport {
 public:
  ArrayImport(const NpyArrays& arrays, std::vector<Request> requests, const ImportOptions& options)
      : arrays_(arrays), requests_(std::move(requests)), options_(options) {}

  Result<ImportReport> Run(const std::string& output) {
    KCC_TRY_VOID(ReadColumns());
    KCC_TRY(TraceWriter writer, CreateWriter(output));
    KCC_TRY_VOID(AddRequests(&writer));
    AlignmentCheck alignment(vocab_size_, !options_.semantics.has_value());
    std::vector<int64_t> next(requests_.size(), 0);
    for (int64_t i = 0; i < count_; ++i) {
      // A forward pass gives at row t the logits of token t + 1. The first token of each request
      // then has none, and is left out.
      const int64_t source = logits_ != nullptr && options_.next_token_logits ? i - 1 : i;
      auto token = Row(i, &next);
      if (!token.has_value()) return std::move(token.error());
      if (!*token) continue;
      if (source != i && (source < 0 || !SameRequest(source, i))) continue;  // nothing predicts it
      TokenEvidence evidence = **token;
      KCC_TRY_VOID(LoadLogits(source, &evidence));
      KCC_TRY_VOID(LoadTop(i, &evidence));
      auto added = writer.AddToken(evidence);
      if (!added.has_value()) {
        return Error(added.error().code(),
                     "element " + std::to_string(i) + ", request '" +
                         requests_[static_cast<size_t>(evidence.request)].id +
                         "': " + added.error().message(),
                     added.error().place());
      }
      alignment.Add(evidence);
      ++report_.tokens;
    }
    // Before the trace gets its name: a dump that is shifted by one leaves nothing behind.
    KCC_TRY_VOID(alignment.Check());
    KCC_TRY_VOID(writer.Finish());
    return report_;
  }

 private:
  Result<> ReadColumns() {
    for (const NpyArray& array : arrays_.arrays) {
      if (std::find(kNames.begin(), kNames.end(), array.name) != kNames.end()) continue;
      const auto nearest = NearestWord(array.name, kNames);
      return InvalidError("the array '" + array.name + "' is not one of " + JoinWords(kNames) +
                          (nearest ? "; did you mean '" + std::string(*nearest) + "'?" : ""));
    }
    const NpyArray* token = arrays_.Find("token");
    if (token == nullptr) return InvalidError("the array 'token' is missing");
    lead_ = token->header.shape;
    if (lead_.size() != 1 && lead_.size() != 2) {
      return InvalidError("'token' must be [N] or [batch, length]");
    }
    count_ = token->header.elements();
    if (lead_.size() == 2 && (arrays_.Find("request") || arrays_.Find("position"))) {
      return InvalidError("a [batch, length] layout needs no 'request' or 'position'");
    }
    KCC_TRY(columns_.token, Column("token", 0));
    KCC_TRY(columns_.request, Column("request", 0));
    KCC_TRY(columns_.position, Column("position", 0));
    KCC_TRY(columns_.logprob, Column("logprob", 0));
    KCC_TRY(columns_.advantage, Column("advantage", 0));
    KCC_TRY(columns_.mask, Column("mask", 0));
    KCC_TRY(columns_.gold, Column("gold", 0));
    KCC_TRY(columns_.top_ids, Column("top_ids", 1));
    KCC_TRY(columns_.top_logprobs, Column("top_logprobs", 1));
    if (columns_.top_ids.size() != columns_.top_logprobs.size()) {
      return InvalidError("top_ids and top_logprobs must come together, in one shape");
    }
    if (!columns_.top_ids.empty() && arrays_.Find("top_ids")->header.shape.back() > kListedMax) {
      return InvalidError("'top_ids' has more than " + std::to_string(kListedMax) +
                          " entries a row");
    }
    logits_ = arrays_.Find("logits");
    if (logits_ == nullptr) return {};
    KCC_TRY_VOID(CheckShape(*logits_, 1));
    return CheckRowBytes();
  }

  // A row of logits is looked at as a whole, through one window.
  Result<> CheckRowBytes() {
    const int64_t width = logits_->header.shape.back();
    const auto bytes = static_cast<int64_t>(logits_->header.element_bytes());
    if (width < 1) return InvalidError("the array 'logits' has rows of no entries");
    if (width <= static_cast<int64_t>(kWindowBytesMax) / bytes) return {};
    return InvalidError("a row of 'logits' takes " + std::to_string(width * bytes) +
                        " bytes; at most " + std::to_string(kWindowBytesMax) + " are read");
  }

  Result<> CheckShape(const NpyArray& array, size_t more) {
    const auto& shape = array.header.shape;
    const bool fits = shape.size() == lead_.size() + more &&
                      std::equal(lead_.begin(), lead_.end(), shape.begin());
    if (fits) return {};
    return InvalidError("the array '" + array.name + "' must have the shape of 'token'" +
                        (more > 0 ? " and one dimension more" : ""));
  }

  Result<std::vector<double>> Column(std::string_view name, size_t more) {
    const NpyArray* array = arrays_.Find(name);
    if (array == nullptr) return std::vector<double>();
    KCC_TRY_VOID(CheckShape(*array, more));
    return array->ReadAll();
  }

  Result<TraceWriter> CreateWriter(const std::string& output) {
    TraceInfo info;
    width_ = logits_ != nullptr ? logits_->header.shape.back() : 0;
    vocab_size_ = options_.vocab_size > 0 ? options_.vocab_size : width_;
    if (vocab_size_ < 1) return InvalidError("arrays without logits do not tell --vocab-size");
    if (width_ > 0 && (vocab_size_ > width_ || width_ > kVocabSizeMax)) {
      return InvalidError("the logits have " + std::to_string(width_) +
                          " entries, the vocabulary " + std::to_string(vocab_size_));
    }
    if (options_.fingerprint.empty()) {
      return InvalidError("arrays do not name their kernel; give --fingerprint");
    }
    top_k_ = columns_.top_ids.empty()
                 ? 0
                 : static_cast<int32_t>(arrays_.Find("top_ids")->header.shape.back());
    info.kernel_fingerprint = options_.fingerprint;
    info.model_digest = options_.model_digest;
    info.vocab_size = vocab_size_;
    info.evidence = width_ > 0                  ? EvidenceLevel::kLogits
                    : top_k_ > 0                ? EvidenceLevel::kTopK
                    : !columns_.logprob.empty() ? EvidenceLevel::kSampledToken
                                                : EvidenceLevel::kNone;
    if (info.evidence == EvidenceLevel::kNone) {
      return InvalidError("give logits, or top_ids with top_logprobs, or logprob");
    }
    info.semantics = options_.semantics.value_or(LogprobSemantics::kRaw);
    KCC_TRY_VOID(CheckTemperatureGiven(options_));
    info.path = options_.path.value_or(TracePath::kPrefill);
    info.mode = options_.mode.value_or(TraceMode::kScored);
    info.sampled_by = options_.sampled_by.value_or(SampledBy::kDataset);
    SetTemperatures(options_.temperature, &info);
    TraceWriter::Options writer_options;
    writer_options.replace = options_.replace;
    writer_options.logits_width = width_;
    writer_options.top_k = top_k_;
    writer_options.logprob = !columns_.logprob.empty();
    writer_options.advantage = !columns_.advantage.empty();
    writer_options.mask = !columns_.mask.empty() && lead_.size() == 1;
    writer_options.gold = !columns_.gold.empty();
    if (logits_ != nullptr) {
      const DType type = logits_->header.type;
      stored_ = type == DType::kF16 || type == DType::kBF16 ? type : DType::kF32;
      writer_options.logits_dtype = stored_;
      if (type == DType::kF64) {
        report_.warnings.push_back("The float64 logits were rounded to float32.");
      } else if (type != DType::kF32 && stored_ == DType::kF32) {
        return InvalidError("'logits' must be floating-point");
      }
    }
    return TraceWriter::Create(output, std::move(info), writer_options);
  }

  // Without requests.jsonl the arrays say which requests there are: no more than they have
  // elements, but for gaps in a small numbering.
  Result<> CheckRequestCount(double highest) const {
    if (highest < static_cast<double>(std::max(count_, kRequestsMin))) return {};
    return InvalidError("'request' speaks of request " + ShortestNumber(highest) +
                        ", but there are " + std::to_string(count_) +
                        " elements; number the requests from 0, or give a requests.jsonl");
  }

  Result<> AddRequests(TraceWriter* writer) {
    double highest = lead_.size() == 2 ? static_cast<double>(lead_[0]) - 1 : 0;
    for (const double row : columns_.request) highest = std::max(highest, row);
    if (requests_.empty()) {
      KCC_TRY_VOID(CheckRequestCount(highest));
      for (int64_t r = 0; r <= static_cast<int64_t>(highest); ++r) {
        Request request;
        request.id = std::to_string(r);
        if (options_.prompt_tokens) {
          request.fields["prompt_tokens"] = static_cast<double>(*options_.prompt_tokens);
        }
        requests_.push_back(std::move(request));
      }
    }
    if (highest >= static_cast<double>(requests_.size())) {
      return InvalidError("there are " + std::to_string(requests_.size()) +
                          " requests, but the arrays speak of row " + ShortestNumber(highest));
    }
    for (Request& request : requests_) {
      FillFingerprint(options_.fingerprint, &request);
      KCC_TRY(const int32_t row, writer->AddRequest(request));
      (void)row;
      ++report_.requests;
    }
    return {};
  }

  bool SameRequest(int64_t a, int64_t b) const {
    if (lead_.size() == 2) return a / lead_[1] == b / lead_[1];
    return columns_.request.empty() ||
           columns_.request[static_cast<size_t>(a)] == columns_.request[static_cast<size_t>(b)];
  }

  static std::string Element(const char* name, int64_t i) {
    return "element " + std::to_string(i) + " of '" + name + "'";
  }

  static Result<int32_t> Integer(double value, const char* name, int64_t i) {
    if (!(value >= -1 && value <= 2147483647.0) || value != std::floor(value)) {
      return InvalidError(Element(name, i) + " is not an index: " + ShortestNumber(value));
    }
    return static_cast<int32_t>(value);
  }

  // The scalars of element i; none where it is padding.
  Result<std::optional<TokenEvidence>> Row(int64_t i, std::vector<int64_t>* next) {
    const auto at = static_cast<size_t>(i);
    const bool counts = columns_.mask.empty() || columns_.mask[at] != 0;
    TokenEvidence token;
    if (lead_.size() == 2) {
      // Of padded tensors; in the flat layout a masked token is kept, since it was scored.
      if (!counts) return std::optional<TokenEvidence>();
      token.request = static_cast<int32_t>(i / lead_[1]);
      token.position = static_cast<int32_t>(i % lead_[1]);
    } else {
      KCC_TRY(token.request,
              Integer(columns_.request.empty() ? 0 : columns_.request[at], "request", i));
      if (token.request < 0) return InvalidError("'request' is negative at " + std::to_string(i));
      // Without given positions a request's tokens are counted in the order in which they stand.
      int64_t& following = (*next)[static_cast<size_t>(token.request)];
      KCC_TRY(token.position, Integer(columns_.position.empty() ? static_cast<double>(following)
                                                                : columns_.position[at],
                                      "position", i));
      ++following;
      token.masked = !counts;
    }
    KCC_TRY(token.token, TokenIdFrom(columns_.token[at], [&] { return Element("token", i); }));
    if (!columns_.logprob.empty()) token.logprob = static_cast<float>(columns_.logprob[at]);
    if (!columns_.advantage.empty()) token.advantage = static_cast<float>(columns_.advantage[at]);
    if (!columns_.gold.empty() && columns_.gold[at] != -1) {
      KCC_TRY(token.gold, TokenIdFrom(columns_.gold[at], [&] { return Element("gold", i); }));
    }
    return std::optional<TokenEvidence>(token);
  }

  Result<> LoadLogits(int64_t row, TokenEvidence* token) {
    if (logits_ == nullptr) return {};
    const auto bytes = width_ * static_cast<int64_t>(logits_->header.element_bytes());
    const int64_t offset = logits_->offset + row * bytes;
    if (!window_.Holds(offset, static_cast<size_t>(bytes))) {
      const int64_t end = logits_->offset + count_ * bytes;
      const int64_t rows = std::max<int64_t>((int64_t{16} << 20) / bytes, 1);
      // Unmapped first, so that two windows never stand side by side.
      window_ = FileWindow();
      KCC_TRY(window_, logits_->file->Map(
                           offset, static_cast<size_t>(std::min(rows * bytes, end - offset))));
    }
    token->logits = window_.At(offset);
    token->logits_dtype = stored_;
    if (logits_->header.type == DType::kF64) {
      converted_.resize(static_cast<size_t>(width_));
      for (size_t v = 0; v < converted_.size(); ++v) {
        converted_[v] = static_cast<float>(LoadElement(window_.At(offset), DType::kF64, v));
      }
      token->logits = converted_.data();
    }
    return {};
  }

  Result<> LoadTop(int64_t i, TokenEvidence* token) {
    if (top_k_ == 0) return {};
    top_ids_.clear();
    top_logprobs_.clear();
    for (int32_t j = 0; j < top_k_; ++j) {
      const auto at = static_cast<size_t>(i * top_k_ + j);
      if (columns_.top_ids[at] == -1) break;  // a shorter list
      KCC_TRY(const int32_t id, TokenIdFrom(columns_.top_ids[at], [&] {
                return Element("top_ids", i) + ", entry " + std::to_string(j);
              }));
      top_ids_.push_back(id);
      top_logprobs_.push_back(static_cast<float>(columns_.top_logprobs[at]));
    }
    token->top_ids = top_ids_.data();
    token->top_logprobs = top_logprobs_.data();
    token->top_k = static_cast<int32_t>(top_ids_.size());
    return {};
  }

  const NpyArrays& arrays_;
  std::vector<Request> requests_;
  const ImportOptions& options_;
  ImportReport report_;
  Columns columns_;
  std::vector<int64_t> lead_;  // shape of 'token'
  int64_t count_ = 0;
  const NpyArray* logits_ = nullptr;
  int64_t width_ = 0;
  int64_t vocab_size_ = 0;
  int32_t top_k_ = 0;
  DType stored_ = DType::kF32;
  FileWindow window_;
  std::vector<float> converted_;
  std::vector<int32_t> top_ids_;
  std::vector<float> top_logprobs_;
};

}  // namespace

Result<ImportReport> ImportNpy(ImportInputs inputs, const std::string& output,
                               const ImportOptions& options) {
  std::vector<std::string> files;
  std::vector<Request> requests;
  for (const std::string& input : inputs) {
    if (input.ends_with(".jsonl")) {
      KCC_TRY(requests, ReadRequests(input));
    } else {
      files.push_back(input);
    }
  }
  if (files.empty()) return InvalidError("give an .npz file, or .npy files named by array");
  KCC_TRY(const NpyArrays arrays, NpyArrays::Open(files));
  auto report = ArrayImport(arrays, std::move(requests), options).Run(output);
  if (!report.has_value()) return std::move(report.error()).At(Place{files[0]});
  return report;
}

}  // namespace kcc
