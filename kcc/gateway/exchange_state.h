// The inside of an exchange (gateway_exchange.h), shared by its sources: gateway_exchange.cc drives
// it, exchange_start.cc reads the request and chooses, exchange_answer.cc reads answers,
// exchange_record.cc writes down what is kept.
#pragma once

#include <bitset>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kcc/gateway/answer_reader.h"
#include "kcc/gateway/fingerprint_search.h"
#include "kcc/gateway/gateway_exchange.h"
#include "kcc/gateway/openai_route.h"
#include "kcc/gateway/request_edit.h"
#include "kcc/gateway/request_scan.h"
#include "kcc/gateway/sse_tap.h"

namespace kcc {

enum class ExchangePhase : uint8_t {
  kNew,
  kAsked,    // a kernel has the request
  kHeld,     // its head is there; the client has heard nothing
  kPassing,  // the client has the head
  kOver,
};

// How a request ended, by the counters of gateway_core.h.
enum class ExchangeEnd : uint8_t { kAnswered, kCut, kOwn, kRefused, kLeft };

// Why a try at a kernel came to nothing.
struct TryFailure {
  int status = 0;           // the kernel's; 0: it gave none
  std::string_view reason;  // a short word
  bool late = false;        // a time-out
};

struct GatewayExchange::State {
  State(GatewayCore& the_core, GatewayWorker& the_worker) : core(the_core), worker(the_worker) {}

  // exchange_start.cc
  Step Start(const AskHead& head, std::string the_body, int64_t now);
  Step Send(size_t to);
  std::optional<size_t> FirstKernel();
  std::optional<size_t> NextKernel() const;
  void ChooseSamples(const AskHead& head, size_t first);
  void KeepPassedHeaders(const AskHead& head);

  // exchange_answer.cc
  Step OnHead(int the_status, std::span<const HeaderField> headers, int64_t now);
  Step OnWholeBody(std::string_view bytes, int64_t now);
  Step FinishWhole(int64_t now);
  Step OnEvents(std::string_view bytes, int64_t now);
  Step FinishEvents(int64_t now);
  void OnUnit(const SseUnit& unit, int64_t now);
  void Notice(std::string_view data, int64_t now);
  void NoticePassing(std::string_view bytes, int64_t now);
  void Rewrite(const SseUnit& unit);
  AnswerHeader MakeHeader(std::optional<uint64_t> length) const;
  Step Pass(StepKind kind, std::string_view bytes);

  // gateway_exchange.cc
  Step OnFailure(UpstreamFailure failure, int64_t now);
  Step TryNext(const TryFailure& failure, int64_t now);
  Step Refuse(GatewayAnswer refusal, int64_t now);
  Step CutStream(std::string_view reason, int64_t now);
  void End(ExchangeEnd end, int64_t now);
  // An error event that is the request's fault, as a status of 4xx would be.
  bool is_client_error() const {
    return error_event && error_status >= 400 && error_status < 500 && error_status != 429;
  }
  // What came before any content sends the request to another kernel.
  bool early_failure() const {
    return !content && (garbage || (error_event && !is_client_error()));
  }
  KernelCounts& counts() { return worker.counts().kernels[*kernel]; }
  const PoolKernel& asked() const { return pool->kernels[*kernel]; }

  // exchange_record.cc
  // A try at a kernel that owes a record leaves one, or counts as dropped: never both, never twice.
  ServedRecord NewRecord(RecordKind kind, int64_t now) const;
  ServedRecord EndRecord(bool cut, bool left, int64_t now);
  void Put(ServedRecord record);
  template <class Make>
  void PutOrDrop(size_t its_kernel, const Make& make);
  void Drop(size_t its_kernel);
  void CountMirror(size_t served_by);
  void PutProbe(size_t probed, int64_t now);
  void PutFailure(const TryFailure& failure, int64_t now);
  void PutEnd(bool cut, bool left, int64_t now);
  void CheckFingerprint(std::string_view fingerprint, int64_t now);

  GatewayCore& core;
  GatewayWorker& worker;
  std::shared_ptr<const GatewayPool> pool;
  ExchangePhase phase = ExchangePhase::kNew;

  // The request.
  const OpenAiRoute* route = nullptr;
  std::string body;
  RequestScan scan;       // views of `body`
  std::string id;         // as the client knows it
  std::string record_id;  // of this request alone
  std::string session;
  uint64_t session_hash = 0;
  uint64_t request_hash = 0;
  bool stream = false;
  HeaderList passed;
  std::map<std::string, std::string> fields;  // of sampled requests
  bool sampled = false;
  bool owed = false;  // a record of the kernel that has it
  bool shadow = false;
  int64_t started_us = 0;
  int64_t sent_us = 0;  // to the kernel that has it now
  int64_t started_at_ms = 0;

  // Tries.
  std::optional<size_t> kernel;  // that has, or had, the request
  bool by_canary = false;
  uint64_t tried = 0;  // kernels, as bits
  int retries = 0;
  int failures = 0;
  std::string retry_after;

  // The answer.
  Injected injected;
  bool sampling_refused = false;  // the kernel would not have the fields of sampling
  std::optional<AnswerReader> reader;
  std::optional<SseTap> tap;
  FingerprintSearch search;  // of what passes unread
  int status = 0;
  bool events = false;
  HeaderList kept_headers;
  std::string held;           // what the client has not heard yet
  std::string said;           // what a step shows
  bool dropped_last = false;  // the event before: its line feed goes with it
  bool content = false;       // something of the answer itself is there
  bool done = false;          // [DONE]
  bool error_event = false;
  int error_status = 0;  // what an error event before content says
  bool garbage = false;
  std::string fingerprint;
  bool stranger = false;
  int64_t first_us = 0;  // of the first content; 0: none
};

}  // namespace kcc
