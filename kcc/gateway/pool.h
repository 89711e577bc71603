// What the core knows of the configuration: kernels and how requests are read. Immutable; a reload
// makes a new one, and requests under way keep theirs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/monitor_policy.h"

namespace kcc {

// What differs between servers on the way through (answers and requests of OpenAI's two routes).
// Rows in gateway/wire_dialect.cc, by the names of kcc/kernel/server_table.h.
struct WireDialect;
const WireDialect* FindWireDialect(std::string_view server);  // null: there is none

struct PoolKernel {
  std::string name;  // of the monitor policy
  KernelRole role = KernelRole::kInfer;
  std::string fingerprint;            // that its answers must carry; empty: any
  const WireDialect* wire = nullptr;  // never null
  std::string model;                  // what it calls the model; empty: what clients call it
  // Members put into every request for it in place of the client's, as JSON: temperature -> 0.
  std::map<std::string, std::string> set;
  // For the plane.
  std::string scheme, host;  // "http" or "https"
  uint16_t port = 0;
  std::string key;      // bearer token; empty: the client's Authorization is not passed on either
  std::string ca_file;  // empty: the system's
};

// Where a value is read from in the request: "header:NAME" or "body:NAME" (or "body:NAME.NAME").
struct AskSource {
  bool header = false;
  std::string name;
  bool operator==(const AskSource&) const = default;
};
// A field of the request record, for slices: tags, task, tenant ...
struct RequestField {
  std::string name;
  AskSource from;
};

struct GatewayPool {
  std::string model;  // what clients ask for
  // At most kGatewayKernelsMax. Routes name kernels by their place, so a reload keeps every kernel
  // in its place: new ones come after, and what goes leaves a kernel of role kAudit behind, which
  // serves nothing.
  std::vector<PoolKernel> kernels;
  std::vector<AskSource> session;  // the first that a request has; none: it is its own session
  std::vector<RequestField> fields;
  std::string contract_digest;
  std::string stage;                           // "full", "canary" ...
  int32_t top = 20;                            // alternatives asked for of a sampled request
  size_t answer_bytes_max = size_t{16} << 20;  // of a sampled answer that is kept for scoring
  size_t body_bytes_max = size_t{8} << 20;
  int retries_max = 1;  // on another kernel, before anything was said to the client
};

}  // namespace kcc
