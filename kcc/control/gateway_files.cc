#include "kcc/control/gateway_files.h"

#include <algorithm>
#include <utility>

#include "kcc/base/file.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/gateway_check.h"
#include "kcc/contract/gateway_reader.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

constexpr size_t kSecretBytesMax = size_t{64} << 10;
constexpr size_t kKeysBytesMax = size_t{4} << 20;

class Loader {
 public:
  explicit Loader(const std::string& path) { documents_.path = path; }

  LoadedGateway Run() {
    std::string text;
    if (!Read(documents_.path, kContractBytesMax, {}, &text)) return Done();
    GatewayOutcome outcome = ReadGateway(text);
    Take(std::move(outcome.diagnostics), documents_.path, text);
    if (!outcome.config) return Done();
    documents_.config = std::move(*outcome.config);
    ReadDocuments(text);
    ReadSecrets();
    CheckTls();
    return Done();
  }

 private:
  void Take(std::vector<Diagnostic> diagnostics, const std::string& file,
            const std::string& source) {
    for (Diagnostic& one : diagnostics) {
      failed_ |= one.kind == DiagnosticKind::kError;
      loaded_.findings.push_back({std::move(one), file, source});
    }
  }
  void Fault(const std::string& code, const std::string& message, const std::string& file) {
    failed_ = true;
    loaded_.findings.push_back({{DiagnosticKind::kError, code, message, "", Mark{}, 1}, file, ""});
  }
  bool Read(const std::string& path, size_t bytes_max, const std::string& what, std::string* text) {
    auto read = ReadFile(path, bytes_max);
    if (!read.has_value()) {
      Fault("unreadable-file", (what.empty() ? "" : what + ": ") + read.error().message(), path);
      return false;
    }
    *text = std::move(*read);
    return true;
  }

  // The checks that need all documents come last, and only of documents that are valid.
  void ReadDocuments(const std::string& config_text) {
    const GatewayConfig& config = documents_.config;
    const std::string contract_path = documents_.PathOf(config.contract_file);
    const std::string policy_path = documents_.PathOf(config.policy_file);
    bool whole = false;
    if (Read(contract_path, kContractBytesMax, "the contract", &documents_.contract_text)) {
      ReadOutcome outcome = ReadContract(documents_.contract_text);
      Take(std::move(outcome.diagnostics), contract_path, documents_.contract_text);
      whole = outcome.contract.has_value();
      if (whole) documents_.contract = std::move(*outcome.contract);
    }
    std::string text;
    if (Read(policy_path, kContractBytesMax, "the policy", &text)) {
      MonitorOutcome outcome = ReadMonitorPolicy(text);
      Take(std::move(outcome.diagnostics), policy_path, text);
      whole = whole && outcome.policy.has_value();
      if (outcome.policy) documents_.policy = std::move(*outcome.policy);
    } else {
      whole = false;
    }
    if (whole) {
      Take(Checked(), documents_.path, config_text);
    }
    ReadPromotion();
  }

  // Without an audit kernel the scorer has nobody to ask, and does not start: what is a warning
  // for a pair of documents is an error for a process.
  std::vector<Diagnostic> Checked() const {
    constexpr std::string_view kNoAudit = "no-audit";
    const GatewayConfig& config = documents_.config;
    std::vector<Diagnostic> found = CheckGateway(config, documents_.policy, documents_.contract);
    if (documents_.policy.FirstOf(KernelRole::kAudit) != nullptr) return found;
    std::erase_if(found, [&](const Diagnostic& one) { return one.code == kNoAudit; });
    found.push_back({DiagnosticKind::kError, std::string(kNoAudit),
                     "the policy has no kernel of role audit: nobody could be asked about what was "
                     "served",
                     "add '{name: audit, role: audit}' to the policy, and its server to kernels",
                     config.kernels_mark, 1});
    return found;
  }

  void ReadPromotion() {
    if (documents_.config.promotion_file.empty()) return;
    const std::string path = documents_.PathOf(documents_.config.promotion_file);
    std::string text;
    if (!Read(path, kContractBytesMax, "the promotion policy", &text)) return;
    PolicyOutcome outcome = ReadPolicy(text);
    Take(std::move(outcome.diagnostics), path, text);
    documents_.promotion = std::move(outcome.policy);
  }

