#include "kcc/serve/metrics.h"

#include <algorithm>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

// vLLM's, as far as a lab server can reach.
constexpr std::array<double, 12> kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06,
                                                0.08,  0.1,   0.25, 0.5,  1,    10};
constexpr std::array<double, 10> kNextToken = {0.001, 0.0025, 0.005, 0.01, 0.025,
                                               0.05,  0.1,    0.25,  0.5,  1};
constexpr std::array<double, 10> kWhole = {0.01, 0.05, 0.1, 0.3, 0.5, 1, 2.5, 5, 10, 60};

void Head(std::string_view name, std::string_view help, std::string_view type, std::string* text) {
  *text += "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " +
           std::string(name) + " " + std::string(type) + "\n";
}

void Line(std::string_view name, std::string_view labels, double value, std::string* text) {
  *text += std::string(name) + "{" + std::string(labels) + "} " + ShortestNumber(value) + "\n";
}

// A label's value, as Prometheus quotes it.
std::string Quoted(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

}  // namespace

void SecondsHistogram::Add(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  if (at != bounds_.end()) ++counts_[static_cast<size_t>(at - bounds_.begin())];
  ++total_;
  sum_ += value;
}

void SecondsHistogram::Write(std::string_view name, std::string_view help, std::string_view labels,
                             std::string* text) const {
  Head(name, help, "histogram", text);
  const std::string base(name);
  const std::string with = std::string(labels) + ",le=";
  uint64_t below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    Line(base + "_bucket", with + Quoted(ShortestNumber(bounds_[i])), static_cast<double>(below),
         text);
  }
  Line(base + "_bucket", with + "\"+Inf\"", static_cast<double>(total_), text);
  Line(base + "_sum", labels, sum_, text);
  Line(base + "_count", labels, static_cast<double>(total_), text);
}

ServeMetrics::ServeMetrics(std::string model)
    : model_(std::move(model)), first_token_(kFirstToken), next_token_(kNextToken), whole_(kWhole) {
  for (const std::string_view reason : {"stop", "length", "abort", "error"}) {
    ended_.emplace(reason, 0);
  }
}

void ServeMetrics::OnPrompt(size_t tokens) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += tokens;
}

void ServeMetrics::OnFirstToken(double seconds) {
  const std::lock_guard lock(mutex_);
  ++output_tokens_;
  first_token_.Add(seconds);
}

void ServeMetrics::OnNextToken(double seconds) {
  const std::lock_guard lock(mutex_);
  ++output_tokens_;
  next_token_.Add(seconds);
}

void ServeMetrics::OnEnd(std::string_view reason, double seconds) {
  const std::lock_guard lock(mutex_);
  ++ended_[std::string(reason)];
  whole_.Add(seconds);
}

void ServeMetrics::OnFault(std::string_view rule) {
  const std::lock_guard lock(mutex_);
  ++faults_[std::string(rule)];
}

void ServeMetrics::OnRefused(int status) {
  const std::lock_guard lock(mutex_);
  ++refused_[status];
}

std::string ServeMetrics::Text(const BatcherState& state, size_t cache_bytes, size_t page) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const std::string labels = "engine=\"0\",model_name=" + Quoted(model_);
  const auto one = [&](std::string_view name, std::string_view help, std::string_view type,
                       double value) {
    Head(name, help, type, &text);
    Line(name, labels, value, &text);
  };
  one("vllm:num_requests_running", "Sequences in the steps of the engine.", "gauge",
      static_cast<double>(state.running));
  one("vllm:num_requests_waiting", "Sequences that wait for their first step.", "gauge",
      static_cast<double>(state.waiting));
  one("vllm:kv_cache_usage_perc", "KV cache in use; 1 is all of it.", "gauge", state.cache_usage);
  one("vllm:num_preemptions_total", "Sequences that gave their KV cache to earlier ones.",
      "counter", static_cast<double>(state.preemptions));
  one("vllm:prompt_tokens_total", "Prompt tokens of accepted requests.", "counter",
      static_cast<double>(prompt_tokens_));
  one("vllm:generation_tokens_total", "Tokens given out.", "counter",
      static_cast<double>(output_tokens_));
  Head("vllm:request_success_total", "Choices that ended, by reason.", "counter", &text);
  for (const auto& [reason, count] : ended_) {
    Line("vllm:request_success_total", labels + ",finished_reason=" + Quoted(reason),
         static_cast<double>(count), &text);
  }
  first_token_.Write("vllm:time_to_first_token_seconds", "From request to first token.", labels,
                     &text);
  next_token_.Write("vllm:inter_token_latency_seconds", "From token to token.", labels, &text);
  whole_.Write("vllm:e2e_request_latency_seconds", "From request to end.", labels, &text);
  Head("vllm:cache_config_info", "The KV cache.", "gauge", &text);
  Line("vllm:cache_config_info",
       "block_size=" + Quoted(std::to_string(page)) +
           ",engine=\"0\",kv_cache_memory_bytes=" + Quoted(std::to_string(cache_bytes)),
       1, &text);
  Head("kcc:requests_refused_total", "Requests that were refused, by status.", "counter", &text);
  for (const auto& [status, count] : refused_) {
    Line("kcc:requests_refused_total", "status=" + Quoted(std::to_string(status)),
         static_cast<double>(count), &text);
  }
  Head("kcc:faults_total", "Requests that a fault was applied to, by its name.", "counter", &text);
  for (const auto& [rule, count] : faults_) {
    Line("kcc:faults_total", "fault=" + Quoted(rule), static_cast<double>(count), &text);
  }
  return text;
}

}  // namespace kcc
