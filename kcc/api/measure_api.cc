// Measuring through the C interface: arrays, traces, and the devices that logits may lie on.
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/api/guard.h"
#include "kcc/api/handles.h"
#include "kcc/api/observation_arrays.h"
#include "kcc/api/sized.h"
#include "kcc/api/token_rows.h"
#include "kcc/device/cuda_device.h"
#include "kcc/drift/c_dtype.h"
#include "kcc/measure/measure.h"
#include "kcc/measure/measure_arrays.h"
#include "kcc/trace/requests.h"

namespace kcc::api {
namespace {

// The devices that were loaded. They are never closed: a measurement may be under way on one after
// another has taken its place, and CUDA may be gone when a process ends.
class Devices {
 public:
  static Devices& Loaded() {
    static auto* const devices = new Devices;
    return *devices;
  }

  Result<> Load(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return LoadLocked(path);
  }
  // The one that was loaded last; without one, what is found without a path.
  Result<const RowDevice*> Current() {
    const std::lock_guard lock(mutex_);
    if (current_ == nullptr) KCC_TRY_VOID(LoadLocked({}));
    return current_;
  }

 private:
  Result<> LoadLocked(const std::string& path) {
    for (const auto& [known, device] : devices_) {
      if (known != path) continue;
      current_ = device.get();
      return {};
    }
    KCC_TRY(std::unique_ptr<RowDevice> opened, OpenCudaDevice(path));
    devices_.emplace_back(path, std::move(opened));
    current_ = devices_.back().second.get();
    return {};
  }

