#include "kcc/device/cuda_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/device/cuda_library.h"
#include "kcc/drift/c_dtype.h"
#include "kcc/drift/row_check.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

// The library lives in another file, perhaps of another version, and computes on memory that is not
// ours. So nothing it says is taken on trust: values are found by name, ranges and relations
// between quantities are checked for each row (Get), and a row that fails is left to the CPU. A
// wrong number would be a wrong verdict; a row too many on the CPU costs time.

// Which of the library's values is which slot, and which are about the sampled token and the
// likeliest ones. By name, so that the two libraries need not number them alike.
struct ValueNumbers {
  int count = 0;
  std::vector<std::pair<int, size_t>> slots;  // value, slot
  SlotSet given;                              // of these slots and of what follows from the token
  int log_ratio = -1;
  std::array<int, 2> logprob = {-1, -1};  // by side
  std::array<int, 2> confidence = {-1, -1};

  bool complete() const {
    return log_ratio >= 0 && logprob[0] >= 0 && logprob[1] >= 0 && confidence[0] >= 0 &&
           confidence[1] >= 0;
  }
};

std::optional<size_t> FindSlot(std::string_view name) {
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (SlotName(slot) == name) return slot;
  }
  return std::nullopt;
}

Error Silent() {
  return IoError(
      "libkcc_cuda.so says that it succeeded and gives nothing; build it and libkcc from one "
      "checkout");
}

// The library's number of a value; -1: it has none of that name.
int NumberOf(const CudaLibrary& library, std::string_view name) {
  for (int value = 0; value < library.values(); ++value) {
    const char* const text = library.value_name(value);
    if (text != nullptr && name == text) return value;
  }
  return -1;
}

Result<ValueNumbers> NumbersOf(const CudaLibrary& library) {
  ValueNumbers numbers;
  numbers.count = library.values();
  numbers.log_ratio = NumberOf(library, "log_ratio");
  numbers.logprob[kInfer] = NumberOf(library, "logprob");
  numbers.logprob[kTrain] = NumberOf(library, "train_logprob");
  numbers.confidence[kInfer] = NumberOf(library, "confidence");
  numbers.confidence[kTrain] = NumberOf(library, "train_confidence");
  numbers.given = SampledTokenSlots();
  for (int value = 0; value < numbers.count; ++value) {
    const char* const text = library.value_name(value);
    const std::string_view name = text == nullptr ? "" : text;
    const std::optional<size_t> slot = FindSlot(name);
    // What follows from the sampled token is taken from its log-probs, as on the CPU.
    if (!slot || SlotQuantity(*slot).evidence == EvidenceNeeded::kSampledToken) continue;
    numbers.slots.emplace_back(value, *slot);
    numbers.given.set(*slot);
  }
  if (numbers.complete()) return numbers;
  return IoError(library.path + " does not give the sampled token's log-probs or a confidence");
}

unsigned WantedOf(const SlotSet& wanted) {
  static const std::array<size_t, 2> lists = {TokenSlot("top5_overlap"),
                                              TokenSlot("top10_overlap")};
  static const size_t square = TokenSlot("reverse_chi2");
  unsigned flags = 0;
  if (wanted[lists[0]] || wanted[lists[1]]) flags |= KCC_CUDA_TOP_K;
  if (wanted[square]) flags |= KCC_CUDA_REVERSE_CHI2;
  if ((wanted & OnDemandSlots()).any()) flags |= KCC_CUDA_ON_DEMAND;
  return flags;
}

bool IsOfToken(size_t slot) {
  static const std::array<size_t, 2> ranks = {TokenSlot("rank"), TokenSlot("train_rank")};
  return slot == ranks[0] || slot == ranks[1];
}

Result<> ToResult(const char* problem) {
  if (problem == nullptr) return {};
  return IoError("CUDA: " + std::string(problem));
}

// A session holds streams and buffers on the device, which take milliseconds to make, so it is used
// by one run after another. free_ has room for all sessions there ever were: Give runs in a
// destructor, where an allocation that fails would end the process.
//
// Sessions that no run has at the moment, by device number.
class SessionPool {
 public:
  explicit SessionPool(const CudaLibrary& library) : library_(library) {}
  ~SessionPool() {
    for (const auto& [index, session] : free_) library_.session_free(session);
  }
  SessionPool(const SessionPool&) = delete;
  SessionPool& operator=(const SessionPool&) = delete;