  // Without the end of its line; anything else that no header may hold is refused.
  bool Secret(const std::string& file, const std::string& what, std::string* secret) {
    if (file.empty()) return true;
    const std::string path = documents_.PathOf(file);
    if (!Read(path, kSecretBytesMax, what, secret)) return false;
    while (!secret->empty() && (secret->back() == '\n' || secret->back() == '\r')) {
      secret->pop_back();
    }
    const bool plain =
        std::all_of(secret->begin(), secret->end(), [](char c) { return c > ' ' && c < '\x7f'; });
    if (secret->empty() || !plain) {
      Fault("not-a-secret", what + " is one line of letters, digits and signs, without blanks",
            path);
      return false;
    }
    return true;
  }

  void ReadSecrets() {
    const GatewayConfig& config = documents_.config;
    Secret(config.admin_token_file, "the admin token", &documents_.admin_token);
    for (const GatewayKernel& kernel : config.kernels) {
      std::string key;
      if (!Secret(kernel.key_file, "the key of " + kernel.name, &key)) continue;
      if (!key.empty()) documents_.kernel_keys[kernel.name] = key;
      std::string unused;
      if (!kernel.ca_file.empty()) {
        Read(documents_.PathOf(kernel.ca_file), kKeysBytesMax, "certificates", &unused);
      }
    }
    ReadClientKeys();
  }

  void ReadClientKeys() {
    const std::string& file = documents_.config.client_keys_file;
    if (file.empty()) return;
    const std::string path = documents_.PathOf(file);
    std::string text;
    if (!Read(path, kKeysBytesMax, "the clients' keys", &text)) return;
    size_t begin = 0;
    for (int number = 1; begin < text.size(); ++number) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      // What follows the digest is for people: whose key it is.
      const size_t first = line.find_first_not_of(" \t\r");
      if (first == std::string::npos || line[first] == '#') continue;
      line = line.substr(first, line.find_first_of(" \t\r#", first) - first);
      constexpr size_t kHexDigits = 64;
      const bool hex = line.size() == kHexDigits &&
                       line.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
      if (!hex) {
        Fault("not-a-digest",
              "line " + std::to_string(number) +
                  " does not begin with a SHA-256 in hex; `printf %s KEY | sha256sum` makes one",
              path);
        continue;
      }
      std::transform(line.begin(), line.end(), line.begin(),
                     [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; });
      documents_.client_key_hashes.push_back(line);
    }
    if (documents_.client_key_hashes.empty()) {
      Fault("no-keys", "the file holds no key, and without clientKeys anybody may ask", path);
    }
  }

  // Certificates and the rest that the plane would stumble over.
  void CheckTls() {
    if (failed_) return;
    const Result<> checked = CheckPlane(PlaneOptionsOf(documents_), *PoolOf(documents_));
    if (!checked.has_value()) {
      Fault("unusable-plane", checked.error().Format(), documents_.path);
    }
  }

  LoadedGateway Done() {
    if (!failed_) loaded_.documents = std::move(documents_);
    return std::move(loaded_);
  }

  GatewayDocuments documents_;
  LoadedGateway loaded_;
  bool failed_ = false;
};

std::string Encoded(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += '%';
    encoded += kHex[byte >> 4];
    encoded += kHex[byte & 15];
  }
  return encoded;
}

}  // namespace

std::string GatewayDocuments::PathOf(const std::string& file) const {
  return PathBeside(path, file);
}

LoadedGateway LoadGateway(const std::string& path) { return Loader(path).Run(); }

