// What the server counts, in Prometheus' text form under vLLM's names. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/serve/batcher.h"

namespace kcc {

// Counts of observations up to each of some bounds.
class SecondsHistogram {
 public:
  // The bounds outlive the histogram.
  explicit SecondsHistogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size()) {}
  void Add(double value);
  void Write(std::string_view name, std::string_view help, std::string_view labels,
             std::string* text) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // not cumulative
  uint64_t total_ = 0;
  double sum_ = 0;
};

class ServeMetrics {
 public:
  explicit ServeMetrics(std::string model);

  void OnPrompt(size_t tokens);
  void OnFirstToken(double seconds);
  void OnNextToken(double seconds);  // since the one before
  // A choice that ended: "stop", "length", "abort" or "error", so long after its request came.
  void OnEnd(std::string_view reason, double seconds);
  void OnFault(std::string_view rule);
  void OnRefused(int status);

  std::string Text(const BatcherState& state, size_t cache_bytes, size_t page) const;

 private:
  const std::string model_;
  mutable std::mutex mutex_;
  uint64_t prompt_tokens_ = 0;
  uint64_t output_tokens_ = 0;
  std::map<std::string, uint64_t, std::less<>> ended_;
  std::map<std::string, uint64_t, std::less<>> faults_;
  std::map<int, uint64_t> refused_;
  SecondsHistogram first_token_;
  SecondsHistogram next_token_;
  SecondsHistogram whole_;
};

}  // namespace kcc
