#include "kcc/control/gateway_api.h"

#include <charconv>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/control/dashboard.h"
#include "kcc/format/json.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

constexpr int kApiVersion = 1;
constexpr int64_t kStatusEveryMs = 5000;
constexpr int64_t kStatusAtMostEveryMs = 900;

std::string_view TypeOf(int status) {
  constexpr int kServerErrors = 500;
  return status >= kServerErrors ? "server_error" : "invalid_request_error";
}

GatewayAnswer Json(int status, std::string body) {
  GatewayAnswer answer;
  answer.status = status;
  answer.body = std::move(body);
  answer.headers.emplace_back("cache-control", "no-store");
  return answer;
}

JsonWriter Begun() {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("kccGateway", kApiVersion);
  return json;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
                        HexDigit(text[i + 2]) >= 0;
    if (escape) {
      decoded += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Milliseconds since 1970, or a time as people write it.
std::optional<int64_t> TimeOf(const std::string& text) {
  int64_t plain = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), plain);
  if (failed == std::errc() && end == text.data() + text.size()) {
    if (plain < 0 || plain > kTimestampMsMax) return std::nullopt;
    return plain;
  }
  return ParseTimestamp(text);
}

// What Flagger's webhooks and our own bodies may name.
struct BodyMembers {
  std::string contract, stage, kernel;
  std::optional<double> share;
};
Result<BodyMembers> ReadMembers(const std::string& body) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, body));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("the body is a JSON object");
  BodyMembers members;
  members.kernel = JsonText(JsonMember(object, "kernel"));
  if (const auto share = JsonMember(object, "share")) {
    members.share = JsonNumber(*share);
    if (!members.share) return InvalidError("'share' is a number from 0 to 1");
  }
  json::object metadata;
  const auto meta = JsonMember(object, "metadata");
  if (meta && meta->get(metadata) == simdjson::SUCCESS) {
    members.contract = JsonText(JsonMember(metadata, "contract"));
    members.stage = JsonText(JsonMember(metadata, "stage"));
    members.kernel = JsonText(JsonMember(metadata, "kernel"));
  }
  return members;
}

}  // namespace

GatewayAnswer ApiError(int status, const std::string& message, const std::string& code) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Key("error").BeginObject().Field("message", message);
  json.Field("type", TypeOf(status)).Key("param").Null().Field("code", code);
  return Json(status, json.EndObject().EndObject().Take());
}

std::string QueryValue(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    const size_t equals = pair.find('=');
    if (pair.substr(0, equals) == name && equals != std::string_view::npos) {
      return Decoded(pair.substr(equals + 1));
    }
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return {};
}

GatewayAnswer GatewayApi::Handle(const AskHead& head, const std::string& body,
                                 const std::shared_ptr<EventSink>& sink) {
  const size_t question = head.target.find('?');
  const std::string path(head.target.substr(0, question));
  const std::string query(question == std::string_view::npos ? ""
                                                             : head.target.substr(question + 1));
  if (head.method == "GET" || head.method == "HEAD") return Get(path, query, sink);
  if (head.method == "POST") return Post(path, body);
  return ApiError(405, "the admin port answers GET and POST", "method_not_allowed");
}

GatewayAnswer GatewayApi::Get(const std::string& path, const std::string& query,
                              const std::shared_ptr<EventSink>& sink) {
  if (path == "/") {
    GatewayAnswer page;
    page.body = DashboardPage();
    page.content_type = "text/html; charset=utf-8";
    page.headers = {{"content-security-policy", DashboardPolicy()},
                    {"x-content-type-options", "nosniff"},
                    {"referrer-policy", "no-referrer"},
                    {"cache-control", "no-store"}};
    return page;
  }
  if (path == "/healthz") {
    JsonWriter json = Begun();
    return Json(200, json.Field("live", true).EndObject().Take());
  }
  if (path == "/readyz") return Ready();
  if (path == "/metrics") {
    GatewayAnswer metrics = Json(200, Metrics());
    metrics.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return metrics;
  }
  if (path == "/v1/status") return Json(200, StatusJson(parts_.now()));
  if (path == "/v1/health") return Json(200, HealthJson(parts_.now()));
  if (path == "/v1/verdict") {
    const VerdictAsked asked{QueryValue(query, "contract"), QueryValue(query, "stage"),
                             QueryValue(query, "kernel")};
    return Json(200, VerdictOf(parts_.now(), asked).json);
  }
  if (path == "/v1/events") return Listen(sink);
  if (path == "/v1/why") return Why(query);
  return ApiError(404, "the admin port has no '" + path + "'", "not_found");
}

