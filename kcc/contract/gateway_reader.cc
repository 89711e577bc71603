#include "kcc/contract/gateway_reader.h"

#include <algorithm>
#include <array>

#include "kcc/base/strings.h"
#include "kcc/contract/gateway_parts.h"
#include "kcc/contract/gateway_values.h"
#include "kcc/contract/mapping_reader.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/read_document.h"
#include "kcc/contract/words.h"

namespace kcc {
namespace {

// The route of a request is a word of this many kernels at most (kcc/gateway/route_word.h).
constexpr size_t kKernelsMax = 64;

bool IsEveryNetwork(std::string_view host) { return host == "0.0.0.0" || host == "::"; }

// Goes through the document once and keeps going after a mistake, as the reader of contracts does.
// A part that is wrong is left at its default; the configuration is handed out only if nothing was
// wrong.
class GatewayReader {
 public:
  GatewayReader(const YamlDocument& document, Problems* problems)
      : document_(document), problems_(*problems) {}

  GatewayConfig Read() {
    const MappingReader root(document_, document_.root(), TableOf("gateway"), &problems_);
    ReadPolicyRoot(root, &config_, [&](const MappingReader& spec) { Spec(spec); });
    return std::move(config_);
  }

 private:
  void Spec(const MappingReader& spec) {
    Addresses(spec);
    config_.admin_token_file = FilledText(spec, "adminToken", &problems_);
    config_.threads = spec.Integer("threads").value_or(config_.threads);
    config_.model = FilledText(spec, "model", &problems_);
    config_.contract_file = FilledText(spec, "contract", &problems_);
    config_.policy_file = FilledText(spec, "policy", &problems_);
    config_.contract_mark = KeyMark(spec, "contract");
    config_.policy_mark = KeyMark(spec, "policy");
    config_.kernels_mark = KeyMark(spec, "kernels");
    config_.canary_mark = KeyMark(spec, "canary");
    config_.shadow_mark = KeyMark(spec, "shadow");
    config_.register_url = spec.ReadAs("register", ReadRegister, "bad-register").value_or("");
    Promotion(spec);
    if (spec.Key("state") != nullptr) config_.state_dir = FilledText(spec, "state", &problems_);
    if (const auto log = spec.Mapping("decisionLog")) {
      ReadDecisionLog(*log, &config_.decision_log, &problems_);
    }
    if (const auto stage = spec.Word("stage")) config_.stage = static_cast<Stage>(*stage + 1);
    config_.store = spec.EnumWord<StoreRequests>("store").value_or(config_.store);
    ReadRequestFields(document_, spec, &config_, &problems_);
    Kernels(spec);
    Canary(spec);
    Shadow(spec);
    CheckStage(spec);
    if (const auto scoring = spec.Mapping("scoring")) {
      ReadScoring(*scoring, &config_.scoring, &problems_);
    }
    ReadGradeHooks(document_, spec, &config_, &problems_);
    if (const auto tls = spec.Mapping("tls")) {
      config_.tls.certificate_file = FilledText(*tls, "certificate", &problems_);
      config_.tls.key_file = FilledText(*tls, "key", &problems_);
    }
    ClientKeys(spec);
    if (const auto limits = spec.Mapping("limits")) {
      ReadLimits(*limits, &config_.limits, &problems_);
    }
    if (const auto times = spec.Mapping("times")) ReadTimes(*times, &config_.times, &problems_);
    if (const auto telemetry = spec.Mapping("telemetry")) {
      if (const auto url = ServerUrl(*telemetry, "otlp", &problems_)) {
        config_.telemetry.otlp_url = UrlText(*url);
      }
      config_.telemetry.log_file = FilledText(*telemetry, "log", &problems_);
    }
  }

  Mark KeyMark(const MappingReader& mapping, std::string_view key) const {
    const YamlNode* node = mapping.Key(key);
    return node == nullptr ? Mark() : problems_.MarkOf(*node);
  }

  void Addresses(const MappingReader& spec) {
    config_.listen = spec.ReadAs("listen", ReadAddress, "bad-address").value_or(config_.listen);
    const auto admin = spec.ReadAs("admin", ReadAddress, "bad-address");
    if (admin) config_.admin = *admin;
    if (!IsLoopback(config_.admin.host)) {
      problems_.Error(*spec.Value("admin"), "admin-not-loopback",
                      "admin is " + AddressText(config_.admin) +
                          ", which others can reach; it must be of this machine alone",
                      "write '127.0.0.1:" + std::to_string(config_.admin.port) +
                          "', and reach it through a tunnel");
    }
    if (config_.listen.port != config_.admin.port || config_.admin.port == 0) return;
    // The two may be bound together where hosts differ, and then one takes what is the other's.
    const YamlNode* at =
        spec.Value("admin") != nullptr ? spec.Value("admin") : spec.Value("listen");
    if (at == nullptr) return;
    problems_.Error(*at, "same-port",
                    "listen and admin have the same port, " + std::to_string(config_.admin.port),
                    "give admin a port of its own");
  }

