// The configuration of a gateway: the typed form of a document of kind Gateway (docs/gateway.md).
// It says where the gateway listens, which kernel stands behind which address, what of requests
// becomes evidence, and the limits that clients meet.
//
// A GatewayConfig is only made by ReadGateway (contract/gateway_reader.h), so it is always valid:
// names are distinct, addresses have hosts and ports, the admin address is a loopback one, canary
// and shadow name kernels of the document, predicates are typed. Whether its kernels are those of
// its policy, and its hooks give what its contract reads, CheckGateway says
// (contract/gateway_check.h).
//
// Files are named as the document names them: relative to the document's folder. Nothing is opened
// here, and secrets stand in files alone: a document that holds a password is refused.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/policy.h"
#include "kcc/predicate/predicate.h"

namespace kcc {

// "127.0.0.1:8080", "[::1]:8081".
struct GatewayAddress {
  std::string host;   // without brackets
  uint16_t port = 0;  // 0: any that is free

  bool operator==(const GatewayAddress&) const = default;
};

// "http://127.0.0.1:8000": where a server stands, and no path.
struct GatewayUrl {
  bool tls = false;   // https
  std::string host;   // without brackets
  uint16_t port = 0;  // never 0; 80 or 443 where the document names none

  std::string_view scheme() const { return tls ? "https" : "http"; }
  bool operator==(const GatewayUrl&) const = default;
};

// Where a value is read from in a request: "header:x-session-id", "body:user",
// "body:metadata.task".
struct GatewaySource {
  bool header = false;  // else the body
  std::string name;     // of a header, in lower case; of a body's member, or MEMBER.MEMBER

  bool operator==(const GatewaySource&) const = default;
};

// A field of the request record, which slices read.
struct GatewayField {
  std::string name;
  GatewaySource from;
  Mark mark;
};

struct GatewayKernel {
  std::string name;  // of the monitor policy; unique
  GatewayUrl url;
  std::string server;    // a word of GatewayServers
  std::string model;     // what it calls the model; empty: what clients call it
  std::string key_file;  // with its bearer token; empty: none
  std::string ca_file;   // certificates to trust; empty: the system's
  // Members put into every request for it in place of the client's, as JSON: temperature -> 0.
  std::map<std::string, std::string> set;
  Mark mark;
};

struct GatewayCanary {
  std::string kernel;
  double share = 0;  // of sessions, in [0, 1]; with a promotion, where it starts

  bool operator==(const GatewayCanary&) const = default;
};

// How what was served becomes evidence.
struct GatewayScoring {
  int64_t top = 20;                // alternatives asked for of a token
  int64_t timeout_ms = 2000;       // of the calls of one record
  int64_t in_flight_max = 64;      // calls to one kernel at once
  int64_t waiting_max = 256;       // records; those beyond are lost, and counted
  double determinism_rate = 0.01;  // share of audited requests that are asked again

  bool operator==(const GatewayScoring&) const = default;
};

enum class GatewayHookKind : uint8_t { kJson, kPhrases, kExec, kHttp };

// What grades an answer, so that `field` exists. One of the four is set, by kind.
struct GatewayHook {
  std::string field;  // parsed, refused, reward, or a field of the user's
  GatewayHookKind kind = GatewayHookKind::kJson;
  std::string schema_file;           // kJson: a JSON Schema; empty: any JSON will do ("json: any")
  std::vector<std::string> phrases;  // kPhrases
  std::string command;               // kExec
  std::string url;                   // kHttp; with its path
  std::optional<Predicate> when;     // over the request's fields; none: always
  Mark mark;
};

struct GatewayTls {
  std::string certificate_file;  // empty: plain HTTP
  std::string key_file;          // set with the certificate

  bool operator==(const GatewayTls&) const = default;
};

struct GatewayLimits {
  int64_t body_bytes_max = int64_t{8} << 20;
  int64_t header_bytes_max = int64_t{16} << 10;
  int64_t connections_max = 4096;
  double requests_per_second_max = 0;  // of one client; 0: any
  int64_t retries_max = 1;
  int64_t answer_bytes_max = int64_t{16} << 20;  // of a sampled answer that is kept for scoring

