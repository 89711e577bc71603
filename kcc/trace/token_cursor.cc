// TokenCursor: one sliding window per tensor. Rows of a tensor are contiguous, so a window that
// starts at the asked row and spans as many whole rows as it may serves the rows that follow.

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/trace/reader.h"

namespace kcc {
namespace {

// One tensor seen through its window.
// Invariant: a pointer that Row gave is valid until Row of the same column maps again. Evidence of
// a token therefore lives until the next At or Next, which is what the header promises.
class Column {
 public:
  void Attach(const MappedFile* file, const TensorInfo* tensor, int64_t rows, size_t window_bytes) {
    file_ = file;
    tensor_ = tensor;
    window_ = FileWindow();
    row_bytes_ = rows > 0 ? (tensor->end - tensor->begin) / rows : 0;
    window_bytes_ = window_bytes;
  }
  void Detach() {
    tensor_ = nullptr;
    window_ = FileWindow();
  }
  bool attached() const { return tensor_ != nullptr; }
  const TensorInfo& tensor() const { return *tensor_; }

  // The bytes of a row of the file.
  Result<const std::byte*> Row(int64_t row) {
    const int64_t offset = tensor_->begin + row * row_bytes_;
    // A row is whole within a window: kVocabSizeMax sees to it that one fits.
    const auto size = static_cast<size_t>(row_bytes_);
    if (window_.Holds(offset, size)) return window_.At(offset);
    const auto rows_in_window = static_cast<int64_t>(std::max<size_t>(window_bytes_ / size, 1));
    const int64_t end = std::min(tensor_->end, offset + rows_in_window * row_bytes_);
    window_ = FileWindow();  // unmapped first, so that two windows never stand side by side
    KCC_TRY(window_, file_->Map(offset, static_cast<size_t>(end - offset)));
    return window_.At(offset);
  }

  template <class T>
  Result<> Load(int64_t row, T* value) {
    KCC_TRY(const std::byte* bytes, Row(row));
    std::memcpy(value, bytes, sizeof(T));
    return {};
  }

 private:
  const MappedFile* file_ = nullptr;
  const TensorInfo* tensor_ = nullptr;
  FileWindow window_;
  int64_t row_bytes_ = 0;
  size_t window_bytes_ = 0;
};

}  // namespace

struct TokenCursor::State {
  const TraceReader* reader = nullptr;
  Options options;
  size_t file = std::numeric_limits<size_t>::max();
  int64_t next_row = 0;
  Column request, position, token, logits, top_ids, top_logprobs, logprob, advantage, mask, gold;
  TokenEvidence evidence;

  // Each column has its own window, and small columns get small ones: a cursor over logits holds
  // one large mapping and a few small ones, whatever the number of columns.
  void Enter(size_t index) {
    file = index;
    const TokenFile& tokens = reader->files()[index];
    const auto attach = [&](Column& column, const TensorInfo& tensor, size_t window_bytes) {
      column.Attach(&tokens.file, &tensor, tokens.rows, std::min(window_bytes, kWindowBytesMax));
    };
    const auto attach_if = [&](Column& column, const std::optional<TensorInfo>& tensor,
                               size_t window_bytes) {
      column.Detach();
      if (tensor) attach(column, *tensor, window_bytes);
    };
    attach(request, tokens.request, options.column_window_bytes);
    attach(position, tokens.position, options.column_window_bytes);
    attach(token, tokens.token, options.column_window_bytes);
    attach_if(mask, tokens.mask, options.column_window_bytes);
    if (options.index_only) return;
    attach_if(logits, tokens.logits, options.window_bytes);
    attach_if(top_ids, tokens.top_ids, options.column_window_bytes);
    attach_if(top_logprobs, tokens.top_logprobs, options.column_window_bytes);
    attach_if(logprob, tokens.logprob, options.column_window_bytes);
    attach_if(advantage, tokens.advantage, options.column_window_bytes);
    attach_if(gold, tokens.gold, options.column_window_bytes);
  }

