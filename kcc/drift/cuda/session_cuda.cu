// Sessions of libkcc_cuda.so (include/kcc.h): rows in, values in the host's memory out, on a stream
// of the session's own, so that the caller's stream goes on meanwhile.
//
// Everything is ordered by that one stream, so buffers are used again without waiting: a copy into
// the room for tokens or logits begins when the kernels that read it before have ended. A buffer
// that has to grow is the exception, and waits. All host code: the kernels are drift_cuda.cu's.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "include/kcc.h"
#include "kcc/base/dtype.h"
#include "kcc/drift/cuda/capi_cuda.h"
#include "kcc/drift/cuda/drift_cuda.h"

namespace kcc {
namespace {

// Rows that are copied to the device begin at multiples of it, as the fast kernel likes them.
constexpr size_t kRowAlignment = 16;

const char* Problem(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// The thread's device while it lives.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && device != before_) error_ = cudaSetDevice(device);
  }
  ~OnDevice() {
    if (before_ >= 0) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  const char* problem() const { return Problem(error_); }

 private:
  int before_ = -1;
  cudaError_t error_ = cudaSuccess;
};

// Memory that grows and never shrinks: on the device, or the host's own that copies can use.
class Room {
 public:
  explicit Room(bool on_host) : on_host_(on_host) {}
  ~Room() { Free(); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  const char* Reserve(size_t bytes, cudaStream_t stream) {
    if (bytes <= bytes_) return nullptr;
    if (const char* problem = Problem(cudaStreamSynchronize(stream))) return problem;
    Free();
    const cudaError_t error =
        on_host_ ? cudaHostAlloc(&at_, bytes, cudaHostAllocDefault) : cudaMalloc(&at_, bytes);
    if (error != cudaSuccess) {
      at_ = nullptr;
      cudaGetLastError();  // or the next launch would report it
      return Problem(error);
    }
    bytes_ = bytes;
    return nullptr;
  }
  template <class T>
  T* At(size_t element = 0) const {
    return static_cast<T*>(at_) + element;
  }
  size_t bytes() const { return bytes_; }

 private:
  void Free() {
    if (at_ != nullptr) on_host_ ? cudaFreeHost(at_) : cudaFree(at_);
    at_ = nullptr;
    bytes_ = 0;
  }

  const bool on_host_;
  void* at_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace
}  // namespace kcc

// Per row: kCudaValues doubles, and three int32 (argmax of both sides, status), argmax first.
struct kcc_cuda_session {
  int device = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t ready = nullptr;
  int64_t rows_max = 0;
  int64_t rows = 0;  // added since begin
  kcc::Room values{false}, argmax{false}, status{false}, tokens{false};
  kcc::Room train{false}, infer{false}, workspace{false};
  kcc::Room host_values{true}, host_argmax{true}, host_status{true}, host_tokens{true};
};

namespace kcc {
namespace {

const char* ReserveRows(kcc_cuda_session* session, int64_t rows) {
  const auto count = static_cast<size_t>(std::max<int64_t>(rows, 1));
  const auto reserve = [&](Room& device, Room& host, size_t bytes) {
    const char* problem = device.Reserve(count * bytes, session->stream);
    return problem != nullptr ? problem : host.Reserve(count * bytes, session->stream);
  };
  const char* problem =
      reserve(session->values, session->host_values, kCudaValues * sizeof(double));
  if (problem == nullptr) {
    problem = reserve(session->argmax, session->host_argmax, 2 * sizeof(int32_t));
  }
  if (problem == nullptr) problem = reserve(session->status, session->host_status, sizeof(int32_t));
  if (problem == nullptr) problem = reserve(session->tokens, session->host_tokens, sizeof(int32_t));
  return problem;
}

// Copies one side's rows to the device and points at them there.
const char* Upload(Room* room, const CudaDriftArgs& args, cudaStream_t stream, CudaLogits* side) {
  const size_t entry = DTypeBits(side->dtype) / 8;
  const size_t row_bytes = static_cast<size_t>(args.vocab) * entry;
  const size_t pitch = (row_bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  const auto rows = static_cast<size_t>(args.rows);
  if (const char* problem = room->Reserve(rows * pitch, stream)) return problem;
  const cudaError_t error = cudaMemcpy2DAsync(room->At<char>(), pitch, side->data,
                                              static_cast<size_t>(side->row_stride) * entry,
                                              row_bytes, rows, cudaMemcpyHostToDevice, stream);
  side->data = room->At<char>();
  side->row_stride = static_cast<int64_t>(pitch / entry);
  return Problem(error);
}

const char* UploadAll(kcc_cuda_session* session, CudaDriftArgs* args) {
  const char* problem = Upload(&session->train, *args, session->stream, &args->train);
  if (problem == nullptr) problem = Upload(&session->infer, *args, session->stream, &args->infer);
  // The caller's memory may change once this returns.
  return problem != nullptr ? problem : Problem(cudaStreamSynchronize(session->stream));
}

const char* CopyBack(kcc_cuda_session* session, size_t first, size_t rows) {
  const auto copy = [&](const Room& from, const Room& to, size_t bytes) {
    return cudaMemcpyAsync(to.At<char>(first * bytes), from.At<char>(first * bytes), rows * bytes,
                           cudaMemcpyDeviceToHost, session->stream);
  };
  cudaError_t error = copy(session->values, session->host_values, kCudaValues * sizeof(double));
  if (error == cudaSuccess) {
    error = copy(session->argmax, session->host_argmax, 2 * sizeof(int32_t));
  }
  if (error == cudaSuccess) error = copy(session->status, session->host_status, sizeof(int32_t));
  return Problem(error);
}

const char* Add(kcc_cuda_session* session, CudaDriftArgs args, bool host_logits) {
  const auto first = static_cast<size_t>(session->rows);
  const auto rows = static_cast<size_t>(args.rows);
  args.values = session->values.At<double>(first * kCudaValues);
  args.argmax = session->argmax.At<int32_t>(first * 2);
  args.status = session->status.At<int32_t>(first);
  args.stream = session->stream;
  if (args.tokens != nullptr) {
    int32_t* const from = session->host_tokens.At<int32_t>(first);
    int32_t* const to = session->tokens.At<int32_t>(first);
    std::memcpy(from, args.tokens, rows * sizeof(int32_t));
    const cudaError_t error =
        cudaMemcpyAsync(to, from, rows * sizeof(int32_t), cudaMemcpyHostToDevice, session->stream);
    if (error != cudaSuccess) return Problem(error);
    args.tokens = to;
  }
  if (const char* problem = CheckCudaDrift(args)) return problem;
  if (host_logits) {
    if (const char* problem = UploadAll(session, &args)) return problem;
  }
  const size_t needed = CudaDriftWorkspaceBytes(args);
  if (const char* problem = session->workspace.Reserve(needed, session->stream)) return problem;
  args.workspace = session->workspace.At<char>();
  args.workspace_bytes = session->workspace.bytes();
  if (const char* problem = MeasureDriftCuda(args)) return problem;
  if (const char* problem = CopyBack(session, first, rows)) return problem;
  session->rows += args.rows;
  return nullptr;
}

}  // namespace
}  // namespace kcc

extern "C" {

const char* kcc_cuda_session_new(int device, kcc_cuda_session** out) {
  if (out == nullptr) return "out is NULL";
  if (device < 0) {
    if (const char* problem = kcc::Problem(cudaGetDevice(&device))) return problem;
  }
  const kcc::OnDevice on(device);
  if (on.problem() != nullptr) return on.problem();
  auto* const session = new (std::nothrow) kcc_cuda_session;
  if (session == nullptr) return "out of memory";
  session->device = device;
  cudaError_t error = cudaStreamCreateWithFlags(&session->stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) {
    error = cudaEventCreateWithFlags(&session->ready, cudaEventDisableTiming);
  }
  if (error != cudaSuccess) {
    kcc_cuda_session_free(session);
    return kcc::Problem(error);
  }
  *out = session;
  return nullptr;
}

void kcc_cuda_session_free(kcc_cuda_session* session) {
  if (session == nullptr) return;
  const kcc::OnDevice on(session->device);
  if (session->stream != nullptr) {
    cudaStreamSynchronize(session->stream);
    cudaStreamDestroy(session->stream);
  }
  if (session->ready != nullptr) cudaEventDestroy(session->ready);
  delete session;
}

const char* kcc_cuda_session_begin(kcc_cuda_session* session, int64_t rows, void* after) {
  if (session == nullptr || rows < 0) return "no session, or a negative number of rows";
  const kcc::OnDevice on(session->device);
  if (on.problem() != nullptr) return on.problem();
  session->rows = 0;
  session->rows_max = rows;
  if (const char* problem = kcc::ReserveRows(session, rows)) return problem;
  // Of the last measurement, which may have been given up: its results are written no more.
  cudaError_t error = cudaStreamSynchronize(session->stream);
  if (error == cudaSuccess) {
    error = cudaEventRecord(session->ready, static_cast<cudaStream_t>(after));
  }
  if (error == cudaSuccess) error = cudaStreamWaitEvent(session->stream, session->ready, 0);
  // No status yet: 0 would say that a row was measured, and so would what the last rows left.
  if (error == cudaSuccess) {
    error = cudaMemsetAsync(session->status.At<int32_t>(), 0xFF,
                            static_cast<size_t>(rows) * sizeof(int32_t), session->stream);
  }
  return kcc::Problem(error);
}

const char* kcc_cuda_session_add(kcc_cuda_session* session, const kcc_cuda_rows* rows,
                                 int host_logits) {
  if (session == nullptr) return "no session";
  kcc::CudaDriftArgs args;
  if (const char* problem = kcc::ArgsOf(rows, &args)) return problem;
  if (args.rows < 0 || args.rows > session->rows_max - session->rows) {
    return "more rows than the session began with";
  }
  if (args.rows == 0) return nullptr;
  const kcc::OnDevice on(session->device);
  return on.problem() != nullptr ? on.problem() : kcc::Add(session, args, host_logits != 0);
}

const char* kcc_cuda_session_wait(kcc_cuda_session* session, const double** values,
                                  const int32_t** argmax, const int32_t** status) {
  if (session == nullptr || values == nullptr || argmax == nullptr || status == nullptr) {
    return "an argument is NULL";
  }
  const kcc::OnDevice on(session->device);
  if (on.problem() != nullptr) return on.problem();
  if (const char* problem = kcc::Problem(cudaStreamSynchronize(session->stream))) return problem;
  *values = session->host_values.At<double>();
  *argmax = session->host_argmax.At<int32_t>();
  *status = session->host_status.At<int32_t>();
  return nullptr;
}

const char* kcc_cuda_session_read(kcc_cuda_session* session, const void* from, size_t bytes,
                                  void* to) {
  if (session == nullptr) return "no session";
  const kcc::OnDevice on(session->device);
  if (on.problem() != nullptr) return on.problem();
  const cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, session->stream);
  if (error != cudaSuccess) return kcc::Problem(error);
  return kcc::Problem(cudaStreamSynchronize(session->stream));
}

}  // extern "C"
