#include "kcc/measure/device_source.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

namespace kcc {
namespace {

// Of both sides' rows: large enough to keep a device busy, small enough for a thread's share.
constexpr size_t kPieceBytes = size_t{64} << 20;

// Rows of files lie on no device yet: the first one, which is also what a new thread has.
constexpr DevicePlace kDeviceOfFiles{.index = 0};

// Two readers of one source: `rows_` hands out, `ahead_` is up to a piece before it. Invariant:
// rows [0, measured_) of what was announced have been through `ahead_`, and of these [0, given_)
// through `rows_`; the outcomes of the piece are those from piece_begin_ on. Where `ahead_` finds
// broken evidence it stops, and says nothing: `rows_` will come to the same place and say it.
class DeviceRows final : public PairRows {
 public:
  DeviceRows(const PairSource& source, const RowDevice& device, const SlotSet& wanted)
      : settings_(source.settings()),
        device_(device),
        wanted_(wanted),
        rows_(source.Rows()),
        ahead_(source.Rows()) {}

  void Announce(std::span<const int32_t> requests) override {
    announced_ = requests;
    held_.reset();
    ahead_request_ = 0;
    ahead_begun_ = ahead_stopped_ = false;
    measured_ = given_ = piece_begin_ = 0;
    run_.reset();
  }
  void Seek(size_t request) override { rows_->Seek(request); }

  Result<RowPairView> Next() override {
    KCC_TRY(RowPairView view, rows_->Next());
    if (view.infer == nullptr) return view;
    if (given_ == measured_) KCC_TRY_VOID(MeasurePiece());
    // Not measured: `ahead_` stopped here. The CPU's kernels say what they think of the row.
    if (given_ < measured_) {
      TokenDrift drift;
      if (run_->Get(given_ - piece_begin_, &drift)) {
        drift_ = drift;
        view.measured = &drift_;
      }
      ++given_;
    }
    return view;
  }

 private:
  // The next row to be measured; null: there is none.
  RowPairView ReadAhead() {
    while (!ahead_stopped_ && ahead_request_ < announced_.size()) {
      if (!ahead_begun_) {
        ahead_->Seek(static_cast<size_t>(announced_[ahead_request_]));
        ahead_begun_ = true;
      }
      const Result<RowPairView> view = ahead_->Next();
      if (!view || (view->infer != nullptr && !HoldsLogits(*view))) {
        ahead_stopped_ = true;
        break;
      }
      if (view->infer != nullptr) return *view;
      ++ahead_request_;
      ahead_begun_ = false;
    }
    return {};
  }
  static bool HoldsLogits(const RowPairView& view) {
    return view.train->logits != nullptr && view.infer->logits != nullptr;
  }

  // Reads rows of one pair of formats until the piece is full, and measures them. A row of other
  // formats that ended the piece before begins this one.
  Result<> MeasurePiece() {
    train_.clear();
    infer_.clear();
    tokens_.clear();
    piece_begin_ = measured_;
    RowBlock block;
    while (train_.size() + infer_.size() < kPieceBytes) {
      const RowPairView view = held_ ? *held_ : ReadAhead();
      held_.reset();
      if (view.infer == nullptr) break;
      if (tokens_.empty()) {
        block.train_dtype = view.train->logits_dtype;
        block.infer_dtype = view.infer->logits_dtype;
      } else if (block.train_dtype != view.train->logits_dtype ||
                 block.infer_dtype != view.infer->logits_dtype) {
        held_ = view;  // its views live until `ahead_` is asked again
        break;
      }
      Append(view.train->logits, block.train_dtype, &train_);
      Append(view.infer->logits, block.infer_dtype, &infer_);
      tokens_.push_back(view.infer->token);
    }
    if (tokens_.empty()) return {};
    block.train = train_.data();
    block.infer = infer_.data();
    block.vocab = block.train_stride = block.infer_stride = settings_.vocab_size;
    block.rows = static_cast<int64_t>(tokens_.size());
    block.temperature = settings_.logit_divisor;
    block.tokens = tokens_;
    block.on_host = true;
    run_.reset();
    KCC_TRY(run_, device_.Begin(wanted_, block.rows, kDeviceOfFiles));
    KCC_TRY_VOID(run_->Add(block));
    KCC_TRY_VOID(run_->Wait());
    measured_ += block.rows;
    return {};
  }

  void Append(const void* row, DType dtype, std::vector<std::byte>* to) const {
    const size_t bytes = static_cast<size_t>(settings_.vocab_size) * DTypeBits(dtype) / 8;
    const auto* from = static_cast<const std::byte*>(row);
    to->insert(to->end(), from, from + bytes);
  }

  const MeterSettings settings_;
  const RowDevice& device_;
  const SlotSet wanted_;
  const std::unique_ptr<PairRows> rows_;
  const std::unique_ptr<PairRows> ahead_;
  std::span<const int32_t> announced_;
  size_t ahead_request_ = 0;
  bool ahead_begun_ = false;    // the request has been sought
  bool ahead_stopped_ = false;  // at broken evidence
  std::optional<RowPairView> held_;
  int64_t measured_ = 0;
  int64_t given_ = 0;
  int64_t piece_begin_ = 0;
  std::vector<std::byte> train_;
  std::vector<std::byte> infer_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<DeviceRun> run_;
  Result<TokenDrift> drift_ = TokenDrift();
};

}  // namespace

DeviceSource::DeviceSource(const PairSource& source, const RowDevice& device, const SlotSet& wanted)
    : source_(source), device_(device), wanted_(wanted) {}

std::unique_ptr<PairRows> DeviceSource::Rows() const {
  return std::make_unique<DeviceRows>(source_, device_, wanted_);
}

}  // namespace kcc
