// A client's request, asked once more: of a guarded kernel as a probe, of its own kernel to see
// whether it repeats itself, of the audit kernel for an answer of its own. What is sent is what the
// gateway would send a sampled request to that kernel, but for a whole answer instead of a stream.
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/gateway/pool.h"
#include "kcc/gateway/request_edit.h"
#include "kcc/gateway/served_record.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/token_scorer.h"

namespace kcc {

struct AgainCall {
  HttpCall call;
  const WireDialect* wire = nullptr;
  bool chat = false;
  Injected injected;
  bool token_id_texts = false;
};

// Fails where the request cannot be read.
Result<AgainCall> MakeAgainCall(const ServedRecord& record, const GatewayPool& pool,
                                const PoolKernel& kernel);

// The answer in the form of a record: `record` says what was asked, and gets what was answered.
// `reason` is set where an answer of status 2xx is no evidence. One that has no choice is `cut`,
// and an error has its status, whatever the answer's own was.
void ReadAgain(const AgainCall& again, const CallAnswer& answer, size_t answer_bytes_max,
               ServedRecord* record);

}  // namespace kcc
