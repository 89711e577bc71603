// The server without HTTP: a request's method, path and body in, an answer or a stream out.
//
//   GET  /health  /version  /v1/models  /metrics
//   POST /v1/completions  /v1/chat/completions  /inference/v1/generate  /tokenize  /detokenize
//   on the admin port: GET, POST and DELETE /faults, DELETE /faults/NAME
//
// Handle is called from one thread at a time, the plane's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/format/json.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/switches.h"
#include "kcc/serve/batcher.h"
#include "kcc/serve/exchange.h"
#include "kcc/serve/faults.h"
#include "kcc/serve/metrics.h"
#include "kcc/serve/reply.h"
#include "kcc/serve/served_model.h"

namespace kcc {

struct ServiceOptions {
  std::string model_directory;
  LabSwitches switches;
  size_t queue_max = 256;        // sequences that may wait; beyond it requests are refused (429)
  std::string program_version;   // of kcc, for /version
  const Clock* clock = nullptr;  // null: the system's
};

class Service {
 public:
  // Reads the model and starts the engine.
  static Result<std::unique_ptr<Service>> Open(const ServiceOptions& options);

  // Says the answer to the sink, at once or later. Returns a number for Cancel; 0: it is said.
  uint64_t Handle(const HttpAsk& ask, std::shared_ptr<ReplySink> sink);
  // The same on the admin port.
  HttpAnswer HandleAdmin(const HttpAsk& ask);
  // The client of this request is gone.
  void Cancel(uint64_t ticket) { batcher_->Cancel(ticket); }

  // From here on requests for the model are refused (503); those that run go on.
  void Drain() { draining_ = true; }
  // No request is being answered.
  bool idle() const { return open_ == 0; }

  const std::string& fingerprint() const { return fingerprint_; }
  const ServedModel& model() const { return model_; }

 private:
  Service(const ServiceOptions& options, Checkpoint checkpoint);
  Result<> Start();
  uint64_t Generate(ApiKind kind, const std::string& body, std::shared_ptr<ReplySink> sink);
  HttpAnswer Get(const std::string& path) const;
  HttpAnswer Models() const;
  HttpAnswer Tokenize(const std::string& body) const;
  HttpAnswer TokenizeChat(json::object body) const;
  HttpAnswer Tokens(const std::vector<int32_t>& ids, bool with_texts) const;
  HttpAnswer Detokenize(const std::string& body) const;
  HttpAnswer SetFault(const std::string& body);
  Result<size_t> EngineOf(std::string_view switches);

  const ServiceOptions options_;
  const Clock& clock_;
  const Checkpoint checkpoint_;
  ServedModel model_;
  std::string fingerprint_;
  Faults faults_;
  std::unique_ptr<ServeMetrics> metrics_;
  std::atomic<int64_t> open_{0};
  std::atomic<bool> draining_{false};
  uint64_t ordinal_ = 0;
  // Last: its thread ends before what it uses.
  std::unique_ptr<Batcher> batcher_;
};

}  // namespace kcc
