// A libkcc_cuda.so for machines without a GPU: the sessions of include/kcc.h on the host's memory,
// with the CPU's row kernels. What is loaded, found by name, called and refused is the real thing.
//
// "Device" addresses are the host's with a bit set that no address has, so that code which reads
// device memory by itself crashes instead of passing. Values are numbered backwards, so that code
// which believes in numbers rather than names fails. The kcc_fake_ functions make it go wrong.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "include/kcc.h"
#include "kcc/drift/c_dtype.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"
#include "tests/device/fake_cuda.h"

namespace {

const char* const kNames[] = {"train_rank",
                              "rank",
                              "hellinger",
                              "js",
                              "train_confidence",
                              "confidence",
                              "train_logprob",
                              "logprob",
                              "log_ratio",
                              "top10_overlap",
                              "top5_overlap",
                              "top1_overlap",
                              "train_margin",
                              "margin",
                              "entropy_gap",
                              "train_entropy",
                              "entropy",
                              "reverse_chi2",
                              "chi2",
                              "tv",
                              "reverse_kl",
                              "kl",
                              "raw_logit_l2",
                              "raw_logit_linf",
                              "logit_l2",
                              "logit_linf",
                              "logit_span"};
constexpr int kValues = static_cast<int>(std::size(kNames));
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Spoiled {
  int64_t row = -1;
  std::string value;
  double to = 0;
};

struct Faults {
  Spoiled spoiled;
  std::string failing;  // the function that fails
  FakeCounts counts;
};

Faults& State() {
  static Faults faults;
  return faults;
}

// Sessions of several threads share the state above.
std::mutex& Mutex() {
  static std::mutex mutex;
  return mutex;
}

const char* FailsIn(const char* function) {
  return State().failing == function ? "the fake device was told to fail" : nullptr;
}

const char* FromDevice(const void* address) {
  return reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(address) & ~kFakeDeviceBit);
}

bool IsOnDevice(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) & kFakeDeviceBit) != 0;
}

double LogSoftmaxAt(const void* row, kcc::DType dtype, size_t vocab, double temperature,
                    int32_t token) {
  double top = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < vocab; ++i) {
    top = std::max(top, double{kcc::LoadLogit(row, dtype, i)});
  }
  double sum = 0;
  for (size_t i = 0; i < vocab; ++i) {
    sum += std::exp((double{kcc::LoadLogit(row, dtype, i)} - top) / temperature);
  }
  const double at = kcc::LoadLogit(row, dtype, static_cast<size_t>(token));
  return (at - top) / temperature - std::log(sum);
}

kcc::SlotSet SlotsOf(unsigned wanted) {
  kcc::SlotSet slots = kcc::AllTokenSlots();
  if ((wanted & KCC_CUDA_ON_DEMAND) == 0) slots &= ~kcc::OnDemandSlots();
  if ((wanted & KCC_CUDA_TOP_K) == 0) {
    slots.reset(kcc::TokenSlot("top5_overlap"));
    slots.reset(kcc::TokenSlot("top10_overlap"));
  }
  if ((wanted & KCC_CUDA_REVERSE_CHI2) == 0) slots.reset(kcc::TokenSlot("reverse_chi2"));
  return slots;
}

double ValueOf(const std::string& name, const kcc::TokenDrift& drift, const kcc::RowPair& pair) {
  const bool has_token = pair.token >= 0;
  if (name == "confidence") return drift.confidence[kcc::kInfer];
  if (name == "train_confidence") return drift.confidence[kcc::kTrain];
  if (name == "logprob" || name == "train_logprob") {
    if (!has_token) return kNan;
    const bool is_train = name == "train_logprob";
    return LogSoftmaxAt(is_train ? pair.train : pair.infer,
                        is_train ? pair.train_dtype : pair.infer_dtype, pair.vocab,
                        pair.temperature, pair.token);
  }
  const size_t slot = kcc::TokenSlot(name);
  return drift.known[slot] ? drift.lo[slot] : kNan;
}

}  // namespace

struct kcc_cuda_session {
  int64_t rows_max = 0;
  int64_t rows = 0;
  kcc::RowScratch scratch;
  std::vector<double> values;
  std::vector<int32_t> argmax;
  std::vector<int32_t> status;

  void Measure(const kcc_cuda_rows& from, bool host_logits);
};

