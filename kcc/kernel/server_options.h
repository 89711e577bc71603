// What a URI says about a server: openai+http://HOST:PORT?server=vllm&top=20 …
//
// One table names the options and explains them (docs/servers.md shows it). Options that change the
// numbers are part of the kernel's fingerprint; where the server stands, how long it is waited for
// and the key are not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/uri.h"
#include "kcc/trace/trace.h"

namespace kcc {

struct ServerDialect;  // server_dialect.h

struct ServerOptions {
  const ServerDialect* server = nullptr;
  HttpOptions http;
  std::string model;  // empty: the server's only one
  std::string model_digest;
  int64_t vocab_size = 0;  // 0: the server tells
  int32_t top = 20;        // alternatives asked for a token; 0: the token's own log-prob alone
  std::optional<TracePath> path;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
  double temperature = 1.0;
  bool mask_missing = false;  // a token without a log-prob is left out, and is no error
  bool probe = true;
  std::vector<int32_t> probe_tokens;  // what the probe asks about; empty: small ids
  std::vector<int32_t> end;           // ids that end a generation, besides eos
  // Fields added to every request, as JSON: priority=1 from body.priority=1.
  struct Field {
    std::string name;
    std::string json;
  };
  std::vector<Field> fields;
  double start_timeout_s = 600;            // for each call before the first batch
  std::string salt;                        // before every cache_salt; empty: random
  const Clock* clock = &TheSystemClock();  // when generated requests were asked
};

struct ServerOptionRow {
  std::string_view name;
  std::string_view value;    // "vllm|sglang|llamacpp|trtllm"
  std::string_view meaning;  // one phrase
};
std::span<const ServerOptionRow> ServerOptionTable();

// How the server is reached, which is the same for all of them. Reads the key file, if there is
// one.
Result<HttpOptions> ReadHttpOptions(const KernelUri& uri, const KernelOpenOptions& open);

// Those and the rest.
Result<ServerOptions> ReadServerOptions(const KernelUri& uri, const KernelOpenOptions& open);

}  // namespace kcc
