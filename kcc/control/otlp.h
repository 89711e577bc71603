// Metrics and spans of sampled requests to a collector, as OTLP over HTTP in JSON.
//
// The metrics are those of GET /metrics, under their names there. Nobody waits for the collector:
// spans for which there is no room are dropped and counted, and so are those that it does not take.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/gateway/served_record.h"
#include "kcc/kernel/http_pool.h"

namespace kcc {

struct OtlpOptions {
  std::string url;      // of the collector: "http://127.0.0.1:4318"
  std::string gateway;  // its name
  std::string kcc_version;
  std::function<std::string()> metrics;  // in Prometheus' text form
  int64_t every_ms = 10'000;
  size_t spans_max = 2048;
};

struct OtlpCounts {
  uint64_t spans = 0, dropped = 0, failures = 0;
};

class OtlpExporter {
 public:
  static Result<std::unique_ptr<OtlpExporter>> Start(OtlpOptions options, const Clock* clock);
  ~OtlpExporter();  // sends what waits, if the collector takes it at once
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // Any thread; returns at once. Texts of requests and answers are no part of a span.
  void Take(const ServedRecord& record);
  OtlpCounts counts() const;

 private:
  OtlpExporter(OtlpOptions options, std::unique_ptr<HttpPool> pool, const Clock* clock);
  void Run();
  void Send(const std::string& path, const std::string& body, uint64_t spans);

  OtlpOptions options_;
  std::unique_ptr<HttpPool> pool_;  // the thread's
  const Clock* clock_;
  const int64_t started_ms_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false;
  std::deque<std::string> spans_;  // as JSON
  OtlpCounts counts_;
  std::thread thread_;
};

// The bodies of POST /v1/metrics and /v1/traces.
std::string OtlpMetrics(const OtlpOptions& options, const std::string& prometheus,
                        int64_t started_ms, int64_t now_ms);
std::string OtlpSpan(const ServedRecord& record);

}  // namespace kcc