GatewayAnswer GatewayApi::Post(const std::string& path, const std::string& body) {
  if (path == "/v1/reload") return Reload();
  if (path == "/v1/canary") return SetCanary(body);
  constexpr std::string_view kFlagger = "/v1/flagger/";
  if (path.starts_with(kFlagger)) return Flagger(path.substr(kFlagger.size()), body);
  return ApiError(404, "the admin port takes no POST to '" + path + "'", "not_found");
}

GatewayAnswer GatewayApi::Ready() {
  const GatewayNow now = parts_.now();
  std::string why;
  if (draining_.load()) {
    why = "the gateway is draining";
  } else if (now.view->plan.serves.empty()) {
    why = "no kernel serves: " + now.view->plan.reason;
  }
  JsonWriter json = Begun();
  json.Field("ready", why.empty()).Field("reason", why);
  return Json(why.empty() ? 200 : 503, json.EndObject().Take());
}

std::string GatewayApi::Metrics() { return ControlMetrics(parts_.now()) + parts_.core_metrics(); }

GatewayAnswer GatewayApi::Listen(const std::shared_ptr<EventSink>& sink) {
  if (!sink) {
    return ApiError(406, "events are a stream: ask with Accept: text/event-stream",
                    "not_acceptable");
  }
  sink->Event("status", StatusJson(parts_.now()));
  if (!hub_.Add(sink)) return ApiError(503, "too many listeners", "too_many_listeners");
  GatewayAnswer answer;
  answer.content_type = "text/event-stream";
  answer.headers.emplace_back("cache-control", "no-store");
  return answer;
}

GatewayAnswer GatewayApi::Why(const std::string& query) {
  const std::string at = QueryValue(query, "at");
  const std::string request = QueryValue(query, "request");
  if (at.empty() == request.empty()) {
    return ApiError(400, "ask with at=TIME or request=ID", "invalid_query");
  }
  WhyAnswer why;
  if (!request.empty()) {
    why = parts_.history->WhyRequest(request);
  } else {
    const auto time = TimeOf(at);
    if (!time) {
      return ApiError(400, "'" + at + "' is not a time; use 2026-11-18T08:30:00Z or milliseconds",
                      "invalid_time");
    }
    why = parts_.history->WhyAt(*time);
  }
  JsonWriter json = Begun();
  json.Field("found", why.found).Field("text", why.text).Key("change");
  why.change ? WriteEntry(*why.change, &json) : static_cast<void>(json.Null());
  json.Key("because").BeginArray();
  for (const HistoryEntry& entry : why.because) WriteEntry(entry, &json);
  json.EndArray().Key("request");
  if (why.request) {
    json.BeginObject().Field("id", why.request->id).Field("kernel", why.request->kernel);
    json.Field("atMs", why.request->at_ms).Field("observation", why.request->number);
    json.Field("handling", why.request->handling).Field("probe", why.request->probe).EndObject();
  } else {
    json.Null();
  }
  return Json(200, json.EndObject().Take());
}

GatewayAnswer GatewayApi::Reload() {
  const ReloadReport report = parts_.reload();
  JsonWriter json = Begun();
  json.Field("reloaded", report.reloaded).Key("needsRestart").BeginArray();
  for (const std::string& what : report.needs_restart) json.Value(what);
  json.EndArray();
  if (!report.reloaded) {
    json.Key("error").BeginObject();
    json.Field("message", "the configuration is not valid; the old one serves on");
    json.Field("type", "invalid_request_error").Key("param").Null();
    json.Field("code", "invalid_configuration").EndObject().Key("diagnostics").BeginArray();
    for (const std::string& problem : report.problems) json.Value(problem);
    json.EndArray();
  }
  return Json(report.reloaded ? 200 : 422, json.EndObject().Take());
}

