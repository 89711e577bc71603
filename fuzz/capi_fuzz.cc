// The C interface under hostile calls: sizes, strides, dtypes, offsets, slices and JSON taken from
// the input, arrays as large as the call claims. Every call must return; none may touch memory that
// the caller did not give.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "include/kcc.h"

namespace {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() { return at_ < size_ ? data_[at_++] : uint8_t{0}; }
  int64_t Small(int64_t below) { return Byte() % below; }
  float Number() {
    constexpr float kOdd[] = {0.0f, -0.0f, -1.0f, 1.0f, -1e30f, 1e30f, -9999.0f, -1e-30f};
    const uint8_t kind = Byte();
    if (kind < 8) return kOdd[kind];
    if (kind == 8) return __builtin_nanf("");
    if (kind == 9) return -__builtin_inff();
    return -static_cast<float>(Byte()) / 32.0f;
  }
  std::string Rest() {
    std::string text(reinterpret_cast<const char*>(data_) + at_, size_ - at_);
    at_ = size_;
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

// Enough elements for every array that a valid call of these sizes may read; 8 bytes each, since
// the dtype is the input's choice.
std::vector<double> Fill(Bytes& bytes, int64_t elements, kcc_dtype dtype) {
  std::vector<double> values(static_cast<size_t>(elements) + 1);
  auto* as_float = reinterpret_cast<float*>(values.data());
  for (size_t i = 0; i < static_cast<size_t>(elements); ++i) {
    const float value = bytes.Number();
    if (dtype == KCC_F64) {
      values[i] = static_cast<double>(value);
    } else {
      std::memcpy(as_float + i, &value, sizeof value);
    }
  }
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  kcc_rl_batch batch{};
  batch.struct_size = sizeof batch;
  batch.rows = bytes.Small(6) - 1;
  batch.columns = bytes.Small(8) - 1;
  const int64_t stride = bytes.Small(12);
  const bool packed = bytes.Small(4) == 0;
  const int64_t elements = 6 * 16;
  const auto dtype = [&] { return static_cast<kcc_dtype>(bytes.Small(10)); };
  std::vector<std::vector<double>> owners;
  const auto array = [&](bool present) {
    kcc_array made{};
    made.dtype = dtype();
    made.row_stride = stride;
    if (!present) return made;
    owners.push_back(Fill(bytes, elements, made.dtype));
    made.data = owners.back().data();
    return made;
  };
  batch.train = array(true);
  batch.rollout = array(bytes.Small(16) != 0);
  batch.old_logprobs = array(bytes.Small(2) == 0);
  batch.mask = array(bytes.Small(2) == 0);
  batch.advantages = array(bytes.Small(2) == 0);
  batch.advantage_per_row = static_cast<int>(bytes.Small(2));
  std::vector<int64_t> offsets;
  for (int i = 0; i < 8; ++i) offsets.push_back(bytes.Small(40) - 2);
  if (packed) batch.offsets = offsets.data();
  std::vector<int32_t> slice_of_row;
  for (int i = 0; i < 8; ++i) slice_of_row.push_back(static_cast<int32_t>(bytes.Small(4)) - 1);
  const char* names[] = {"a", "b", ""};
  if (bytes.Small(2) == 0) batch.slice_of_row = slice_of_row.data();
  batch.slice_names = names;
  batch.slice_count = static_cast<int32_t>(bytes.Small(4));
  const uint8_t which = bytes.Byte();
  const std::string text = bytes.Rest();

  kcc_text out{};
  std::vector<float> weights(256);
  std::vector<uint8_t> kept(256);
  switch (which % 4) {
    case 0: {
      kcc_rl_summary* summary = nullptr;
      kcc_rl_summary* other = nullptr;
      kcc_rl_summary_new(&summary);
      if (kcc_rl_summary_add(summary, &batch, 1) == KCC_OK) {
        kcc_rl_summary_figures(summary, 0.95, &out);
      }
      if (kcc_rl_summary_decode(text.data(), text.size(), &other) == KCC_OK) {
        kcc_rl_summary_merge(summary, other);
      }
      kcc_rl_summary_free(other);
      kcc_rl_summary_free(summary);
      break;
    }
    case 1:
      kcc_rl_correct(&batch, text.c_str(), 1, weights.data(), kept.data(), &out);
      break;
    case 2:
      kcc_rl_lint(&batch, &out);
      break;
    default: {
      static const char* const kDialects[] = {"verl", "trl", "slime", "skyrl", "nemo", "roll"};
      kcc_rl_dialect* result = nullptr;
      kcc_rl_dialect_run(kDialects[which / 4 % 6], nullptr, &batch, text.c_str(), &result);
      if (result != nullptr) kcc_rl_dialect_metrics(result, &out);
      kcc_rl_dialect_free(result);
    }
  }
  kcc_text_free(&out);
  return 0;
}