std::shared_ptr<const GatewayPool> PoolOf(const GatewayDocuments& documents) {
  const GatewayConfig& config = documents.config;
  auto pool = std::make_shared<GatewayPool>();
  pool->model = config.model;
  for (const GatewayKernel& row : config.kernels) {
    PoolKernel kernel;
    kernel.name = row.name;
    if (const MonitorKernel* monitored = documents.policy.FindKernel(row.name)) {
      kernel.role = monitored->role;
      kernel.fingerprint = monitored->fingerprint;
    }
    kernel.wire = FindWireDialect(row.server);
    kernel.model = row.model;
    kernel.set = row.set;
    kernel.scheme = row.url.scheme();
    kernel.host = row.url.host;
    kernel.port = row.url.port;
    const auto key = documents.kernel_keys.find(row.name);
    if (key != documents.kernel_keys.end()) kernel.key = key->second;
    if (!row.ca_file.empty()) kernel.ca_file = documents.PathOf(row.ca_file);
    pool->kernels.push_back(std::move(kernel));
  }
  for (const GatewaySource& source : config.session) {
    pool->session.push_back({source.header, source.name});
  }
  for (const GatewayField& field : config.fields) {
    pool->fields.push_back({field.name, {field.from.header, field.from.name}});
  }
  pool->contract_digest = ContractDigest(documents.contract);
  pool->stage = Name(config.stage);
  pool->top = static_cast<int32_t>(config.scoring.top);
  pool->answer_bytes_max = static_cast<size_t>(config.limits.answer_bytes_max);
  pool->body_bytes_max = static_cast<size_t>(config.limits.body_bytes_max);
  pool->retries_max = static_cast<int>(config.limits.retries_max);
  return pool;
}

PlaneOptions PlaneOptionsOf(const GatewayDocuments& documents) {
  const GatewayConfig& config = documents.config;
  PlaneOptions plane;
  plane.host = config.listen.host;
  plane.port = config.listen.port;
  plane.admin_host = config.admin.host;
  plane.admin_port = config.admin.port;
  plane.admin_token = documents.admin_token;
  if (!config.tls.certificate_file.empty()) {
    plane.tls = {documents.PathOf(config.tls.certificate_file),
                 documents.PathOf(config.tls.key_file)};
  }
  plane.client_key_hashes = documents.client_key_hashes;
  plane.header_bytes_max = static_cast<size_t>(config.limits.header_bytes_max);
  plane.body_bytes_max = static_cast<size_t>(config.limits.body_bytes_max);
  plane.connections_max = static_cast<size_t>(config.limits.connections_max);
  plane.requests_per_second_max = config.limits.requests_per_second_max;
  plane.idle_ms = config.times.idle_ms;
  plane.request_ms = config.times.request_ms;
  plane.connect_ms = config.times.connect_ms;
  plane.first_byte_ms = config.times.first_byte_ms;
  plane.between_ms = config.times.between_ms;
  plane.write_ms = config.times.write_ms;
  plane.drain_ms = config.times.drain_ms;
  return plane;
}

RescoreOptions RescoreOptionsOf(const GatewayDocuments& documents) {
  const GatewayConfig& config = documents.config;
  RescoreOptions options;
  for (const GatewayKernel& kernel : config.kernels) {
    std::string uri = "openai+" + UrlText(kernel.url) + "?server=" + kernel.server;
    const std::string& model = kernel.model.empty() ? config.model : kernel.model;
    uri += "&model=" + Encoded(model);
    if (!kernel.key_file.empty()) {
      uri += "&api_key_file=" + Encoded(documents.PathOf(kernel.key_file));
    }
    if (!kernel.ca_file.empty()) uri += "&ca_file=" + Encoded(documents.PathOf(kernel.ca_file));
    options.uris[kernel.name] = uri;
  }
  options.top = static_cast<int32_t>(config.scoring.top);
  options.in_flight_max = static_cast<size_t>(config.scoring.in_flight_max);
  options.waiting_max = static_cast<size_t>(config.scoring.waiting_max);
  options.timeout_s = static_cast<double>(config.scoring.timeout_ms) / 1000;
  options.determinism_rate = config.scoring.determinism_rate;
  options.keep_texts = config.store == StoreRequests::kFull;
  for (const GatewayHook& hook : config.hooks) {
    GradeHook grade;
    grade.field = hook.field;
    switch (hook.kind) {
      case GatewayHookKind::kJson:
        grade.kind = GradeKind::kJson;
        break;
      case GatewayHookKind::kPhrases:
        grade.kind = GradeKind::kPhrases;
        break;
      case GatewayHookKind::kExec:
        grade.kind = GradeKind::kExec;
        break;
      case GatewayHookKind::kHttp:
        grade.kind = GradeKind::kHttp;
        break;
    }
    if (!hook.schema_file.empty()) grade.schema_file = documents.PathOf(hook.schema_file);
    grade.phrases = hook.phrases;
    grade.command = hook.command;
    grade.url = hook.url;
    if (hook.when) grade.when = hook.when->Canonical();
    options.hooks.push_back(std::move(grade));
  }
  return options;
}

}  // namespace kcc
