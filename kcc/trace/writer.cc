#include "kcc/trace/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <unordered_set>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/temporary.h"
#include "kcc/format/safetensors.h"
#include "kcc/trace/evidence_check.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

// Room for the header before the logits, which are written before the number of rows is known.
constexpr size_t kHeaderRoomBytes = 4096;
// Small columns wait in memory for the end of their file.
constexpr size_t kColumnBytesMax = size_t{128} << 20;
constexpr size_t kWriteBufferBytes = size_t{1} << 20;
constexpr size_t kDirectWriteBytes = size_t{64}
                                     << 10;  // from here on a copy costs more than a call
constexpr int64_t kWritebackBytes = int64_t{32} << 20;

template <class T>
void Append(std::string* column, const T& value) {
  column->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

class OutputFile {
 public:
  ~OutputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  // Errors name the file by `shown`, where it is going to stand.
  Result<> Open(const std::string& path, std::string shown, bool durable) {
    path_ = std::move(shown);
    durable_ = durable;
    written_ = sent_ = 0;
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return descriptor_ >= 0 ? Result<>() : Failure("cannot create");
  }
  bool is_open() const { return descriptor_ >= 0; }

  Result<> Write(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > kWriteBufferBytes) KCC_TRY_VOID(Flush());
    if (bytes.size() >= kDirectWriteBytes) {
      KCC_TRY_VOID(Flush());
      return WriteNow(bytes);
    }
    buffer_ += bytes;
    return {};
  }

  // Overwrites the start of the file.
  Result<> WriteFront(std::string_view bytes) {
    KCC_TRY_VOID(Flush());
    if (::lseek(descriptor_, 0, SEEK_SET) < 0) return Failure("cannot seek");
    return WriteNow(bytes);
  }

  Result<> SyncAndClose() {
    KCC_TRY_VOID(Flush());
    if (durable_ && ::fsync(descriptor_) != 0) return Failure("cannot write");
    if (::close(std::exchange(descriptor_, -1)) != 0) return Failure("cannot write");
    return {};
  }

 private:
  Error Failure(const std::string& what) const {
    return IoError(what + ": " + std::strerror(errno), Place{path_});
  }
  Result<> Flush() {
    KCC_TRY_VOID(WriteNow(buffer_));
    buffer_.clear();
    return {};
  }
  Result<> WriteNow(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Failure("cannot write");
      bytes.remove_prefix(static_cast<size_t>(n));
      written_ += n;
    }
    StartWriteback();
    return {};
  }

  // What is written goes to the disk while more is made, so that the sync at the end finds little
  // left to do. Only a hint: that sync is what counts.
  void StartWriteback() {
    if (!durable_ || written_ - sent_ < kWritebackBytes) return;
    (void)::sync_file_range(descriptor_, sent_, written_ - sent_, SYNC_FILE_RANGE_WRITE);
    sent_ = written_;
  }

  std::string path_;
  bool durable_ = true;
  int64_t written_ = 0;  // to the file
  int64_t sent_ = 0;     // of that, on its way to the disk
  int descriptor_ = -1;
  std::string buffer_;
};

// Whatever stands there, a link to nothing included, is not replaced unless it was asked for; and
// then it must be a directory.
Result<> CheckTarget(const std::filesystem::path& target, bool replace) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::symlink_status(target, failure);
  if (!std::filesystem::exists(status)) return {};
  if (!replace) {
    return InvalidError("exists already; choose another name or ask to replace it",
                        Place{target.string()});
  }
  if (std::filesystem::is_directory(status)) return {};
  return InvalidError("is not a directory, so a trace cannot replace it", Place{target.string()});
}

std::string ParentOf(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

}  // namespace

// A trace is made in a temporary directory beside its place and renamed when it is whole. Until
// then nothing stands under its name, and what was there stays.
//
// A tokens file is written in one pass, though its header comes first and names the number of rows:
// kPrefixBytes are kept free, the logits follow as they come, the small columns wait in memory and
// are written behind them, and the header is written last into the free room.
struct TraceWriter::State {
  std::filesystem::path target;
  Temporary folder;  // beside the target
  TraceInfo info;
  Options options;
  std::unordered_set<std::string> ids;
  int32_t requests = 0;
  int64_t tokens = 0;
  OutputFile requests_file;

  OutputFile tokens_file;
  size_t files = 0;
  int64_t rows = 0;  // of the current file
  int64_t logits_bytes = 0;
  std::string request, position, token, top_ids, top_logprobs, logprob, advantage, mask, gold;

