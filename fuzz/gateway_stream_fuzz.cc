// Any bytes as a kernel's answer to a sampled or unsampled request, in any pieces: the client hears
// the same whatever the pieces are, whole events only, and every request ends in one way. The first
// byte is the kind of request, the second seeds the pieces.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/gateway/gateway_exchange.h"
#include "kcc/gateway/gateway_metrics.h"

namespace {

struct Outcome {
  std::string body;
  int status = 0;
  size_t records = 0;
  std::string text;
  size_t tokens = 0;
  bool operator==(const Outcome&) const = default;
};

std::shared_ptr<const kcc::GatewayPool> MakePool() {
  kcc::GatewayPool pool;
  pool.model = "m";
  for (const char* name : {"a", "b"}) {
    kcc::PoolKernel kernel;
    kernel.name = name;
    kernel.role = pool.kernels.empty() ? kcc::KernelRole::kInfer : kcc::KernelRole::kFallback;
    kernel.fingerprint = "fp";
    kernel.wire = kcc::FindWireDialect("vllm");
    pool.kernels.push_back(kernel);
  }
  return std::make_shared<const kcc::GatewayPool>(std::move(pool));
}

Outcome Run(std::string_view answer, uint8_t kind, uint8_t seed) {
  static const auto pool = MakePool();
  static const kcc::ManualClock clock(1);
  kcc::GatewayCore core(pool, 1, 8, &clock);
  kcc::GatewayWorker& worker = *core.workers()[0];
  core.route().Publish(kcc::Route24{0, kcc::kNoKernel, 0});
  const bool sampled = (kind & 1) != 0, events = (kind & 2) != 0, breaks = (kind & 8) != 0;
  const bool chat = (kind & 4) != 0;
  if (sampled)
    core.route().Publish(kcc::Sampling24{kcc::kWholeShare, kcc::kNoKernel, 0, kcc::kNoKernel});
  Outcome outcome;
  bool over = false;
  size_t kernel = 9;
  const auto take = [&](const kcc::Step& step) {
    KCC_CHECK(!over || step.kind == kcc::StepKind::kWait);
    if (step.kind == kcc::StepKind::kSend) kernel = step.ask.kernel;
    if (step.kind == kcc::StepKind::kAnswer) {
      outcome.body = step.answer.body, outcome.status = step.answer.status;
    }
    if (step.header) {
      KCC_CHECK(outcome.status == 0);
      outcome.status = step.header->status;
    }
    if (step.kind >= kcc::StepKind::kPass) outcome.body += step.bytes;
    KCC_CHECK(step.kind < kcc::StepKind::kPass || outcome.status != 0);
    over = step.kind == kcc::StepKind::kAnswer || step.kind == kcc::StepKind::kDone ||
           step.kind == kcc::StepKind::kCut;
  };
  {
    kcc::GatewayExchange exchange(core, worker);
    const kcc::HeaderField json[] = {{"content-type", "application/json"}};
    take(exchange.Start({"POST", chat ? "/v1/chat/completions" : "/v1/completions", json, ""},
                        chat ? R"({"model":"m","messages":[]})" : R"({"model":"m","prompt":"a"})",
                        0));
    KCC_CHECK(kernel == 0);
    const kcc::HeaderField head[] = {
        {"content-type", events ? "text/event-stream" : "application/json"}};
    take(exchange.OnHead(200, head, 1));
    uint32_t random = seed;
    for (size_t at = 0; at < answer.size() && !over && kernel == 0;) {
      random = random * 1664525 + 1013904223;
      const size_t length = seed == 0 ? answer.size() : 1 + (random >> 24) % 19;
      const std::string piece(answer.substr(at, length));
      take(exchange.OnBody(piece, 2));
      at += length;
    }
    if (!over && kernel == 0) {
      take(breaks ? exchange.OnFailure(kcc::UpstreamFailure::kBroken, 3) : exchange.OnEnd(3));
    }
    if (!over && kernel == 1) take(exchange.OnFailure(kcc::UpstreamFailure::kConnect, 4));
    KCC_CHECK(over);
  }
  const kcc::GatewayTotals t = kcc::TotalsOf(core);
  KCC_CHECK(t.came == 1 && t.under_way == 0 && t.left == 0);
  KCC_CHECK(t.answered + t.cut + t.refused == 1);
  while (auto record = worker.ring().Take()) {
    ++outcome.records;
    outcome.text += record->text;
    outcome.tokens += record->tokens.size();
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > (1 << 16)) return 0;  // within what waits before content
  const std::string_view answer(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Outcome whole = Run(answer, data[0], 0);
  const Outcome pieces = Run(answer, data[0], data[1] | 1);
  KCC_CHECK(whole == pieces);
  const bool sampled = (data[0] & 1) != 0;
  if (!sampled && whole.status == 200 && (data[0] & 2) == 0) KCC_CHECK(whole.body == answer);
  return 0;
}