void kcc_cuda_session::Measure(const kcc_cuda_rows& from, bool host_logits) {
  const auto count = static_cast<size_t>(from.rows);
  const size_t first_value = values.size();
  const size_t first_top = argmax.size();
  values.resize(first_value + kValues * count, kNan);
  argmax.resize(first_top + 2 * count, -1);
  const auto row_at = [&](const kcc_array& side, size_t row) {
    const char* const base =
        host_logits ? static_cast<const char*>(side.data) : FromDevice(side.data);
    return base + row * static_cast<size_t>(side.row_stride) *
                      kcc::DTypeBits(*kcc::DTypeOf(side.dtype)) / 8;
  };
  for (size_t row = 0; row < count; ++row) {
    kcc::RowPair pair;
    pair.train = row_at(from.train, row);
    pair.infer = row_at(from.infer, row);
    pair.train_dtype = *kcc::DTypeOf(from.train.dtype);
    pair.infer_dtype = *kcc::DTypeOf(from.infer.dtype);
    pair.vocab = static_cast<size_t>(from.vocab_size);
    pair.temperature = from.temperature;
    pair.token = from.tokens == nullptr ? -1 : from.tokens[row];
    kcc::TokenDrift drift;
    const kcc::Result<> measured =
        kcc::MeasureRowSimd(pair, SlotsOf(from.wanted), kcc::BestTarget(), &scratch, &drift);
    status.push_back(measured ? KCC_CUDA_ROW_FAST : KCC_CUDA_ROW_BAD_TRAIN);
    ++rows;
    if (!measured) continue;
    for (size_t value = 0; value < kValues; ++value) {
      double& to = values[first_value + value * count + row];
      to = ValueOf(kNames[value], drift, pair);
      const Spoiled& spoiled = State().spoiled;
      if (spoiled.row == rows - 1 && spoiled.value == kNames[value]) to = spoiled.to;
    }
    argmax[first_top + row] = drift.argmax[kcc::kInfer];
    argmax[first_top + count + row] = drift.argmax[kcc::kTrain];
  }
}

extern "C" {

void* kcc_fake_device_address(const void* host) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(host) | kFakeDeviceBit);
}
void kcc_fake_reset(void) { State() = Faults(); }
void kcc_fake_spoil(int64_t row, const char* value, double to) {
  State().spoiled = {row, value, to};
}
void kcc_fake_fail(const char* function) { State().failing = function; }
void kcc_fake_counts(FakeCounts* to) { *to = State().counts; }

int kcc_cuda_abi_version(void) { return KCC_CUDA_ABI_VERSION; }
int kcc_cuda_values(void) { return kValues; }
const char* kcc_cuda_value_name(int value) {
  return value >= 0 && value < kValues ? kNames[value] : nullptr;
}

const char* kcc_cuda_session_new(int, kcc_cuda_session** out) {
  const std::lock_guard lock(Mutex());
  if (const char* problem = FailsIn("new")) return problem;
  *out = new kcc_cuda_session;
  ++State().counts.sessions;
  return nullptr;
}
void kcc_cuda_session_free(kcc_cuda_session* session) { delete session; }

const char* kcc_cuda_session_begin(kcc_cuda_session* session, int64_t rows, void*) {
  const std::lock_guard lock(Mutex());
  if (const char* problem = FailsIn("begin")) return problem;
  session->rows_max = rows;
  session->rows = 0;
  session->values.clear();
  session->argmax.clear();
  session->status.clear();
  return nullptr;
}

const char* kcc_cuda_session_add(kcc_cuda_session* session, const kcc_cuda_rows* rows,
                                 int host_logits) {
  const std::lock_guard lock(Mutex());
  if (const char* problem = FailsIn("add")) return problem;
  if (rows->struct_size != sizeof(kcc_cuda_rows)) return "struct_size";
  if (rows->rows > session->rows_max - session->rows) return "too many rows";
  if (IsOnDevice(rows->train.data) == (host_logits != 0) ||
      IsOnDevice(rows->infer.data) == (host_logits != 0)) {
    return "logits are not where they are said to be";
  }
  session->Measure(*rows, host_logits != 0);
  State().counts.rows += rows->rows;
  ++State().counts.adds;
  return nullptr;
}

const char* kcc_cuda_session_wait(kcc_cuda_session* session, const double** values,
                                  const int32_t** argmax, const int32_t** status) {
  const std::lock_guard lock(Mutex());
  if (const char* problem = FailsIn("wait")) return problem;
  *values = session->values.data();
  *argmax = session->argmax.data();
  *status = session->status.data();
  return nullptr;
}

const char* kcc_cuda_session_read(kcc_cuda_session*, const void* from, size_t bytes, void* to) {
  const std::lock_guard lock(Mutex());
  if (const char* problem = FailsIn("read")) return problem;
  if (!IsOnDevice(from)) return "not on the device";
  std::memcpy(to, FromDevice(from), bytes);
  State().counts.bytes_read += static_cast<int64_t>(bytes);
  return nullptr;
}

}  // extern "C"