  Result<> Open(const std::string& name, OutputFile* file) const {
    return file->Open(folder.path() + "/" + name, (target / name).string(), !options.scratch);
  }
  bool stores_logits() const { return info.evidence == EvidenceLevel::kLogits; }
  bool stores_top() const { return options.top_k > 0; }
  size_t row_bytes() const {
    return static_cast<size_t>(options.logits_width) * DTypeBits(options.logits_dtype) / 8;
  }
  // Rows of 16-bit logits are stored with an even width, so that the I32 columns behind them are
  // aligned whatever the number of rows. The extra entry lies beyond vocab_size and is never read.
  bool pads_row() const { return row_bytes() % 4 != 0; }
  size_t column_bytes() const {
    return request.size() + position.size() + token.size() + top_ids.size() + top_logprobs.size() +
           logprob.size() + advantage.size() + mask.size() + gold.size();
  }

  Result<> IntoPlace();
  Result<> OpenTokens();
  Result<> CloseTokens();
  Result<> AppendRow(const TokenEvidence& evidence);
};

// rename(2) does not replace a directory that has something in it, so two are exchanged.
Result<> TraceWriter::State::IntoPlace() {
  const Place place{target.string()};
  const auto failure = [&](const char* what) {
    return IoError(std::string(what) + ": " + std::strerror(errno), place);
  };
  if (options.replace) {
    if (folder.ExchangeWith(target.string())) {
      folder = Temporary();  // the old one goes
      return {};
    }
    if (errno != ENOENT) return failure("cannot replace");
  }
  if (folder.RenameTo(target.string())) return {};
  const bool taken = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR;
  if (taken)
    return InvalidError("was made by another process meanwhile; choose another name", place);
  return failure("cannot rename into place");
}

Result<> TraceWriter::State::OpenTokens() {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "tokens-%05zu.safetensors", files++);
  KCC_TRY_VOID(Open(name.data(), &tokens_file));
  return tokens_file.Write(std::string(kHeaderRoomBytes, ' '));
}

Result<> TraceWriter::State::CloseTokens() {
  if (!tokens_file.is_open()) return {};
  std::vector<TensorInfo> tensors;
  if (stores_logits()) {
    tensors.push_back(
        {"logits", options.logits_dtype, {rows, options.logits_width + (pads_row() ? 1 : 0)}});
  }
  const auto add = [&](const char* name, DType dtype, std::string* column,
                       int64_t width) -> Result<> {
    if (column->empty() && rows > 0) return {};  // a column this trace does not have
    std::vector<int64_t> shape = {rows};
    if (width > 0) shape.push_back(width);
    tensors.push_back({name, dtype, std::move(shape)});
    KCC_TRY_VOID(tokens_file.Write(*column));
    column->clear();
    return {};
  };
  KCC_TRY_VOID(add("request", DType::kI32, &request, 0));
  KCC_TRY_VOID(add("position", DType::kI32, &position, 0));
  KCC_TRY_VOID(add("token", DType::kI32, &token, 0));
  KCC_TRY_VOID(add("top_ids", DType::kI32, &top_ids, options.top_k));
  KCC_TRY_VOID(add("top_logprobs", DType::kF32, &top_logprobs, options.top_k));
  KCC_TRY_VOID(add("logprob", DType::kF32, &logprob, 0));
  KCC_TRY_VOID(add("advantage", DType::kF32, &advantage, 0));
  KCC_TRY_VOID(add("gold", DType::kI32, &gold, 0));
  KCC_TRY_VOID(add("mask", DType::kU8, &mask, 0));
  const std::string prefix =
      SafetensorsPrefix(tensors, {{"format", "kcc trace 1"}}, kHeaderRoomBytes);
  KCC_CHECK(prefix.size() == kHeaderRoomBytes);
  KCC_TRY_VOID(tokens_file.WriteFront(prefix));
  KCC_TRY_VOID(tokens_file.SyncAndClose());
  rows = 0;
  logits_bytes = 0;
  return {};
}

Result<> TraceWriter::State::AppendRow(const TokenEvidence& evidence) {
  if (stores_logits()) {
    KCC_CHECK(evidence.logits != nullptr && evidence.logits_dtype == options.logits_dtype);
    KCC_TRY_VOID(tokens_file.Write({static_cast<const char*>(evidence.logits), row_bytes()}));
    if (pads_row()) KCC_TRY_VOID(tokens_file.Write(std::string_view("\0\0", 2)));
    logits_bytes += static_cast<int64_t>(row_bytes());
  }
  Append(&request, evidence.request);
  Append(&position, evidence.position);
  Append(&token, evidence.token);
  if (stores_top()) {
    for (int32_t i = 0; i < options.top_k; ++i) {
      const bool has = i < evidence.top_k;
      Append(&top_ids, has ? evidence.top_ids[i] : int32_t{-1});
      Append(&top_logprobs,
             has ? evidence.top_logprobs[i] : -std::numeric_limits<float>::infinity());
    }
  }
  if (options.logprob) Append(&logprob, static_cast<float>(evidence.logprob));
  if (options.advantage) Append(&advantage, evidence.advantage);
  if (options.gold) Append(&gold, evidence.gold);
  if (options.mask) Append(&mask, static_cast<uint8_t>(evidence.masked ? 0 : 1));
  ++rows;
  ++tokens;
  return {};
}

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

