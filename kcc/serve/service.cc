#include "kcc/serve/service.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/kernel/exec_protocol.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/serve/body_reader.h"

namespace kcc {
namespace {

// Tokens of KV cache unless kv_tokens says otherwise: for a few requests of any length, or many of
// the usual one.
constexpr size_t kCacheTokens = 32768;
// Whose formats are spoken; what stands behind the plus is kcc's own.
constexpr std::string_view kDialectVersion = "0.32.0";

struct Route {
  std::string_view path;
  ApiKind kind;
};
constexpr std::array<Route, 3> kGenerationRoutes = {
    {{"/v1/completions", ApiKind::kCompletion},
     {"/v1/chat/completions", ApiKind::kChat},
     {"/inference/v1/generate", ApiKind::kGenerate}}};
constexpr std::array<std::string_view, 4> kGetPaths = {"/health", "/version", "/v1/models",
                                                       "/metrics"};
constexpr std::array<std::string_view, 2> kTokenPaths = {"/tokenize", "/detokenize"};

const Route* GenerationRoute(std::string_view path) {
  for (const Route& route : kGenerationRoutes) {
    if (route.path == path) return &route;
  }
  return nullptr;
}

template <class Paths>
bool Has(const Paths& paths, std::string_view path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

// What is said of a body that is no JSON object; none, and the object, otherwise.
std::optional<ApiError> ParseBody(const std::string& body, json::parser* parser,
                                  json::object* object) {
  const Result<json::element> root = ParseJson(*parser, body);
  if (!root.has_value())
    return ApiError{400, "the body is not JSON: " + root.error().message(), "", ""};
  if (root->get(*object) == simdjson::SUCCESS) return std::nullopt;
  return ApiError{400, "the body must be a JSON object, it is " + std::string(JsonTypeName(*root)),
                  "", ""};
}

HttpAnswer NotFound(const HttpAsk& ask) {
  return HttpAnswer::Of({404, "there is no " + ask.path, "", "not_found"});
}

HttpAnswer WrongMethod(const HttpAsk& ask, const std::string& allowed) {
  HttpAnswer answer = HttpAnswer::Of(
      {405, ask.method + " is not for " + ask.path + "; use " + allowed, "", "method_not_allowed"});
  answer.headers.emplace_back("Allow", allowed);
  return answer;
}

}  // namespace

Service::Service(const ServiceOptions& options, Checkpoint checkpoint)
    : options_(options),
      clock_(options.clock == nullptr ? TheSystemClock() : *options.clock),
      checkpoint_(std::move(checkpoint)) {}

Result<std::unique_ptr<Service>> Service::Open(const ServiceOptions& options) {
  KCC_TRY(Checkpoint checkpoint, ReadCheckpoint(options.model_directory));
  std::unique_ptr<Service> made(new Service(options, std::move(checkpoint)));
  KCC_TRY_VOID(made->Start());
  return made;
}

// The longest request is what the model has positions for and the cache has room for, so that one
// request alone always fits.
Result<> Service::Start() {
  const LabSwitches& switches = options_.switches;
  const size_t positions = checkpoint_.config.positions;
  const size_t cache =
      switches.kv_tokens > 0 ? switches.kv_tokens : std::max(positions, kCacheTokens);
  const size_t longest = std::min(positions, cache / switches.page * switches.page);
  if (longest < 2) return InvalidError("kv_tokens has no room for a request; raise it");
  KCC_TRY(model_, ServedModel::Read(options_.model_directory, checkpoint_.config.vocab, longest));
  metrics_ = std::make_unique<ServeMetrics>(model_.name);
  KCC_TRY(batcher_, Batcher::Open(checkpoint_, switches, cache));
  fingerprint_ = LabKernelInfo(batcher_->model(), switches).fingerprint;
  return {};
}

uint64_t Service::Handle(const HttpAsk& ask, std::shared_ptr<ReplySink> sink) {
  const auto say = [&](HttpAnswer answer) {
    if (answer.status >= 400) metrics_->OnRefused(answer.status);
    sink->Answer(std::move(answer), 0);
    return uint64_t{0};
  };
  const Route* route = GenerationRoute(ask.path);
  const bool tokens = Has(kTokenPaths, ask.path);
  if (route != nullptr || tokens) {
    if (ask.method != "POST") return say(WrongMethod(ask, "POST"));
    if (route != nullptr) return Generate(route->kind, ask.body, std::move(sink));
    return say(ask.path == "/tokenize" ? Tokenize(ask.body) : Detokenize(ask.body));
  }
  if (!Has(kGetPaths, ask.path)) return say(NotFound(ask));
  if (ask.method != "GET" && ask.method != "HEAD") return say(WrongMethod(ask, "GET"));
  return say(Get(ask.path));
}

uint64_t Service::Generate(ApiKind kind, const std::string& body, std::shared_ptr<ReplySink> sink) {
  const auto refuse = [&](const ApiError& error, int wait_ms) {
    metrics_->OnRefused(error.status);
    HttpAnswer answer = HttpAnswer::Of(error);
    if (error.status == 429 || error.status == 503) answer.headers.emplace_back("Retry-After", "1");
    sink->Answer(std::move(answer), wait_ms);
    return uint64_t{0};
  };
  if (draining_) return refuse({503, "the server is shutting down", "", "shutting_down"}, 0);
  json::parser parser;
  json::object object;
  GenerationRequest request;
  std::optional<ApiError> error = ParseBody(body, &parser, &object);
  if (!error) error = ReadGenerationRequest(kind, object, model_, &request);
  if (error) return refuse(*error, 0);
  if (batcher_->state().waiting >= options_.queue_max) {
    return refuse(
        {429, "too many requests wait already; come back later", "", "rate_limit_exceeded"}, 0);
  }
  std::vector<std::string> applied;
  FaultPlan plan = faults_.Plan(request, &applied);
  for (const std::string& name : applied) metrics_->OnFault(name);
  if (plan.status) {
    return refuse({*plan.status, "a fault that was set on this server", "", "injected_fault"},
                  plan.latency_ms);
  }
  const uint64_t ordinal = ++ordinal_;
  AnswerHead head;
  head.id = (kind == ApiKind::kChat         ? "chatcmpl-"
             : kind == ApiKind::kCompletion ? "cmpl-"
                                            : "gen-") +
            std::to_string(ordinal);
  head.created_s = clock_.NowMs() / 1000;
  head.fingerprint = plan.fingerprint.value_or(fingerprint_);
  const size_t engine = plan.engine.value_or(0);
  auto exchange = std::make_unique<Exchange>(
      ExchangeContext{&model_, metrics_.get(), &clock_, &open_}, std::move(head),
      std::move(request), std::move(plan), std::move(sink));
  // Without a seed a request draws from its place in the order of arrival.
  std::vector<SequenceAsk> asks = exchange->Asks(RequestSeed(0, std::to_string(ordinal)));
  return batcher_->Submit(engine, std::move(asks), std::move(exchange));
}

HttpAnswer Service::Get(const std::string& path) const {
  if (path == "/health") {
    if (draining_) return HttpAnswer::Of({503, "the server is shutting down", "", "shutting_down"});
    return {200, "", "text/plain"};
  }
  if (path == "/version") {
    JsonWriter json(JsonWriter::Style::kCompact);
    const std::string version =
        std::string(kDialectVersion) + "+kcc.lab." + options_.program_version;
    return {200, json.BeginObject().Field("version", version).EndObject().Take()};
  }
  if (path == "/metrics") {
    return {200, metrics_->Text(batcher_->state(), batcher_->cache_bytes(), options_.switches.page),
            "text/plain; version=0.0.4; charset=utf-8"};
  }
  return Models();
}

HttpAnswer Service::Models() const {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("object", "list").Key("data").BeginArray().BeginObject();
  json.Field("id", model_.name).Field("object", "model").Field("created", 0);
  // Whose dialect this is, by which clients tell servers apart.
  json.Field("owned_by", "vllm").Field("root", model_.name).Key("parent").Null();
  json.Field("max_model_len", model_.positions);
  return {200, json.EndObject().EndArray().EndObject().Take()};
}

HttpAnswer Service::Tokenize(const std::string& text) const {
  json::parser parser;
  json::object object;
  if (const auto error = ParseBody(text, &parser, &object)) return HttpAnswer::Of(*error);
  BodyReader body(object);
  if (JsonMember(object, "messages")) return TokenizeChat(object);
  std::optional<std::string> prompt = body.Text("prompt");
  const bool with_texts = body.Bool("return_token_strs").value_or(false);
  if (!prompt) body.Fail("prompt", "'prompt' must be a text");
  if (!model_.tokenizer)
    body.Fail("prompt", "this model is served by token ids only: " + model_.no_text);
  if (body.failed()) return HttpAnswer::Of(*body.error());
  return Tokens(model_.tokenizer->Encode(*prompt), with_texts);
}

// The prompt that the chat route would make of the same conversation.
HttpAnswer Service::TokenizeChat(json::object object) const {
  GenerationRequest request;
  if (const auto error = ReadGenerationRequest(ApiKind::kChat, object, model_, &request)) {
    return HttpAnswer::Of(*error);
  }
  BodyReader body(object);
  return Tokens(request.prompts[0], body.Bool("return_token_strs").value_or(false));
}

HttpAnswer Service::Tokens(const std::vector<int32_t>& ids, bool with_texts) const {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("count", ids.size()).Field("max_model_len", model_.positions);
  json.Key("tokens").BeginArray();
  for (const int32_t id : ids) json.Value(id);
  json.EndArray().Key("token_strs");
  if (with_texts) {
    json.BeginArray();
    for (const int32_t id : ids) json.Value(model_.tokenizer->Bytes(id, false));
    json.EndArray();
  } else {
    json.Null();
  }
  return {200, json.EndObject().Take()};
}

HttpAnswer Service::Detokenize(const std::string& text) const {
  json::parser parser;
  json::object object;
  if (const auto error = ParseBody(text, &parser, &object)) return HttpAnswer::Of(*error);
  BodyReader body(object);
  const auto ids = body.Tokens("tokens", model_.vocab);
  if (!ids) body.Fail("tokens", "'tokens' must be a list of token ids");
  if (!model_.tokenizer)
    body.Fail("tokens", "this model is served by token ids only: " + model_.no_text);
  if (body.failed()) return HttpAnswer::Of(*body.error());
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("prompt", model_.tokenizer->Decode(*ids, false));
  return {200, json.EndObject().Take()};
}

// "kv=e4m3&batch=dynamic" on top of the switches that are served.
Result<size_t> Service::EngineOf(std::string_view text) {
  KCC_TRY(const LabUri uri, ParseLabUri("lab:custom?" + std::string(text)));
  if (!uri.model.empty()) return InvalidError("a fault changes switches, not the model");
  LabSwitches switches = options_.switches;
  for (const auto& [name, value] : uri.options) {
    if (name == "threads" || name == "kv_tokens" || name == "page") {
      return InvalidError("'" + name + "' shapes the server itself; it is no fault");
    }
    KCC_TRY_VOID(SetSwitch(name, value, &switches));
  }
  return batcher_->EngineFor(switches);
}

HttpAnswer Service::SetFault(const std::string& body) {
  json::parser parser;
  json::object object;
  if (const auto error = ParseBody(body, &parser, &object)) return HttpAnswer::Of(*error);
  FaultRule rule;
  const EngineFinder engine = [&](std::string_view switches) { return EngineOf(switches); };
  if (const auto error = ReadFaultRule(object, engine, &rule)) return HttpAnswer::Of(*error);
  if (!faults_.Set(std::move(rule))) {
    return HttpAnswer::Of(
        {400, "there are " + std::to_string(kFaultsMax) + " faults already", "", ""});
  }
  return {200, faults_.Json()};
}

HttpAnswer Service::HandleAdmin(const HttpAsk& ask) {
  constexpr std::string_view kFaults = "/faults";
  if (ask.path == kFaults) {
    if (ask.method == "GET") return {200, faults_.Json()};
    if (ask.method == "DELETE") {
      faults_.Clear(std::nullopt);
      return {200, faults_.Json()};
    }
    if (ask.method != "POST") return WrongMethod(ask, "GET, POST, DELETE");
    // A page in a browser can send other types to this port without asking, but not this one.
    if (!ask.content_type.starts_with("application/json")) {
      return HttpAnswer::Of({415, "send the fault with Content-Type: application/json", "", ""});
    }
    return SetFault(ask.body);
  }
  const std::string prefix = std::string(kFaults) + "/";
  if (!ask.path.starts_with(prefix)) return NotFound(ask);
  if (ask.method != "DELETE") return WrongMethod(ask, "DELETE");
  const std::string name = ask.path.substr(prefix.size());
  if (!faults_.Clear(name))
    return HttpAnswer::Of({404, "there is no fault '" + name + "'", "", "not_found"});
  return {200, faults_.Json()};
}

}  // namespace kcc
