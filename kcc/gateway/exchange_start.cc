// The beginning of an exchange: the request is read and checked, a kernel chosen, and what is
// sampled decided, before any answer is known.
#include <utility>

#include "kcc/gateway/exchange_state.h"
#include "kcc/gateway/header_rules.h"
#include "kcc/gateway/openai_error.h"

namespace kcc {
namespace {

// Of hashes that must not go along with each other.
constexpr uint64_t kSessionSalt = 0x73657373696f6e73;
constexpr uint64_t kAuditSalt = 0x617564697473;
constexpr uint64_t kProbeSalt = 0x70726f626573;

uint64_t HashOf(uint64_t salt, uint64_t hash) {
  return HashBytes(salt, std::string_view(reinterpret_cast<const char*>(&hash), sizeof hash));
}

bool MayServe(const GatewayPool& pool, uint64_t allowed, size_t kernel) {
  return kernel < pool.kernels.size() && IsServable(pool.kernels[kernel].role) &&
         (allowed >> kernel & 1) != 0;
}

// A candidate serves where the route names it as the canary, and nowhere else.
bool MayBeCanary(const GatewayPool& pool, uint64_t allowed, size_t kernel) {
  return kernel < pool.kernels.size() && pool.kernels[kernel].role == KernelRole::kCandidate &&
         (allowed >> kernel & 1) != 0;
}

}  // namespace

Step GatewayExchange::State::Start(const AskHead& head, std::string the_body, int64_t now) {
  GatewayCore::RequestName name = core.NewRequest(worker);
  Count(worker.counts().came);
  Count(worker.counts().under_way);
  Count(worker.counts().bytes_in, the_body.size());
  phase = ExchangePhase::kAsked;
  started_us = now;
  started_at_ms = core.clock().NowMs();
  request_hash = name.hash;
  pool = core.PoolFor(worker);
  const auto own_id = FindHeader(head.headers, "x-request-id");
  // Clients may give one id to many requests, and evidence of one id counts once.
  record_id = own_id && IsRequestId(*own_id) ? std::string(*own_id) + "~" + name.id : name.id;
  id = own_id && IsRequestId(*own_id) ? std::string(*own_id) : std::move(name.id);

  GatewayAnswer answer;
  route = FindOpenAiRoute(head, *pool, &answer);
  if (route == nullptr) return Refuse(std::move(answer), now);
  body = std::move(the_body);
  if (body.size() > pool->body_bytes_max) {
    return Refuse(ErrorAnswer(413, "the body is too large", "", "request_too_large"), now);
  }
  if (auto refusal = ScanRequest(body, &scan)) return Refuse(std::move(*refusal), now);
  const auto model = scan.Find("model");
  if (!model || !IsJsonText(*model)) {
    return Refuse(ErrorAnswer(400, "the body must say which 'model' it is for", "model", ""), now);
  }
  if (JsonTextOf(*model) != pool->model) {
    return Refuse(
        ErrorAnswer(404, "there is no model of this name here", "model", "model_not_found"), now);
  }
  stream = scan.Find("stream") == "true";
  for (const AskSource& source : pool->session) {
    if (auto key = ReadSessionKey(source, scan, head.headers)) {
      session = std::move(*key);
      break;
    }
  }
  session_hash =
      session.empty() ? HashOf(kSessionSalt, request_hash) : HashBytes(kSessionSalt, session);
  const std::optional<size_t> first = FirstKernel();
  if (!first) {
    GatewayAnswer refusal =
        ErrorAnswer(503, "no kernel may serve this model at present", "", "no_kernel");
    refusal.headers.emplace_back("retry-after", "1");
    return Refuse(std::move(refusal), now);
  }
  KeepPassedHeaders(head);
  ChooseSamples(head, *first);
  sent_us = now;
  return Send(*first);
}

// The one that the route picks; where that may not serve, what failover would go to.
std::optional<size_t> GatewayExchange::State::FirstKernel() {
  const Route24 words = core.route().route();
  const std::optional<size_t> picked = PickKernel(words, session_hash);
  if (!picked) return std::nullopt;
  const uint64_t allowed = core.route().allowed();
  by_canary = *picked == words.canary && *picked != words.serves;
  if (MayServe(*pool, allowed, *picked) || (by_canary && MayBeCanary(*pool, allowed, *picked))) {
    return picked;
  }
  by_canary = false;
  return NextKernel();
}

// By the route of this moment: what serves, then guards, then fallbacks, in the pool's order.
std::optional<size_t> GatewayExchange::State::NextKernel() const {
  const Route24 words = core.route().route();
  const uint64_t allowed = core.route().allowed();
  if (words.serves == kNoKernel) return std::nullopt;
  const auto is_next = [&](size_t i) {
    return (tried >> i & 1) == 0 && MayServe(*pool, allowed, i);
  };
  if (is_next(words.serves)) return words.serves;
  for (const KernelRole role : {KernelRole::kGuard, KernelRole::kFallback}) {
    for (size_t i = 0; i < pool->kernels.size(); ++i) {
      if (pool->kernels[i].role == role && is_next(i)) return i;
    }
  }
  return std::nullopt;
}

// By the request alone: its hash, and what kind of request it is. Whether the scorer has a place
// is asked before the answer too: what would be lost is not asked for, and counted as dropped.
void GatewayExchange::State::ChooseSamples(const AskHead& head, size_t first) {
  const Sampling24 words = core.route().sampling();
  bool audit = IsSampled(words.audit_share, HashOf(kAuditSalt, request_hash));
  const bool probe = words.probed < pool->kernels.size() &&
                     IsSampled(words.probe_share, HashOf(kProbeSalt, request_hash));
  if (!audit && !probe) return;
  if (!IsAuditable(scan, route->chat)) {
    Count(worker.counts().unauditable);
    return;
  }
  shadow = audit && words.shadow < pool->kernels.size();
  if (audit && (!core.places().HasServed(first) || worker.ring().full() ||
                !worker.budget().Allows(started_us))) {
    Drop(first);
    audit = shadow = false;
  }
  if (!audit && !probe) return;
  for (const RequestField& field : pool->fields) {
    if (auto value = ReadSource(field.from, scan, head.headers)) {
      fields.emplace(field.name, std::move(*value));
    }
  }
  sampled = audit;
  if (probe) PutProbe(words.probed, started_us);
}

void GatewayExchange::State::KeepPassedHeaders(const AskHead& head) {
  for (const std::string_view name : {"traceparent", "tracestate"}) {
    if (const auto value = FindHeader(head.headers, name)) AddHeader(name, *value, &passed);
  }
  const auto keep = [&](const AskSource& source) {
    if (!source.header || NeverPassed(source.name)) return;
    for (const auto& [name, value] : passed) {
      if (SameHeaderName(name, source.name)) return;
    }
    if (const auto value = FindHeader(head.headers, source.name)) {
      AddHeader(source.name, *value, &passed);
    }
  };
  for (const AskSource& source : pool->session) keep(source);
  for (const RequestField& field : pool->fields) keep(field.from);
}

Step GatewayExchange::State::Send(size_t to) {
  kernel = to;
  tried |= uint64_t{1} << to;
  phase = ExchangePhase::kAsked;
  EditedRequest edited =
      EditRequest(body, scan, *pool, asked(), route->chat, stream, sampled && !sampling_refused);
  injected = edited.injected;
  reader.reset();
  if (sampled) {
    reader.emplace(*asked().wire, route->chat, injected, edited.token_id_texts,
                   pool->answer_bytes_max);
  }
  owed = sampled;
  Count(counts().sent);
  Step step;
  step.kind = StepKind::kSend;
  step.ask.kernel = to;
  step.ask.method = "POST";
  step.ask.target = route->path;
  step.ask.headers.reserve(passed.size() + 4);
  step.ask.headers.emplace_back("content-type", "application/json");
  step.ask.headers.emplace_back("accept", stream ? "text/event-stream" : "application/json");
  step.ask.headers.emplace_back("accept-encoding", "identity");
  step.ask.headers.emplace_back("x-request-id", id);
  step.ask.headers.insert(step.ask.headers.end(), passed.begin(), passed.end());
  step.ask.body = std::move(edited.body);
  return step;
}

}  // namespace kcc