  Result<kcc_cuda_session*> Take(int index) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(free_.begin(), free_.end(),
                                      [&](const auto& one) { return one.first == index; });
      if (found != free_.end()) {
        kcc_cuda_session* const session = found->second;
        free_.erase(found);
        return session;
      }
      free_.reserve(free_.size() + out_ + 1);  // so that Give need not allocate
      ++out_;
    }
    kcc_cuda_session* session = nullptr;
    KCC_TRY_VOID(ToResult(library_.session_new(index, &session)));
    if (session == nullptr) return Silent();
    return session;
  }
  void Give(int index, kcc_cuda_session* session) noexcept {
    const std::lock_guard lock(mutex_);
    // One for the device that was current is not for the one that will be.
    if (index < 0 || free_.size() == free_.capacity()) {
      library_.session_free(session);
      return;
    }
    free_.emplace_back(index, session);
  }

 private:
  const CudaLibrary& library_;
  std::mutex mutex_;
  size_t out_ = 0;  // sessions that were ever made
  std::vector<std::pair<int, kcc_cuda_session*>> free_;
};

class CudaRun final : public DeviceRun {
 public:
  CudaRun(const CudaLibrary& library, const ValueNumbers& numbers, SessionPool* pool, int index,
          kcc_cuda_session* session, const SlotSet& wanted)
      : library_(library),
        numbers_(numbers),
        pool_(*pool),
        index_(index),
        session_(session),
        wanted_(wanted) {}
  // A run that is given up still reads the caller's tensors: they may go only when it has ended.
  ~CudaRun() override {
    if (!waited_) static_cast<void>(library_.session_wait(session_, &values_, &argmax_, &status_));
    pool_.Give(index_, session_);
  }

  Result<> Add(const RowBlock& block) override {
    KCC_CHECK(block.tokens.empty() || block.tokens.size() == static_cast<size_t>(block.rows));
    const std::optional<kcc_dtype> train = CDTypeOf(block.train_dtype);
    const std::optional<kcc_dtype> infer = CDTypeOf(block.infer_dtype);
    if (!train || !infer) return InvalidError("logits of a format that the device does not read");
    kcc_cuda_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.train = {block.train, *train, block.train_stride};
    rows.infer = {block.infer, *infer, block.infer_stride};
    rows.rows = block.rows;
    rows.vocab_size = block.vocab;
    rows.temperature = block.temperature;
    rows.wanted = WantedOf(wanted_);
    rows.tokens = block.tokens.empty() ? nullptr : block.tokens.data();
    KCC_TRY_VOID(ToResult(library_.session_add(session_, &rows, block.on_host ? 1 : 0)));
    // Only what the device has taken is remembered, so that Get cannot ask beyond it.
    blocks_.push_back({rows_, block.rows});
    rows_ += block.rows;
    vocab_ = block.vocab;
    if (block.tokens.empty()) {
      tokens_.insert(tokens_.end(), static_cast<size_t>(block.rows), -1);
    } else {
      tokens_.insert(tokens_.end(), block.tokens.begin(), block.tokens.end());
    }
    return {};
  }

  Result<> Wait() override {
    waited_ = true;
    KCC_TRY_VOID(ToResult(library_.session_wait(session_, &values_, &argmax_, &status_)));
    if (rows_ > 0 && (values_ == nullptr || argmax_ == nullptr || status_ == nullptr)) {
      return Silent();
    }
    return {};
  }

  bool Get(int64_t row, TokenDrift* to) const override;

  Result<> Read(const void* from, size_t bytes, void* to) const override {
    const std::lock_guard lock(mutex_);
    return ToResult(library_.session_read(session_, from, bytes, to));
  }

 private:
  struct Block {
    int64_t first;
    int64_t rows;
  };
  const Block& BlockOf(int64_t row) const {
    const auto after =
        std::upper_bound(blocks_.begin(), blocks_.end(), row,
                         [](int64_t at, const Block& block) { return at < block.first; });
    KCC_CHECK(row >= 0 && row < rows_ && after != blocks_.begin());
    return *(after - 1);
  }

  const CudaLibrary& library_;
  const ValueNumbers& numbers_;
  SessionPool& pool_;
  const int index_;
  kcc_cuda_session* const session_;
  const SlotSet wanted_;
  std::vector<Block> blocks_;
  std::vector<int32_t> tokens_;
  int64_t rows_ = 0;
  int64_t vocab_ = 0;
  bool waited_ = false;
  mutable std::mutex mutex_;  // of the session, after Wait
  const double* values_ = nullptr;
  const int32_t* argmax_ = nullptr;
  const int32_t* status_ = nullptr;
};

