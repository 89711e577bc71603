#include "kcc/contract/gateway_diff.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/change_list.h"
#include "kcc/contract/diff_clause.h"
#include "kcc/contract/values.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {
namespace {

constexpr std::string_view kNotComparable = "; not comparable, so it counts as looser";

std::string TextOrNone(const std::string& text) {
  return text.empty() ? std::string("none") : YamlScalar(text);
}

std::string SetText(const GatewayKernel& kernel) {
  std::string text;
  for (const auto& [member, json] : kernel.set) {
    text += (text.empty() ? "" : ", ") + member + ": " + json;
  }
  return "{" + text + "}";
}

std::string SessionText(const GatewayConfig& config) {
  std::vector<std::string> names;
  for (const GatewaySource& source : config.session) names.push_back(SourceName(source));
  const std::vector<std::string_view> views(names.begin(), names.end());
  return views.empty() ? std::string("none") : JoinWords(views);
}

// What a hook does, in one line.
std::string HookText(const GatewayHook& hook) {
  std::string text(Name(hook.kind));
  const std::string what = hook.kind == GatewayHookKind::kJson
                               ? (hook.schema_file.empty() ? "any" : hook.schema_file)
                               : hook.command + hook.url;
  if (!what.empty()) text += " " + what;
  std::vector<std::string> phrases = hook.phrases;
  std::sort(phrases.begin(), phrases.end());
  for (const std::string& phrase : phrases) text += " " + YamlQuoted(phrase);
  return hook.when ? text + " when " + hook.when->Canonical() : text;
}

class GatewayDiff {
 public:
  GatewayDiff(const GatewayConfig& before, const GatewayConfig& after)
      : before_(before), after_(after) {}

  std::vector<Change> Run() {
    list_.Metadata(ViewMetadata(before_), ViewMetadata(after_));
    CompareDoor();
    CompareDocuments();
    CompareRoutes();
    CompareKernels();
    CompareScoring();
    CompareHooks();
    CompareFields();
    CompareLimits();
    CompareTimes();
    return list_.Take();
  }

 private:
  using Looser = ChangeList::Looser;

  // Decides nothing about who is answered by whom.
  void Noted(const std::string& where, std::string_view key, const std::string& a,
             const std::string& b) {
    if (a != b) list_.Note(where, std::string(key) + " changed " + FromTo(a, b));
  }
  void NotComparable(const std::string& where, std::string_view key, const std::string& a,
                     const std::string& b) {
    if (a == b) return;
    list_.Add(true, where,
              std::string(key) + " changed " + FromTo(a, b) + std::string(kNotComparable));
  }
  // A door that was open may be closed; a lock that is changed fits other keys.
  void Lock(const std::string& where, std::string_view key, const std::string& a,
            const std::string& b) {
    if (a.empty() && !b.empty()) {
      list_.Add(false, where, std::string(key) + " added, " + YamlScalar(b));
      return;
    }
    NotComparable(where, key, TextOrNone(a), TextOrNone(b));
  }

  void CompareDoor() {
    const std::string a = AddressText(before_.listen);
    const std::string b = AddressText(after_.listen);
    if (IsLoopback(after_.listen.host) || before_.listen.host == after_.listen.host) {
      Noted("listen", "listen", a, b);
    } else {
      NotComparable("listen", "listen", a, b);
    }
    Noted("admin", "admin", AddressText(before_.admin), AddressText(after_.admin));
    Lock("admin", "adminToken", before_.admin_token_file, after_.admin_token_file);
    Lock("listen", "clientKeys", before_.client_keys_file, after_.client_keys_file);
    Lock("listen", "tls.certificate", before_.tls.certificate_file, after_.tls.certificate_file);
    Noted("listen", "tls.key", TextOrNone(before_.tls.key_file), TextOrNone(after_.tls.key_file));
    Noted("gateway", "threads", std::to_string(before_.threads), std::to_string(after_.threads));
    Noted("gateway", "model", YamlScalar(before_.model), YamlScalar(after_.model));
    Noted("telemetry", "otlp", TextOrNone(before_.telemetry.otlp_url),
          TextOrNone(after_.telemetry.otlp_url));
    Noted("telemetry", "log", TextOrNone(before_.telemetry.log_file),
          TextOrNone(after_.telemetry.log_file));
  }