  std::mutex mutex_;
  std::vector<std::pair<std::string, std::unique_ptr<RowDevice>>> devices_;
  const RowDevice* current_ = nullptr;
};

Result<> CheckDeviceName(std::string_view name) {
  if (name == "cuda") return {};
  return InvalidError("device: '" + std::string(name) + "' is not known; there is cuda");
}

// Without a contract every quantity is summed up, since nobody knows yet what will be judged.
Plan PlanOf(const kcc_contract* contract, Plan::Breadth breadth = Plan::Breadth::kAll) {
  return contract == nullptr ? Plan::Default() : Plan::FromContract(contract->contract, breadth);
}

Result<DType> RequireDType(kcc_dtype dtype, const char* name) {
  if (const std::optional<DType> known = DTypeOf(dtype)) return *known;
  return InvalidError(std::string(name) + ": unknown dtype " + std::to_string(dtype));
}

Result<ArraySide> SideOf(const kcc_array& logits, const kcc_array& logprobs,
                         const char* fingerprint, const char* name) {
  ArraySide side;
  if (logits.row_stride < 0) return InvalidError(std::string(name) + ": row_stride is negative");
  side.logits = logits.data;
  KCC_TRY(side.logits_dtype, RequireDType(logits.dtype, name));
  side.logits_stride = logits.row_stride;
  side.logprobs = logprobs.data;
  KCC_TRY(side.logprobs_dtype, RequireDType(logprobs.dtype, name));
  if (fingerprint != nullptr) side.fingerprint = fingerprint;
  return side;
}

Result<std::vector<Request>> RequestsOf(std::string_view jsonl, int64_t count) {
  std::vector<Request> requests;
  int line_number = 0;
  while (!jsonl.empty()) {
    const size_t end = jsonl.find('\n');
    const std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(end == std::string_view::npos ? jsonl.size() : end + 1);
    ++line_number;
    if (line.empty()) continue;
    Result<Request> request = ParseRequest(line);
    if (!request) return std::move(request.error()).At({"requests", line_number, 0});
    requests.push_back(std::move(*request));
  }
  if (static_cast<int64_t>(requests.size()) == count) return requests;
  return InvalidError("requests: " + std::to_string(requests.size()) + " lines for " +
                      std::to_string(count) + " requests");
}

template <class T>
std::span<const T> SpanOf(const T* data, int64_t size) {
  if (data == nullptr) return {};
  return {data, static_cast<size_t>(size)};
}

// Pointers and counts are checked before anything is read through them. How long an array is only
// the caller knows; what can be checked is that the requests stay within the rows it claims.
Result<> CheckRows(const kcc_arrays& arrays) {
  if (arrays.rows < 0 || arrays.requests < 0) {
    return InvalidError("rows and requests must not be negative");
  }
  KCC_TRY_VOID(
      RequirePointer(arrays.requests > 0 ? arrays.first_rows : &arrays.rows, "first_rows"));
  KCC_TRY_VOID(
      RequirePointer(arrays.requests > 0 ? arrays.row_counts : &arrays.rows, "row_counts"));
  KCC_TRY_VOID(RequirePointer(arrays.requests > 0 ? arrays.requests_jsonl : "", "requests_jsonl"));
  for (int64_t r = 0; r < arrays.requests; ++r) {
    const int64_t first = arrays.first_rows[r];
    const int64_t count = arrays.row_counts[r];
    if (first >= 0 && count >= 0 && first <= arrays.rows && count <= arrays.rows - first) continue;
    return InvalidError("request " + std::to_string(r) + ": rows " + std::to_string(first) + " + " +
                        std::to_string(count) + " are outside the arrays' " +
                        std::to_string(arrays.rows));
  }
  return {};
}

// `requests` and the caller's arrays are viewed, not copied: the measurement holds the first
// (kcc_measurement), the caller keeps the second until it has finished.
Result<> FillPair(const kcc_arrays& arrays, std::span<const Request> requests, ArrayPair* pair) {
  KCC_TRY(pair->train,
          SideOf(arrays.train_logits, arrays.train_logprobs, arrays.train_fingerprint, "train"));
  KCC_TRY(pair->infer,
          SideOf(arrays.infer_logits, arrays.infer_logprobs, arrays.infer_fingerprint, "infer"));
  pair->train.top_ids = arrays.train_top_ids;
  pair->train.top_logprobs = arrays.train_top_logprobs;
  pair->train.top_k = arrays.train_top_k;
  pair->infer.top_ids = arrays.infer_top_ids;
  pair->infer.top_logprobs = arrays.infer_top_logprobs;
  pair->infer.top_k = arrays.infer_top_k;
  pair->requests = requests;
  pair->first_rows = SpanOf(arrays.first_rows, arrays.requests);
  pair->row_counts = SpanOf(arrays.row_counts, arrays.requests);
  pair->positions = SpanOf(arrays.positions, arrays.rows);
  pair->tokens = SpanOf(arrays.tokens, arrays.rows);
  pair->mask = SpanOf(arrays.mask, arrays.rows);
  pair->advantages = SpanOf(arrays.advantages, arrays.rows);
  pair->vocab_size = arrays.vocab_size;
  pair->temperature = arrays.temperature;
  if (arrays.sampling_temperature == KCC_GREEDY) {
    pair->sampling_temperature = 0;
  } else if (arrays.sampling_temperature != 0) {
    pair->sampling_temperature = arrays.sampling_temperature;
  }
  if (arrays.sampled_by != nullptr) {
    const std::optional<SampledBy> side = ParseSampledBy(arrays.sampled_by);
    if (!side) {
      return InvalidError("sampled_by: '" + std::string(arrays.sampled_by) +
                          "' is none of infer, train, dataset");
    }
    pair->sampled_by = *side;
  }
  if (arrays.device != nullptr) pair->place = DevicePlace{arrays.device_index, arrays.stream};
  return {};
}

// A measurement on a device only starts here and returns; on the CPU it is done in Finish. Example:
//
//     kcc_measure_begin    checks, starts the device
//     ...                  the caller trains on; the arrays stay as they are
//     kcc_measure_finish   waits, gives the summary
//     kcc_measurement_free also without finish; then the device's work is waited for and dropped
//
// The requests are moved into the handle before the pair views them, since the pair must not view
// what dies with this function.
Result<std::unique_ptr<kcc_measurement>> Begin(const kcc_arrays* given,
                                               const kcc_contract* contract, int threads) {
  KCC_TRY_VOID(RequirePointer(given, "arrays"));
  KCC_TRY(const kcc_arrays arrays, Sized(given, kArraysFirstSize, "kcc_arrays"));
  KCC_TRY_VOID(CheckRows(arrays));
  auto made = std::make_unique<kcc_measurement>();
  KCC_TRY(made->requests, RequestsOf({arrays.requests_jsonl == nullptr ? "" : arrays.requests_jsonl,
                                      arrays.requests_jsonl_size},
                                     arrays.requests));
  ArrayPair pair;
  KCC_TRY_VOID(FillPair(arrays, made->requests, &pair));
  MeasureOptions options;
  KCC_TRY(options.threads, ThreadCount(threads));
  options.request_set = contract != nullptr && !contract->contract.request_set.empty();
  if (arrays.device != nullptr) {
    KCC_TRY_VOID(CheckDeviceName(arrays.device));
    KCC_TRY(options.device, Devices::Loaded().Current());
  }
  const auto breadth = arrays.clauses_only != 0 ? Plan::Breadth::kClauses : Plan::Breadth::kAll;
  KCC_TRY(made->measurement, ArrayMeasurement::Begin(pair, PlanOf(contract, breadth), options));
  return made;
}

Result<> Finish(kcc_measurement* measurement, kcc_summary** out) {
  if (!measurement->measurement) return InvalidError("the measurement has been finished before");
  // Taken out first, so that it is finished on every way out of here.
  std::optional<ArrayMeasurement> taken = std::move(measurement->measurement);
  measurement->measurement.reset();
  return GiveSummary(taken->Finish(), out);
}

Result<> FinishTokens(kcc_measurement* measurement, kcc_summary** out, kcc_tokens** tokens) {
  if (!measurement->measurement) return InvalidError("the measurement has been finished before");
  std::optional<ArrayMeasurement> taken = std::move(measurement->measurement);
  measurement->measurement.reset();
  TokenRows rows(taken->pair(), taken->plan());
  auto made = std::make_unique<kcc_tokens>();
  KCC_TRY(Summary summary, taken->Finish(&rows));
  made->requests = rows.Finish();
  made->slot_names = SlotNames();
  for (size_t i = 0; i < made->requests.size(); ++i) {
    made->records.push_back(RequestJson(measurement->requests[i]));
    made->columns.push_back(ColumnsOf(made->requests[i], made->slot_names));
  }
  KCC_TRY_VOID(GiveSummary(std::move(summary), out));
  *tokens = made.release();
  return {};
}

// `device` may be null.
Result<Summary> MeasureFiles(const char* device, const char* train, const char* infer,
                             const kcc_contract* contract, int threads) {
  KCC_TRY_VOID(RequirePointer(train, "train"));
  KCC_TRY_VOID(RequirePointer(infer, "infer"));
  MeasureOptions options;
  KCC_TRY(options.threads, ThreadCount(threads));
  options.request_set = contract != nullptr && !contract->contract.request_set.empty();
  if (device != nullptr) {
    KCC_TRY_VOID(CheckDeviceName(device));
    KCC_TRY(options.device, Devices::Loaded().Current());
  }
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  KCC_TRY(const PairedTraces pair,
          PairedTraces::Make(std::move(train_reader), std::move(infer_reader)));
  return Measure(pair, PlanOf(contract), options);
}

}  // namespace
}  // namespace kcc::api

