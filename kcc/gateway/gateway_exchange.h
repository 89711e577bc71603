// One request through the gateway: a state machine that a plane drives. It decides what is sent to
// which kernel, what the client hears and when, and what is kept; it knows no HTTP library and no
// time but what it is told.
//
//   Start -> kSend -> OnHead -> OnBody ... -> OnEnd
//                  \-> OnFailure -> kSend (another kernel, once) or kAnswer or kCut
//
// Failover. Before anything was said to the client, a failure (no connection, a broken one, a
// time-out, 5xx, 429) goes to the next kernel in the order of the route, `retries_max` times. The
// head of a stream is held back until its first event with content, so that a kernel that dies
// between head and content is still replaced. After content, never: the client gets the error as an
// event, `data: {"error": ...}`, without [DONE], and the stream ends.
//
// A request that is not sampled passes byte for byte. A sampled one is asked for token ids and
// log-probs as well; what the client did not ask for is taken out of its answer, whose other bytes
// stay as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kcc/gateway/gateway_core.h"
#include "kcc/gateway/head.h"

namespace kcc {

enum class StepKind : uint8_t {
  kSend,    // `ask` goes to its kernel; an earlier upstream connection is closed
  kAnswer,  // the client gets `answer`; the exchange is over
  kWait,    // go on reading from the kernel; nothing for the client yet
  kPass,    // `header`, if there is one, and then `bytes` go to the client; go on reading
  kDone,    // the same, and the answer ends there as it should; the exchange is over
  kCut,     // the same, and then the client's connection is broken off; the exchange is over
};

struct Step {
  StepKind kind = StepKind::kWait;
  UpstreamAsk ask;
  GatewayAnswer answer;
  std::optional<AnswerHeader> header;
  // kPass, kDone, kCut. A view of what was handed in or of the exchange's own buffer: it lives
  // until the next call.
  std::string_view bytes;
};

enum class UpstreamFailure : uint8_t {
  kConnect,   // no connection
  kBroken,    // it broke, or what came is not HTTP
  kTimeout,   // no head, or nothing more, in time
  kTooLarge,  // a head beyond the limit
};

class GatewayExchange {
 public:
  // The core and the worker outlive it; used from the worker's thread.
  GatewayExchange(GatewayCore& core, GatewayWorker& worker);
  ~GatewayExchange();
  GatewayExchange(const GatewayExchange&) = delete;
  GatewayExchange& operator=(const GatewayExchange&) = delete;

  // `now_us`: a steady clock of the plane's. The body is as sent, whole.
  Step Start(const AskHead& head, std::string body, int64_t now_us);
  Step OnHead(int status, std::span<const HeaderField> headers, int64_t now_us);
  Step OnBody(std::string_view bytes, int64_t now_us);
  Step OnEnd(int64_t now_us);
  Step OnFailure(UpstreamFailure failure, int64_t now_us);
  // The client's connection is gone; the plane closes that of the kernel.
  void OnClientGone(int64_t now_us);

  // The answer is a stream of events: bytes must not wait for more.
  bool streaming() const;

  // For logs, after Start; the id that the client reads in x-request-id.
  const std::string& request_id() const;
  std::optional<size_t> kernel() const;  // that was asked last; none: none was

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kcc