  void CompareDocuments() {
    NotComparable("gateway", "contract", YamlScalar(before_.contract_file),
                  YamlScalar(after_.contract_file));
    NotComparable("gateway", "policy", YamlScalar(before_.policy_file),
                  YamlScalar(after_.policy_file));
    NotComparable("gateway", "register", TextOrNone(before_.register_url),
                  TextOrNone(after_.register_url));
    NotComparable("gateway", "promotion", TextOrNone(before_.promotion_file),
                  TextOrNone(after_.promotion_file));
    // Another folder has no alarms of the past in it.
    NotComparable("gateway", "state", YamlScalar(before_.state_dir), YamlScalar(after_.state_dir));
    Noted("decisionLog", "fileSize", SizeText(before_.decision_log.file_bytes),
          SizeText(after_.decision_log.file_bytes));
    list_.Count("decisionLog", "files", before_.decision_log.files_max,
                after_.decision_log.files_max);
    NotComparable("gateway", "stage", std::string(Name(before_.stage)),
                  std::string(Name(after_.stage)));
    if (before_.store != after_.store) {
      list_.Add(after_.store > before_.store, "gateway",
                "store changed " + FromTo(Name(before_.store), Name(after_.store)));
    }
  }

  void CompareRoutes() {
    NotComparable("session", "session", SessionText(before_), SessionText(after_));
    NotComparable("shadow", "shadow", TextOrNone(before_.shadow), TextOrNone(after_.shadow));
    const auto& a = before_.canary;
    const auto& b = after_.canary;
    if (!a && b) {
      list_.Add(Change{ChangeKind::kNew, true, "canary",
                       b->kernel + " serves " + PercentText(b->share) + " of sessions"});
    } else if (a && !b) {
      list_.Add(false, "canary", "no longer there, was " + a->kernel);
    } else if (a && b) {
      NotComparable("canary", "kernel", a->kernel, b->kernel);
      list_.Share("canary", "share", a->share, b->share, Looser::kMore);
    }
  }

  void CompareKernels() {
    for (const GatewayKernel& old : before_.kernels) {
      const GatewayKernel* now = after_.FindKernel(old.name);
      const std::string where = "kernel " + old.name;
      if (now == nullptr) {
        list_.Add(Change{ChangeKind::kGone, true, where, "no longer there"});
        continue;
      }
      NotComparable(where, "url", UrlText(old.url), UrlText(now->url));
      NotComparable(where, "server", old.server, now->server);
      NotComparable(where, "model", TextOrNone(old.model), TextOrNone(now->model));
      NotComparable(where, "set", SetText(old), SetText(*now));
      NotComparable(where, "caFile", TextOrNone(old.ca_file), TextOrNone(now->ca_file));
      Noted(where, "keyFile", TextOrNone(old.key_file), TextOrNone(now->key_file));
    }
    for (const GatewayKernel& now : after_.kernels) {
      if (before_.FindKernel(now.name) != nullptr) continue;
      list_.Add(
          Change{ChangeKind::kNew, true, "kernel " + now.name, "added at " + UrlText(now.url)});
    }
  }

  void CompareScoring() {
    const GatewayScoring& a = before_.scoring;
    const GatewayScoring& b = after_.scoring;
    list_.Count("scoring", "top", a.top, b.top);
    list_.Time("scoring", "timeout", a.timeout_ms, b.timeout_ms);
    list_.Count("scoring", "inFlight", a.in_flight_max, b.in_flight_max);
    list_.Count("scoring", "waiting", a.waiting_max, b.waiting_max);
    list_.Share("scoring", "determinism", a.determinism_rate, b.determinism_rate);
  }