  void Find(int64_t row) {
    const auto& files = reader->files();
    if (file < files.size() && row >= files[file].first_row &&
        row < files[file].first_row + files[file].rows) {
      return;
    }
    // The file whose first row is the last at or before this one; empty files are passed over.
    const auto after = std::upper_bound(
        files.begin(), files.end(), row,
        [](int64_t value, const TokenFile& candidate) { return value < candidate.first_row; });
    size_t index = static_cast<size_t>(after - files.begin()) - 1;
    while (files[index].rows == 0) --index;
    Enter(index);
  }

  Result<> Load(int64_t row) {
    Find(row);
    const int64_t local = row - reader->files()[file].first_row;
    evidence = TokenEvidence();
    KCC_TRY_VOID(request.Load(local, &evidence.request));
    KCC_TRY_VOID(position.Load(local, &evidence.position));
    KCC_TRY_VOID(token.Load(local, &evidence.token));
    if (mask.attached()) {
      uint8_t counts = 1;
      KCC_TRY_VOID(mask.Load(local, &counts));
      evidence.masked = counts == 0;
    }
    if (options.index_only) return {};
    if (logits.attached()) {
      KCC_TRY(evidence.logits, logits.Row(local));
      evidence.logits_dtype = logits.tensor().dtype;
    }
    if (top_ids.attached()) KCC_TRY_VOID(LoadTopK(local));
    if (logprob.attached()) {
      float recorded = 0;
      KCC_TRY_VOID(logprob.Load(local, &recorded));
      evidence.logprob = static_cast<double>(recorded);
    }
    if (advantage.attached()) KCC_TRY_VOID(advantage.Load(local, &evidence.advantage));
    if (gold.attached()) KCC_TRY_VOID(gold.Load(local, &evidence.gold));
    return {};
  }

  Result<> LoadTopK(int64_t local) {
    KCC_TRY(const std::byte* ids, top_ids.Row(local));
    KCC_TRY(const std::byte* logprobs, top_logprobs.Row(local));
    evidence.top_ids = reinterpret_cast<const int32_t*>(ids);
    evidence.top_logprobs = reinterpret_cast<const float*>(logprobs);
    evidence.top_k = static_cast<int32_t>(top_ids.tensor().shape[1]);
    // Lists have one width in the file; -1 fills up the shorter ones.
    while (evidence.top_k > 0 && evidence.top_ids[evidence.top_k - 1] < 0) --evidence.top_k;
    return {};
  }
};

TokenCursor::TokenCursor(const TraceReader& reader, Options options)
    : state_(std::make_unique<State>()) {
  state_->reader = &reader;
  state_->options = options;
}

TokenCursor::TokenCursor(TokenCursor&&) noexcept = default;
TokenCursor& TokenCursor::operator=(TokenCursor&&) noexcept = default;
TokenCursor::~TokenCursor() = default;

Result<const TokenEvidence*> TokenCursor::At(int64_t row) {
  KCC_CHECK(row >= 0 && row < state_->reader->token_count());
  KCC_TRY_VOID(state_->Load(row));
  // Also after a row whose request is wrong: it was read.
  state_->next_row = row + 1;
  const TokenEvidence& evidence = state_->evidence;
  if (evidence.request < 0 ||
      static_cast<size_t>(evidence.request) >= state_->reader->requests().size()) {
    return BrokenEvidenceError(
        "names request row " + std::to_string(evidence.request) + ", but requests.jsonl has " +
            std::to_string(state_->reader->requests().size()),
        Place{state_->reader->directory() + "/" + state_->reader->RowPlace(row)});
  }
  return &evidence;
}

Result<const TokenEvidence*> TokenCursor::Next() {
  if (state_->next_row >= state_->reader->token_count()) {
    return static_cast<const TokenEvidence*>(nullptr);
  }
  return At(state_->next_row);
}

}  // namespace kcc