Result<TraceWriter> TraceWriter::Create(const std::string& directory, TraceInfo info,
                                        Options options) {
  auto state = std::make_unique<State>();
  state->target = std::filesystem::path(directory).lexically_normal();
  if (!state->target.has_filename()) state->target = state->target.parent_path();
  KCC_TRY_VOID(CheckTarget(state->target, options.replace));
  if (info.vocab_size > kVocabSizeMax) {
    return InvalidError("the vocabulary of " + std::to_string(info.vocab_size) +
                            " tokens is larger than a trace may have, " +
                            std::to_string(kVocabSizeMax),
                        Place{directory});
  }
  if (options.logits_width == 0) options.logits_width = info.vocab_size;
  if (info.evidence == EvidenceLevel::kTopK && options.top_k < 1) {
    return InvalidError("top-k evidence needs a k of at least 1", Place{directory});
  }
  // It is all that such a trace has.
  if (info.evidence == EvidenceLevel::kSampledToken) options.logprob = true;
  if (info.kernel_fingerprint.empty()) {
    return InvalidError("the kernel's fingerprint is missing: name the build that was measured",
                        Place{directory});
  }
  KCC_TRY(state->folder, Temporary::Make(ParentOf(state->target), Temporary::Kind::kDirectory,
                                         /*mode=*/0777));
  state->info = std::move(info);
  state->info.format = kTraceFormat;
  state->options = options;
  KCC_TRY_VOID(state->Open("requests.jsonl", &state->requests_file));
  return TraceWriter(std::move(state));
}

Result<int32_t> TraceWriter::AddRequest(const Request& request) {
  if (request.id.empty()) return InvalidError("a request needs an id");
  if (const auto checked = CheckRequest(request); !checked.has_value()) {
    return InvalidError("request '" + request.id + "': " + checked.error().message());
  }
  if (!state_->ids.insert(request.id).second) {
    return InvalidError("the request id '" + request.id + "' is used twice; ids must be unique");
  }
  KCC_TRY_VOID(state_->requests_file.Write(RequestJson(request) + "\n"));
  return state_->requests++;
}

Result<> TraceWriter::AddToken(const TokenEvidence& token) {
  State& state = *state_;
  if (token.request < 0 || token.request >= state.requests) {
    return BrokenEvidenceError("the token names request row " + std::to_string(token.request) +
                               ", which was not added");
  }
  KCC_TRY_VOID(state.options.rows_checked ? CheckEvidenceScalars(EvidenceLimits(state.info), token)
                                          : CheckEvidenceRow(EvidenceLimits(state.info), token));
  // The first row that finds a file at its limit, or the columns at the memory set aside for them,
  // starts the next file; a row is never split.
  if (state.tokens_file.is_open() &&
      (state.logits_bytes + static_cast<int64_t>(state.column_bytes()) >=
           state.options.file_bytes_max ||
       state.column_bytes() >= kColumnBytesMax)) {
    KCC_TRY_VOID(state.CloseTokens());
  }
  if (!state.tokens_file.is_open()) KCC_TRY_VOID(state.OpenTokens());
  return state.AppendRow(token);
}

Result<> TraceWriter::Finish() {
  State& state = *state_;
  const Place place{state.target.string()};
  if (state.requests == 0) return BrokenEvidenceError("no request was written", place);
  if (state.tokens == 0 && state.info.evidence != EvidenceLevel::kNone) {
    return BrokenEvidenceError("no token was written: the input holds no evidence that counts",
                               place);
  }
  KCC_TRY_VOID(state.CloseTokens());
  KCC_TRY_VOID(state.requests_file.SyncAndClose());
  state.info.requests = state.requests;
  state.info.tokens = state.tokens;
  // In a directory that nobody knows yet, so it need not appear at once.
  OutputFile info_file;
  KCC_TRY_VOID(state.Open("trace.json", &info_file));
  KCC_TRY_VOID(info_file.Write(TraceInfoJson(state.info)));
  KCC_TRY_VOID(info_file.SyncAndClose());
  if (!state.options.scratch) SyncDirectory(state.folder.path());
  KCC_TRY_VOID(state.IntoPlace());
  if (!state.options.scratch) SyncDirectory(ParentOf(state.target));
  return {};
}

}  // namespace kcc
