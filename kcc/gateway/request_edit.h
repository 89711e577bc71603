// The body that a kernel gets, by splices of the one that the client sent: the kernel's own name of
// the model, members that the configuration puts in, and for a sampled request the fields that make
// its answer auditable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kcc/gateway/pool.h"
#include "kcc/gateway/request_scan.h"
#include "kcc/gateway/wire_dialect.h"

namespace kcc {

// What was asked for beyond what the client did, and so is taken out of its answer.
struct Injected {
  bool ids = false;
  bool logprobs = false;
  bool any() const { return ids || logprobs; }
};

struct EditedRequest {
  std::string body;
  Injected injected;
  bool token_id_texts = false;  // tokens will be named "token_id:N"
};

// `sampled`: with the fields of the kernel's dialect, as far as the client asks for nothing of
// their kind. They change nothing but what is told: a request that a server would refuse stays one.
EditedRequest EditRequest(std::string_view body, const RequestScan& scan, const GatewayPool& pool,
                          const PoolKernel& kernel, bool chat, bool stream, bool sampled);

}  // namespace kcc