  bool operator==(const GatewayLimits&) const = default;
};

struct GatewayTimes {
  int64_t idle_ms = 75'000;         // a client's connection without a request
  int64_t request_ms = 30'000;      // for a request to arrive whole
  int64_t connect_ms = 2'000;       // to a kernel
  int64_t first_byte_ms = 600'000;  // until a kernel's head is there
  int64_t between_ms = 120'000;     // between two pieces of a kernel's answer
  int64_t write_ms = 60'000;        // for a client to take what is written
  int64_t drain_ms = 30'000;        // for requests to finish at the end

  bool operator==(const GatewayTimes&) const = default;
};

struct GatewayTelemetry {
  std::string otlp_url;  // of a collector, over HTTP; empty: none
  std::string log_file;  // of structured logs; empty: standard error

  bool operator==(const GatewayTelemetry&) const = default;
};

// Of the decision log's files.
struct GatewayDecisionLog {
  int64_t file_bytes = int64_t{64} << 20;  // at which one is set aside
  int64_t files_max = 16;                  // set aside, that are kept

  bool operator==(const GatewayDecisionLog&) const = default;
};

struct GatewayConfig {
  std::string name;
  std::string version;
  std::string owner;
  std::string description;
  std::map<std::string, std::string> labels;
  GatewayAddress listen{"127.0.0.1", 8080};
  GatewayAddress admin{"127.0.0.1", 8081};
  std::string admin_token_file;  // empty: none is asked for
  int64_t threads = 2;
  std::string model;  // what clients ask for
  std::string contract_file;
  Mark contract_mark;
  std::string policy_file;  // a MonitorPolicy
  Mark policy_mark;
  std::string register_url;    // "sqlite:kcc.db", "postgresql://..."; empty: none
  std::string promotion_file;  // a PromotionPolicy; empty: none
  std::string state_dir = "state";
  GatewayDecisionLog decision_log;
  Stage stage = Stage::kFull;  // never kOffline
  StoreRequests store = StoreRequests::kHashes;
  std::vector<GatewaySource> session;  // the first that a request has
  std::vector<GatewayField> fields;
  std::vector<GatewayKernel> kernels;  // never empty
  Mark kernels_mark;
  std::optional<GatewayCanary> canary;
  Mark canary_mark;
  std::string shadow;  // a kernel; empty: none
  Mark shadow_mark;
  GatewayScoring scoring;
  // Of several hooks for one field the first whose `when` selects the request grades it.
  std::vector<GatewayHook> hooks;
  GatewayTls tls;
  std::string client_keys_file;  // SHA-256 of keys in hex, one a line; empty: none is asked for
  GatewayLimits limits;
  GatewayTimes times;
  GatewayTelemetry telemetry;

  const GatewayKernel* FindKernel(std::string_view name) const;  // null: there is none
};

// The servers that a kernel may be, by their names in docs/servers.md; the lab's own speaks vllm's
// dialect.
std::span<const std::string_view> GatewayServers();

// As the document writes them.
std::string AddressText(const GatewayAddress& address);  // "127.0.0.1:8080", "[::1]:8081"
std::string UrlText(const GatewayUrl& url);              // "http://127.0.0.1:8000"
std::string SourceName(const GatewaySource& source);     // "header:x-session-id"
std::string_view Name(GatewayHookKind kind);             // "json", "phrases", "exec", "http"

// Of this machine alone: 127.0.0.0/8, ::1 or localhost.
bool IsLoopback(std::string_view host);

// Where a file named in a document lies: beside it, unless the name is absolute.
std::string PathBeside(std::string_view document, const std::string& file);
// The same of a register: "sqlite:kcc.db" is a file beside the document, a server stays.
std::string RegisterBeside(std::string_view document, const std::string& register_url);

// Canonical form, identity and the text for people, as of a contract (contract/canonical.h).
std::string CanonicalJson(const GatewayConfig& config);
std::string GatewayDigest(const GatewayConfig& config);
std::string ToYaml(const GatewayConfig& config);

}  // namespace kcc
