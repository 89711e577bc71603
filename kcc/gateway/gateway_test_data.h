// For tests: a pool of three kernels, and a plane that is driven by hand.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/gateway/gateway_exchange.h"
#include "kcc/gateway/gateway_metrics.h"

namespace kcc::testing {

inline constexpr size_t kInferKernel = 0, kGuardKernel = 1, kFallbackKernel = 2,
                        kCandidateKernel = 3;

inline PoolKernel KernelNamed(const std::string& name, KernelRole role) {
  PoolKernel kernel;
  kernel.name = name;
  kernel.role = role;
  kernel.fingerprint = "fp-" + name;
  kernel.wire = FindWireDialect("vllm");
  return kernel;
}

inline GatewayPool SmallPool() {
  GatewayPool pool;
  pool.model = "m";
  pool.kernels = {KernelNamed("int8", KernelRole::kInfer), KernelNamed("bf16", KernelRole::kGuard),
                  KernelNamed("fp32", KernelRole::kFallback),
                  KernelNamed("new", KernelRole::kCandidate)};
  pool.session = {{true, "x-session-id"}, {false, "user"}};
  pool.fields = {{"tags", {true, "x-kcc-tags"}}, {"task", {false, "metadata.task"}}};
  pool.contract_digest = "sha256:abc";
  pool.stage = "full";
  pool.top = 2;
  return pool;
}

struct Gateway {
  explicit Gateway(GatewayPool pool = SmallPool(), size_t ring = 64)
      : core(std::make_shared<const GatewayPool>(std::move(pool)), 1, ring, &clock) {
    core.route().Publish(Route24{kInferKernel, kNoKernel, 0});
  }
  GatewayWorker& worker() { return *core.workers()[0]; }
  WorkerCounts& counts() { return worker().counts(); }
  void SampleAll() { core.route().Publish(Sampling24{kWholeShare, kNoKernel, 0, kNoKernel}); }
  std::vector<ServedRecord> Records() {
    std::vector<ServedRecord> records;
    while (auto record = worker().ring().Take()) {
      record->place.GiveBack();  // it may outlive the core
      records.push_back(std::move(*record));
    }
    return records;
  }
  // Every request that came is somewhere.
  void ExpectCountsAddUp() const {
    const GatewayTotals t = TotalsOf(core);
    EXPECT_EQ(t.came, t.answered + t.cut + t.own + t.refused + t.left + t.under_way);
  }

  ManualClock clock{1'700'000'000'000};
  GatewayCore core;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

inline std::vector<HeaderField> Views(const Headers& headers) {
  std::vector<HeaderField> fields;
  for (const auto& [name, value] : headers) fields.push_back({name, value});
  return fields;
}

// What a client got.
struct Heard {
  int status = 0;
  Headers headers;
  std::optional<uint64_t> length;
  std::string body;
  bool ended = false;
  bool cut = false;

  std::string Header(const std::string& name) const {
    for (const auto& [one, value] : headers) {
      if (one == name) return value;
    }
    return {};
  }
};

// One exchange, and what its client heard.
class Ride {
 public:
  explicit Ride(Gateway& gateway) : exchange(gateway.core, gateway.worker()) {}

  Step Start(const std::string& body, const Headers& more = {},
             const std::string& target = "/v1/chat/completions", const std::string& method = "POST",
             const std::string& type = "application/json") {
    Headers headers = {{"Content-Type", type}};
    headers.insert(headers.end(), more.begin(), more.end());
    const std::vector<HeaderField> fields = Views(headers);
    return Take(exchange.Start({method, target, fields, "127.0.0.1"}, body, now_us));
  }
  Step Head(int status, const Headers& headers = {{"content-type", "application/json"}}) {
    const std::vector<HeaderField> fields = Views(headers);
    return Take(exchange.OnHead(status, fields, now_us));
  }
  Step EventsHead() { return Head(200, {{"content-type", "text/event-stream; charset=utf-8"}}); }
  Step Body(std::string_view bytes) {
    const std::string copy(bytes);  // gone when the call is over
    return Take(exchange.OnBody(copy, now_us));
  }
  Step End() { return Take(exchange.OnEnd(now_us)); }
  Step Fail(UpstreamFailure failure) { return Take(exchange.OnFailure(failure, now_us)); }
  // A whole answer of status 200.
  void Answer(std::string_view body) {
    Head(200);
    Body(body);
    End();
  }

  GatewayExchange exchange;
  Heard heard;
  std::vector<UpstreamAsk> asks;
  int64_t now_us = 1'000'000;

 private:
  Step Take(Step step) {
    now_us += 1000;
    if (step.kind == StepKind::kSend) asks.push_back(step.ask);
    if (step.kind == StepKind::kAnswer) {
      EXPECT_EQ(heard.status, 0) << "two heads";
      heard.status = step.answer.status;
      heard.headers = step.answer.headers;
      heard.body = step.answer.body;
      heard.ended = true;
    }
    if (step.kind == StepKind::kPass || step.kind == StepKind::kDone ||
        step.kind == StepKind::kCut) {
      EXPECT_FALSE(heard.ended || heard.cut) << "said after the end";
      if (step.header) {
        EXPECT_EQ(heard.status, 0) << "two heads";
        heard.status = step.header->status;
        heard.headers = step.header->headers;
        heard.length = step.header->length;
      }
      heard.body += step.bytes;
      heard.ended = step.kind == StepKind::kDone;
      heard.cut = step.kind == StepKind::kCut;
    }
    return step;
  }
};

inline constexpr const char* kChat =
    R"({"model":"m","messages":[{"role":"user","content":"hi"}],"user":"u1"})";
inline constexpr const char* kChatStream =
    R"({"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true})";

}  // namespace kcc::testing
