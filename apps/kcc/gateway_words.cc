#include "apps/kcc/gateway_words.h"

#include <string>
#include <vector>

#include "apps/kcc/console.h"
#include "kcc/base/strings.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/values.h"

namespace kcc::cli {
namespace {

std::string ReachWords(const GatewayAddress& address) {
  return IsLoopback(address.host) ? "; reached from this machine alone" : "";
}

DocumentPart DoorPart(const GatewayConfig& config) {
  DocumentPart part{"door", {}};
  const bool tls = config.tls != GatewayTls();
  part.sentences.push_back({"clients", std::string(tls ? "https" : "http") + "://" +
                                           AddressText(config.listen) + ", asking for the model " +
                                           config.model + ReachWords(config.listen)});
  part.sentences.push_back(
      {"keys", config.client_keys_file.empty()
                   ? std::string("none is asked for")
                   : "one whose SHA-256 stands in " + config.client_keys_file});
  part.sentences.push_back(
      {"admin", "dashboard, API and metrics at " + AddressText(config.admin) +
                    (config.admin_token_file.empty()
                         ? ", open to whoever is on this machine"
                         : ", for those with the token of " + config.admin_token_file)});
  return part;
}

std::string KernelWords(const GatewayKernel& kernel) {
  std::string text = kernel.name + ", " + kernel.server + " at " + UrlText(kernel.url);
  if (!kernel.model.empty()) text += ", as model " + kernel.model;
  if (!kernel.key_file.empty()) text += ", with the key of " + kernel.key_file;
  std::string set;
  for (const auto& [member, json] : kernel.set) {
    set += (set.empty() ? "" : ", ") + member + " " + json;
  }
  return set.empty() ? text : text + "; every request gets " + set;
}

DocumentPart KernelsPart(const GatewayConfig& config) {
  DocumentPart part{"kernels", {}};
  for (const GatewayKernel& kernel : config.kernels) {
    part.sentences.push_back(
        {&kernel == &config.kernels.front() ? "asked" : "", KernelWords(kernel)});
  }
  part.sentences.push_back({"roles", "as the monitor policy " + config.policy_file + " says"});
  return part;
}

DocumentPart RoutesPart(const GatewayConfig& config) {
  DocumentPart part{"routes", {}};
  std::string sessions = "each request is its own";
  if (!config.session.empty()) {
    std::vector<std::string> names;
    for (const GatewaySource& source : config.session) names.push_back(SourceName(source));
    const std::vector<std::string_view> views(names.begin(), names.end());
    sessions =
        "told apart by the first there is of " + JoinWords(views) + "; one stays with its kernel";
  }
  part.sentences.push_back({"sessions", sessions});
  part.sentences.push_back({"canary", config.canary
                                          ? config.canary->kernel + " serves " +
                                                PercentText(config.canary->share) + " of sessions"
                                          : std::string("none")});
  part.sentences.push_back(
      {"shadow", config.shadow.empty()
                     ? std::string("none")
                     : config.shadow + " is asked the audited requests too; nobody gets its "
                                       "answers"});
  part.sentences.push_back(
      {"stage", config.promotion_file.empty()
                    ? std::string(Name(config.stage)) + ", until this document says otherwise"
                    : "as the promotion by " + config.promotion_file + " in " +
                          config.register_url + " says; at first " +
                          std::string(Name(config.stage))});
  part.sentences.push_back(
      {"failover", config.limits.retries_max == 0
                       ? std::string("none: a failure of a kernel is the client's")
                       : Counted(static_cast<size_t>(config.limits.retries_max), "other kernel") +
                             " at most, while nothing was said to the client"});
  return part;
}

std::string HookWords(const GatewayHook& hook) {
  std::string text = hook.field + ": ";
  switch (hook.kind) {
    case GatewayHookKind::kJson:
      text += hook.schema_file.empty() ? "the answer is JSON"
                                       : "the answer is JSON that fits " + hook.schema_file;
      break;
    case GatewayHookKind::kPhrases:
      text += "the answer holds one of " + Counted(hook.phrases.size(), "phrase");
      break;
    case GatewayHookKind::kExec:
      text += "what `" + hook.command + "` says";
      break;
    case GatewayHookKind::kHttp:
      text += "what " + hook.url + " says";
      break;
  }
  return hook.when ? text + ", where " + hook.when->Canonical() : text;
}

std::string StoreWords(StoreRequests store) {
  return "fields, token ids and numbers of audited requests, in the decision log" +
         std::string(store == StoreRequests::kFull ? ", and the texts of prompts and answers"
                                                   : "; no text of prompts and answers");
}

DocumentPart EvidencePart(const GatewayConfig& config) {
  DocumentPart part{"evidence", {}};
  const GatewayScoring& scoring = config.scoring;
  part.sentences.push_back({"judged by", config.contract_file});
  part.sentences.push_back(
      {"scored", "audited requests, with " + std::to_string(scoring.top) +
                     " alternatives a token; at most " + std::to_string(scoring.in_flight_max) +
                     " calls to a kernel at once, " + std::to_string(scoring.waiting_max) +
                     " requests waiting and " + DurationText(scoring.timeout_ms) +
                     " each. What is lost is counted"});
  part.sentences.push_back(
      {"repeats", scoring.determinism_rate == 0
                      ? std::string("none")
                      : PercentText(scoring.determinism_rate) +
                            " of audited requests are asked of their kernel again"});
  for (const GatewayHook& hook : config.hooks) {
    part.sentences.push_back({&hook == &config.hooks.front() ? "grades" : "", HookWords(hook)});
  }
  for (const GatewayField& field : config.fields) {
    part.sentences.push_back({&field == &config.fields.front() ? "fields" : "",
                              field.name + " from " + SourceName(field.from)});
  }
  part.sentences.push_back({"kept", StoreWords(config.store)});
  return part;
}

DocumentPart LimitsPart(const GatewayConfig& config) {
  DocumentPart part{"limits", {}};
  const GatewayLimits& limits = config.limits;
  const GatewayTimes& times = config.times;
  part.sentences.push_back(
      {"of clients",
       std::to_string(limits.connections_max) + " connections, " + SizeText(limits.body_bytes_max) +
           " a body, " + SizeText(limits.header_bytes_max) + " a head, " +
           (limits.requests_per_second_max > 0
                ? ShortestNumber(limits.requests_per_second_max) + " requests a second of one"
                : std::string("any number of requests a second"))});
  part.sentences.push_back(
      {"for clients", DurationText(times.idle_ms) + " idle, " + DurationText(times.request_ms) +
                          " to send a request, " + DurationText(times.write_ms) +
                          " to take an answer"});
  part.sentences.push_back(
      {"for kernels", DurationText(times.connect_ms) + " to connect, " +
                          DurationText(times.first_byte_ms) + " to begin an answer, " +
                          DurationText(times.between_ms) + " between its pieces"});
  part.sentences.push_back({"at the end", DurationText(times.drain_ms) + " to finish"});
  return part;
}

}  // namespace

std::vector<DocumentPart> GatewayParts(const GatewayConfig& config) {
  return {DoorPart(config), KernelsPart(config), RoutesPart(config), EvidencePart(config),
          LimitsPart(config)};
}

}  // namespace kcc::cli
