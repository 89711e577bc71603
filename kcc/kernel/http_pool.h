// Many HTTP calls at once, each repeated where that can help: what the server kernels stand on.
//
// One curl_multi handle, one thread, HTTP/1.1. Scoring asks for the same numbers again, so a call
// may be repeated: after 408, 429, 500, 502, 503, 504, and after a connection that was refused or
// broke. A time limit, a body beyond the limit and every other status are final. Waits double from
// `retry_wait_ms` to `retry_wait_ms_max`; a longer Retry-After is heeded up to `retry_after_s_max`.
//
// Nothing is read from the environment (no proxy, no .netrc), redirects are not followed, and the
// API key is in no message, whatever the server answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kcc/base/result.h"

namespace kcc {

struct HttpOptions {
  std::string base_url;  // "http://host:port", without a slash at the end
  std::string api_key;   // sent as a bearer token; empty: none
  std::string ca_file;   // certificates to trust instead of the system's
  int in_flight_max = 64;
  int retries_max = 4;
  int64_t retry_wait_ms = 250;
  int64_t retry_wait_ms_max = 8000;
  double retry_after_s_max = 60;
  double connect_timeout_s = 10;
  double timeout_s = 600;        // of one attempt
  double batch_timeout_s = 600;  // of one Run
  size_t body_bytes_max = size_t{64} << 20;
  int stop_fd = -1;  // readable: stop with InterruptedError
};

struct HttpCall {
  std::string path;  // "/v1/models"
  std::string body;  // JSON to POST; empty: GET
};

struct HttpReply {
  int status = 0;
  double seconds = 0;  // of the last attempt
  std::string body;
};

// In the message where no program listens at the address.
inline constexpr const char* kNobodyListens = "is the server started, and is this its port?";

// True for the statuses after which a call is repeated.
bool IsRetriedStatus(int status);

// How long to wait before attempt `attempt` + 1, counted from 1; the server's Retry-After is 0
// where it sent none. Fails where the server asks for more patience than there is.
Result<int64_t> RetryWaitMs(const HttpOptions& options, int attempt, double retry_after_s);

class HttpPool {
 public:
  static Result<std::unique_ptr<HttpPool>> Open(HttpOptions options);
  static std::string LibraryVersion();
  ~HttpPool();
  HttpPool(const HttpPool&) = delete;
  HttpPool& operator=(const HttpPool&) = delete;

  // Makes call 0 to count - 1, at most in_flight_max at once. `make` is asked again for each
  // repetition. `take` gets every reply of status 200 as it comes, in any order; an error from it
  // ends the run, as does any other final status. Afterwards no call is under way.
  using MakeCall = std::function<HttpCall(size_t index)>;
  using TakeReply = std::function<Result<>(size_t index, HttpReply reply)>;
  // `give_up`, where given, gets each call that failed for good, and the run goes on; an error from
  // it ends the run.
  using GiveUp = std::function<Result<>(size_t index, bool timed_out, const Error& why)>;
  Result<> Run(size_t count, const MakeCall& make, const TakeReply& take,
               const GiveUp& give_up = nullptr);

  // The same, but `take` gets replies of every final status; after the last repetition that is each
  // there is. Left to `give_up` are calls without a whole reply.
  Result<> RunForAnyStatus(size_t count, const MakeCall& make, const TakeReply& take,
                           const GiveUp& give_up);

  // The time limit of the following runs, in place of batch_timeout_s.
  void SetRunLimit(double seconds);

  // One call whose status the caller judges; a broken connection is an error.
  Result<HttpReply> Ask(const HttpCall& call);

 private:
  struct State;
  explicit HttpPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kcc