  void Promotion(const MappingReader& spec) {
    config_.promotion_file = FilledText(spec, "promotion", &problems_);
    if (spec.Key("promotion") == nullptr || spec.Key("register") != nullptr) return;
    problems_.Error(*spec.Key("promotion"), "promotion-without-register",
                    "a promotion is recorded, and there is no register",
                    "add 'register: sqlite:kcc.db'");
  }

  void Kernels(const MappingReader& spec) {
    DistinctNames names("two kernels have the name", &problems_);
    const std::vector<const YamlNode*> items = spec.Items("kernels");
    for (const YamlNode* item : items) {
      if (problems_.full() || config_.kernels.size() == kKernelsMax) break;
      const MappingReader row(document_, *item, TableOf("gatewayKernel"), &problems_);
      if (row.is_mapping()) names.Add(row.Value("name"));
      ReadKernel(row);
    }
    if (spec.Value("kernels") == nullptr) {
      kernels_known_ = false;
      return;
    }
    const YamlNode& key = *spec.Key("kernels");
    if (items.empty() && spec.Value("kernels")->kind == YamlNode::Kind::kSequence) {
      problems_.Error(key, "empty-list", "kernels is an empty list",
                      "add an entry for every kernel of the policy");
    }
    if (items.size() > kKernelsMax) {
      problems_.Error(key, "too-many-kernels",
                      "kernels lists " + std::to_string(items.size()) + ", more than the " +
                          std::to_string(kKernelsMax) + " that a gateway can route to",
                      "split the pool");
    }
  }

  void ReadKernel(const MappingReader& row) {
    GatewayKernel kernel;
    kernel.mark = problems_.MarkOf(row.node());
    const auto name = row.Text("name");
    const auto url = ServerUrl(row, "url", &problems_);
    const auto server = row.Word("server");
    kernel.model = FilledText(row, "model", &problems_);
    kernel.key_file = FilledText(row, "keyFile", &problems_);
    kernel.ca_file = FilledText(row, "caFile", &problems_);
    Set(row, &kernel.set);
    if (!name || !url || !server) {
      kernels_known_ = kernels_known_ && name.has_value();
      if (name) kernel.name = *name;
      if (name) config_.kernels.push_back(std::move(kernel));
      return;
    }
    kernel.name = *name;
    kernel.url = *url;
    kernel.server = kServerWords[*server];
    CheckKernel(row, kernel);
    config_.kernels.push_back(std::move(kernel));
  }

  void CheckKernel(const MappingReader& row, const GatewayKernel& kernel) {
    const YamlNode& url = *row.Value("url");
    if (!kernel.ca_file.empty() && !kernel.url.tls) {
      problems_.Error(*row.Key("caFile"), "ca-unused",
                      "caFile is for https, and the address is one of http",
                      "write https, or remove caFile");
    }
    if (!kernel.key_file.empty() && !kernel.url.tls && !IsLoopback(kernel.url.host)) {
      problems_.Warning(url, "key-in-clear",
                        "the key of keyFile goes to " + kernel.url.host + " without encryption",
                        "write https");
    }
    const GatewayAddress& own = config_.listen;
    const bool here =
        own.host == kernel.url.host ||
        (IsLoopback(kernel.url.host) && (IsLoopback(own.host) || IsEveryNetwork(own.host)));
    if (here && own.port == kernel.url.port) {
      problems_.Error(url, "asks-itself",
                      "'" + kernel.name + "' stands where the gateway itself listens",
                      "write the address of the kernel's server");
    }
  }

  void Set(const MappingReader& row, std::map<std::string, std::string>* set) {
    (void)row.TextMap("set");  // reports what is no mapping of scalars
    const YamlNode* map = row.Value("set");
    if (map == nullptr || map->kind != YamlNode::Kind::kMapping) return;
    for (size_t i = 0; i < document_.size(*map) && !problems_.full(); ++i) {
      const YamlNode& key = document_.key(*map, i);
      const YamlNode& value = document_.value(*map, i);
      if (key.kind != YamlNode::Kind::kScalar || value.kind != YamlNode::Kind::kScalar) continue;
      CheckMember(key);
      set->emplace(key.text, ScalarJson(value));
    }
  }