  // By field, since of several hooks for one the first that fits counts.
  void CompareHooks() {
    const auto text_of = [](const GatewayConfig& config, const std::string& field) {
      std::string text;
      for (const GatewayHook& hook : config.hooks) {
        if (hook.field == field) text += (text.empty() ? "" : ", else ") + HookText(hook);
      }
      return text;
    };
    std::vector<std::string> fields;
    for (const GatewayConfig* config : {&before_, &after_}) {
      for (const GatewayHook& hook : config->hooks) fields.push_back(hook.field);
    }
    std::sort(fields.begin(), fields.end());
    fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
    for (const std::string& field : fields) {
      const std::string a = text_of(before_, field);
      const std::string b = text_of(after_, field);
      Presence("hook " + field, a, b);
    }
  }

  void CompareFields() {
    const auto text_of = [](const GatewayConfig& config, const std::string& name) {
      for (const GatewayField& field : config.fields) {
        if (field.name == name) return SourceName(field.from);
      }
      return std::string();
    };
    for (const GatewayField& field : before_.fields) {
      Presence("field " + field.name, SourceName(field.from), text_of(after_, field.name));
    }
    for (const GatewayField& field : after_.fields) {
      if (!text_of(before_, field.name).empty()) continue;
      Presence("field " + field.name, "", SourceName(field.from));
    }
  }

  // Of what gives a field: without it a slice or a clause has no evidence.
  void Presence(const std::string& where, const std::string& a, const std::string& b) {
    if (a == b) return;
    if (a.empty()) return list_.Add(Change{ChangeKind::kNew, false, where, "added, " + b});
    if (b.empty()) {
      return list_.Add(Change{ChangeKind::kGone, true, where, "no longer there, was " + a});
    }
    list_.Add(true, where, "changed " + FromTo(a, b) + std::string(kNotComparable));
  }

  void CompareLimits() {
    const GatewayLimits& a = before_.limits;
    const GatewayLimits& b = after_.limits;
    const auto size = [&](std::string_view key, int64_t was, int64_t is, Looser looser) {
      list_.Amount("limits", key, SizeText(was), SizeText(is), static_cast<double>(was),
                   static_cast<double>(is), looser);
    };
    size("body", a.body_bytes_max, b.body_bytes_max, Looser::kMore);
    size("headers", a.header_bytes_max, b.header_bytes_max, Looser::kMore);
    list_.Count("limits", "connections", a.connections_max, b.connections_max, Looser::kMore);
    const auto rate = [](double per_sec) {
      return per_sec > 0 ? ShortestNumber(per_sec) : std::string("any");
    };
    constexpr double kAny = 1e9;  // more than any that can be written
    list_.Amount("limits", "requestsPerSecond", rate(a.requests_per_second_max),
                 rate(b.requests_per_second_max),
                 a.requests_per_second_max > 0 ? a.requests_per_second_max : kAny,
                 b.requests_per_second_max > 0 ? b.requests_per_second_max : kAny, Looser::kMore);
    Noted("limits", "retries", std::to_string(a.retries_max), std::to_string(b.retries_max));
    // Answers beyond it are lost as evidence.
    size("answer", a.answer_bytes_max, b.answer_bytes_max, Looser::kLess);
  }

  void CompareTimes() {
    const GatewayTimes& a = before_.times;
    const GatewayTimes& b = after_.times;
    // What a client may hold on to.
    list_.Time("times", "idle", a.idle_ms, b.idle_ms, Looser::kMore);
    list_.Time("times", "request", a.request_ms, b.request_ms, Looser::kMore);
    list_.Time("times", "write", a.write_ms, b.write_ms, Looser::kMore);
    const auto note = [&](std::string_view key, int64_t was, int64_t is) {
      Noted("times", key, DurationText(was), DurationText(is));
    };
    note("connect", a.connect_ms, b.connect_ms);
    note("firstByte", a.first_byte_ms, b.first_byte_ms);
    note("between", a.between_ms, b.between_ms);
    note("drain", a.drain_ms, b.drain_ms);
  }

  const GatewayConfig& before_;
  const GatewayConfig& after_;
  ChangeList list_;
};

}  // namespace

std::vector<Change> DiffGateways(const GatewayConfig& before, const GatewayConfig& after) {
  return GatewayDiff(before, after).Run();
}

}  // namespace kcc
