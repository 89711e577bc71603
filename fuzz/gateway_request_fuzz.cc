// Any bytes as a request's body: what the scan takes is what another reader takes, and what is made
// of it for a kernel is JSON that says the same but for what was put in.
#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/gateway/request_edit.h"
#include "kcc/gateway/request_scan.h"

namespace {

// simdjson refuses numbers that no double holds and surrogates alone; all else is refused alike.
bool IsTaken(simdjson::error_code error, std::string_view body) {
  const bool surrogate = body.find("\\ud") != body.npos || body.find("\\uD") != body.npos;
  return error == simdjson::SUCCESS || error == simdjson::NUMBER_ERROR ||
         error == simdjson::DEPTH_ERROR || (error == simdjson::STRING_ERROR && surrogate);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool chat = (data[0] & 1) != 0, stream = (data[0] & 2) != 0;
  kcc::RequestScan scan;
  const auto refusal = kcc::ScanRequest(body, &scan);
  if (refusal) {
    KCC_CHECK(refusal->status == 400 && kcc::IsWholeJson(refusal->body));
    return 0;
  }
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  KCC_CHECK(IsTaken(parser.parse(body).get(root), body));
  for (const char* name : {"user", "metadata.task", "a.b.c", "model"}) {
    const auto value = kcc::ReadSource({false, name}, scan, {});
    KCC_CHECK(!value || kcc::IsWholeJson(*value));
    (void)kcc::ReadSessionKey({false, name}, scan, {});
  }
  (void)kcc::IsAuditable(scan, chat);
  kcc::GatewayPool pool;
  pool.model = "m";
  kcc::PoolKernel kernel;
  for (const char* server : {"vllm", "sglang", "llamacpp", "trtllm"}) {
    kernel.wire = kcc::FindWireDialect(server);
    const kcc::EditedRequest same = kcc::EditRequest(body, scan, pool, kernel, chat, stream, false);
    KCC_CHECK(same.body == body && !same.injected.any());
    kernel.model = "other";
    kernel.set = {{"temperature", "0"}};
    const kcc::EditedRequest edited =
        kcc::EditRequest(body, scan, pool, kernel, chat, stream, true);
    kcc::RequestScan again;
    if (kcc::ScanRequest(edited.body, &again)) {
      KCC_CHECK(scan.members.size() + 8 > kcc::kRequestMembersMax);
    } else {
      KCC_CHECK(again.Find("model") == "\"other\"");
    }
    kernel.model.clear();
    kernel.set.clear();
  }
  return 0;
}