  // What the gateway writes into requests itself cannot be set as well.
  void CheckMember(const YamlNode& key) {
    constexpr std::array<std::string_view, 4> kRequests = {"messages", "prompt", "input", "stream"};
    constexpr std::array<std::string_view, 7> kSampling = {
        "logprobs",       "top_logprobs",  "prompt_logprobs",           "return_token_ids",
        "return_logprob", "return_tokens", "return_tokens_as_token_ids"};
    const auto among = [&](const auto& names) {
      return std::find(names.begin(), names.end(), key.text) != names.end();
    };
    constexpr size_t kMemberLengthMax = 128;
    if (key.text.size() > kMemberLengthMax) {
      problems_.Error(key, "set-refused", "set names a member of more than 128 characters");
      return;
    }
    const std::string start = "set names " + std::string(key.text);
    if (key.text == "model") {
      problems_.Error(key, "set-refused", start, "the kernel's own key 'model' says it");
    } else if (among(kRequests)) {
      problems_.Error(key, "set-refused", start + ", which is the request itself", "leave it out");
    } else if (among(kSampling)) {
      problems_.Error(key, "set-refused", start + ", which the gateway gives to sampled requests",
                      "leave it out; scoring.top says how many alternatives are asked for");
    }
  }

  // Reported if the document has no such kernel.
  void CheckName(const YamlNode& at, const std::string& name) {
    if (!kernels_known_ || config_.FindKernel(name) != nullptr) return;
    std::vector<std::string_view> names;
    for (const GatewayKernel& kernel : config_.kernels) names.push_back(kernel.name);
    const auto nearest = NearestWord(name, names);
    problems_.Error(at, "unknown-kernel", "there is no kernel '" + name + "'",
                    nearest         ? "did you mean '" + std::string(*nearest) + "'?"
                    : names.empty() ? "add it to kernels"
                                    : "kernels are " + JoinWords(names));
  }

  void Canary(const MappingReader& spec) {
    const auto mapping = spec.Mapping("canary");
    if (!mapping) return;
    const auto kernel = mapping->Text("kernel");
    const auto share = mapping->Number("share");
    if (kernel) CheckName(*mapping->Value("kernel"), *kernel);
    if (kernel && share) config_.canary = GatewayCanary{*kernel, *share};
  }

  void Shadow(const MappingReader& spec) {
    const auto kernel = spec.Text("shadow");
    if (!kernel) return;
    CheckName(*spec.Value("shadow"), *kernel);
    config_.shadow = *kernel;
  }

  // A promotion moves stages itself; without one, a stage is what is written here for good.
  void CheckStage(const MappingReader& spec) {
    if (config_.stage == Stage::kShadow && spec.Key("canary") != nullptr) {
      problems_.Error(*spec.Key("canary"), "canary-in-shadow",
                      "clients get the canary's answers, and in stage shadow they get none",
                      "write 'stage: canary', or 'shadow: KERNEL' in place of canary");
    }
    if (spec.Key("promotion") != nullptr || spec.Value("stage") == nullptr) return;
    const bool canary = config_.stage == Stage::kCanary && spec.Key("canary") == nullptr;
    const bool shadow = config_.stage == Stage::kShadow && spec.Key("shadow") == nullptr;
    if (!canary && !shadow) return;
    const std::string word(Name(config_.stage));
    problems_.Warning(
        *spec.Value("stage"), "stage-of-nothing",
        "the stage is " + word + ", and there is no " + word,
        canary ? "add 'canary: {kernel: KERNEL, share: 5%}'" : "add 'shadow: KERNEL'");
  }

  void ClientKeys(const MappingReader& spec) {
    config_.client_keys_file = FilledText(spec, "clientKeys", &problems_);
    if (config_.client_keys_file.empty() || spec.Key("tls") != nullptr ||
        IsLoopback(config_.listen.host)) {
      return;
    }
    problems_.Warning(
        *spec.Key("clientKeys"), "keys-in-clear",
        "clients send their keys to " + AddressText(config_.listen) + " without encryption",
        "add 'tls: {certificate: cert.pem, key: key.pem}', or listen on 127.0.0.1 "
        "behind a proxy that has it");
  }

  const YamlDocument& document_;
  Problems& problems_;
  GatewayConfig config_;
  bool kernels_known_ = true;  // the name of every kernel of the document could be read
};

}  // namespace

GatewayOutcome ReadGateway(std::string_view yaml) {
  GatewayOutcome outcome;
  outcome.diagnostics = ReadDocument(
      yaml,
      [](const YamlDocument& document, Problems* problems) {
        return GatewayReader(document, problems).Read();
      },
      &outcome.config);
  return outcome;
}

}  // namespace kcc