// How far a token's log-ratio may lie from the difference of its log-probs.
constexpr double kLogRatioSlack = 1e-5;

// A value that cannot be, or that contradicts another one, is a mistake of the device's: the row is
// then the CPU's. What was not asked for speaks too, where the device gave it.
bool CudaRun::Get(int64_t row, TokenDrift* to) const {
  const Block& block = BlockOf(row);
  const int64_t in_block = row - block.first;
  const int32_t status = status_[row];
  if (status != KCC_CUDA_ROW_FAST && status != KCC_CUDA_ROW_CAREFUL) return false;
  const auto value = [&](int number) {
    return values_[block.first * numbers_.count + number * block.rows + in_block];
  };
  const int32_t token = tokens_[static_cast<size_t>(row)];
  *to = TokenDrift();
  TokenDrift given;
  for (const auto& [number, slot] : numbers_.slots) {
    if (token < 0 && IsOfToken(slot)) continue;
    const double got = value(number);
    if (std::isnan(got)) {
      if (wanted_[slot]) return false;
      continue;
    }
    const Quantity& quantity = SlotQuantity(slot);
    if (got < quantity.min || got > quantity.max) return false;
    given.Set(slot, got);
    if (wanted_[slot]) to->Set(slot, got);
  }
  if (!CheckRow(given)) return false;
  for (const size_t side : {kInfer, kTrain}) {
    // Infer's argmax lies before train's.
    const int32_t top = argmax_[2 * block.first + (side == kTrain ? block.rows : 0) + in_block];
    const double confidence = value(numbers_.confidence[side]);
    if (top < 0 || top >= vocab_ || !(confidence >= 0 && confidence <= 1)) return false;
    to->argmax[side] = top;
    to->confidence[side] = confidence;
  }
  if (token >= 0) {
    const Result<SampledToken> checked =
        SampledTokenFromLogprobs(value(numbers_.logprob[kTrain]), value(numbers_.logprob[kInfer]));
    if (!checked) return false;
    SampledToken sampled = *checked;
    const double gap = sampled.train_logprob - sampled.infer_logprob;
    sampled.log_ratio = value(numbers_.log_ratio);
    const double slack =
        kLogRatioSlack * (1 + std::fabs(sampled.train_logprob) + std::fabs(sampled.infer_logprob));
    const bool alike = std::fabs(sampled.log_ratio - gap) <= slack || sampled.log_ratio == gap;
    if (!alike) return false;
    PublishSampledToken(sampled, wanted_, to);
  }
  return CheckRow(*to).has_value();
}

class CudaDevice final : public RowDevice {
 public:
  CudaDevice(CudaLibrary library, ValueNumbers numbers)
      : library_(std::move(library)), numbers_(std::move(numbers)), pool_(library_) {}

  std::string_view name() const override { return "cuda"; }

  Result<std::unique_ptr<DeviceRun>> Begin(const SlotSet& wanted, int64_t rows,
                                           const DevicePlace& place) const override {
    const SlotSet lacking = wanted & AllTokenSlots() & ~numbers_.given;
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      if (!lacking[slot]) continue;
      return InvalidError("the CUDA library does not measure " + SlotName(slot) +
                          "; measure on the CPU");
    }
    KCC_TRY(kcc_cuda_session* const session, pool_.Take(place.index));
    auto run = std::make_unique<CudaRun>(library_, numbers_, &pool_, place.index, session, wanted);
    KCC_TRY_VOID(ToResult(library_.session_begin(session, rows, place.stream)));
    return std::unique_ptr<DeviceRun>(std::move(run));
  }

 private:
  const CudaLibrary library_;
  const ValueNumbers numbers_;
  mutable SessionPool pool_;
};

}  // namespace

std::optional<std::string> FindCudaLibrary() {
  std::error_code ignored;
  for (const std::string& place : CudaLibraryPlaces()) {
    const bool is_path = place.find('/') != std::string::npos;
    if (is_path && std::filesystem::exists(place, ignored)) return place;
  }
  return std::nullopt;
}

Result<std::unique_ptr<RowDevice>> OpenCudaDevice(const std::string& path) {
  KCC_TRY(CudaLibrary library, LoadCudaLibrary(path));
  KCC_TRY(ValueNumbers numbers, NumbersOf(library));
  return std::unique_ptr<RowDevice>(
      std::make_unique<CudaDevice>(std::move(library), std::move(numbers)));
}

}  // namespace kcc