// A share may always shrink. It grows beyond what the configuration says on a satisfied verdict
// alone, and never beyond what a promotion allows.
GatewayAnswer GatewayApi::SetCanary(const std::string& body) {
  const auto asked = ReadMembers(body);
  if (!asked.has_value()) return ApiError(400, asked.error().message(), "invalid_body");
  const double share = asked->share.value_or(-1);
  if (asked->kernel.empty() || !(share >= 0 && share <= 1)) {
    return ApiError(400, "the body is {\"kernel\": NAME, \"share\": 0 to 1}", "invalid_body");
  }
  const auto allowed = parts_.share_allowed ? parts_.share_allowed(asked->kernel) : std::nullopt;
  // By value: it may be under way yet when this has given up waiting for it.
  const auto make = [this, wanted = asked->kernel, share,
                     allowed](const EvaluatorView& view) -> Result<RouteWishes> {
    RouteWishes wishes = view.wishes;
    const KernelStatus* kernel = nullptr;
    for (const KernelStatus& one : view.status.kernels) {
      if (one.name == wanted) kernel = &one;
    }
    if (kernel == nullptr || !IsServable(kernel->role)) {
      return InvalidError("the pool has no kernel '" + wanted + "' that may serve");
    }
    const bool same = wishes.canary == kernel->name;
    const bool wider = share > (same ? wishes.canary_share : 0);
    wishes.canary = kernel->name;
    wishes.canary_share = share;
    if (!wider) return wishes;
    if (kernel->state == KernelState::kGuarded) {
      return InvalidError(kernel->name + " is guarded; evidence alone brings it back");
    }
    if (view.log_failed) return InvalidError("the decision log cannot be written; no share grows");
    if (const std::string held = parts_.decider->held(); !held.empty()) {
      return InvalidError("no share grows: " + held);
    }
    if (allowed && share > *allowed) {
      return InvalidError("the promotion allows " + wanted + " a share of " +
                          ReadableNumber(*allowed));
    }
    const bool configured =
        kernel->name == parts_.configured_canary && share <= parts_.configured_share;
    if (!configured && !allowed && kernel->verdict != Verdict::kSatisfied) {
      return InvalidError(
          "a canary is not widened without evidence: " + kernel->name + " is " +
          std::string(Name(kernel->verdict)) + ", and the configuration gives it a share of " +
          ReadableNumber(kernel->name == parts_.configured_canary ? parts_.configured_share : 0));
    }
    return wishes;
  };
  const Result<> done = parts_.decider->Wish(
      make, "canary",
      "an operator set the share of " + asked->kernel + " to " + ReadableNumber(share));
  if (!done.has_value()) {
    const bool refused = done.error().code() == ErrorCode::kInvalid;
    return ApiError(refused ? 409 : 503, done.error().message(),
                    refused ? "canary_refused" : "evaluator_silent");
  }
  const auto view = parts_.decider->view();
  const Result<> kept = parts_.keep ? parts_.keep(view->wishes) : Result<>();
  JsonWriter json = Begun();
  json.Field("kernel", asked->kernel).Field("share", view->wishes.canary_share);
  json.Field("inForce", view->plan.canary_share);
  json.Field("outlastsARestart", parts_.keep && kept.has_value()).EndObject();
  return Json(200, json.Take());
}

// 200 lets Flagger go on. `rollback` is inverted: there 200 is what causes one.
GatewayAnswer GatewayApi::Flagger(const std::string& hook, const std::string& body) {
  const auto asked = ReadMembers(body);
  if (!asked.has_value()) return ApiError(400, asked.error().message(), "invalid_body");
  VerdictGiven given = VerdictOf(parts_.now(), {asked->contract, asked->stage, asked->kernel});
  bool yes = false;
  if (hook == "confirm-promotion") {
    yes = given.verdict == Verdict::kSatisfied;
  } else if (hook == "rollout") {
    // A quiet night is no reason to roll back.
    yes = given.verdict == Verdict::kSatisfied || given.verdict == Verdict::kInconclusive;
  } else if (hook == "rollback") {
    yes = given.verdict == Verdict::kViolated;
  } else {
    return ApiError(404, "there is no webhook '" + hook + "'", "not_found");
  }
  return Json(yes ? 200 : 412, std::move(given.json));
}

void GatewayApi::Tick() {
  if (hub_.empty()) return;
  const GatewayNow now = parts_.now();
  const int64_t since = now.at_ms - sent_at_ms_;
  const bool changed = changed_.exchange(false);
  if (!(changed && since >= kStatusAtMostEveryMs) && since < kStatusEveryMs) {
    if (changed) changed_.store(true);
    return;
  }
  sent_at_ms_ = now.at_ms;
  hub_.Send("status", StatusJson(now));
}

void GatewayApi::OnHistory(const HistoryEntry& entry) {
  changed_.store(true);
  if (hub_.empty()) return;
  JsonWriter json(JsonWriter::Style::kCompact);
  WriteEntry(entry, &json);
  std::string data = json.Take();
  while (!data.empty() && data.back() == '\n') data.pop_back();
  hub_.Send("change", data);
}

}  // namespace kcc