using kcc::Result;
using namespace kcc::api;

extern "C" {

kcc_status kcc_measure_traces(const char* train, const char* infer, const kcc_contract* contract,
                              int threads, kcc_summary** out) {
  return Guard(
      [&] { return GiveSummary(MeasureFiles(nullptr, train, infer, contract, threads), out); });
}

kcc_status kcc_measure_traces_on(const char* device, const char* train, const char* infer,
                                 const kcc_contract* contract, int threads, kcc_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(device, "device"));
    return GiveSummary(MeasureFiles(device, train, infer, contract, threads), out);
  });
}

kcc_status kcc_measure_arrays(const kcc_arrays* arrays, const kcc_contract* contract, int threads,
                              kcc_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(arrays, "arrays"));
    KCC_TRY(const std::unique_ptr<kcc_measurement> begun, Begin(arrays, contract, threads));
    return Finish(begun.get(), out);
  });
}

kcc_status kcc_measure_begin(const kcc_arrays* arrays, const kcc_contract* contract, int threads,
                             kcc_measurement** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY(std::unique_ptr<kcc_measurement> begun, Begin(arrays, contract, threads));
    *out = begun.release();
    return {};
  });
}

kcc_status kcc_measure_finish(kcc_measurement* measurement, kcc_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(measurement, "measurement"));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    return Finish(measurement, out);
  });
}

kcc_status kcc_measure_finish_tokens(kcc_measurement* measurement, kcc_summary** out,
                                     kcc_tokens** tokens) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(measurement, "measurement"));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY_VOID(RequirePointer(tokens, "tokens"));
    return FinishTokens(measurement, out, tokens);
  });
}

void kcc_measurement_free(kcc_measurement* measurement) { delete measurement; }

kcc_status kcc_device_load(const char* device, const char* path) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(device, "device"));
    KCC_TRY_VOID(CheckDeviceName(device));
    return Devices::Loaded().Load(path == nullptr ? "" : path);
  });
}

}  // extern "C"
