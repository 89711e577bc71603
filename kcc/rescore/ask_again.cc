#include "kcc/rescore/ask_again.h"

#include <utility>

#include "kcc/gateway/answer_reader.h"
#include "kcc/gateway/event_signs.h"
#include "kcc/gateway/request_scan.h"

namespace kcc {

Result<AgainCall> MakeAgainCall(const ServedRecord& record, const GatewayPool& pool,
                                const PoolKernel& kernel) {
  RequestScan scan;
  if (ScanRequest(record.request_body, &scan)) {
    return InvalidError("the request's body cannot be read");
  }
  PoolKernel whole = kernel;
  if (scan.Find("stream")) whole.set["stream"] = "false";
  if (scan.Find("stream_options")) whole.set["stream_options"] = "null";
  AgainCall again;
  again.wire = kernel.wire;
  again.chat = record.path.ends_with("/chat/completions");
  EditedRequest edited =
      EditRequest(record.request_body, scan, pool, whole, again.chat, false, true);
  again.injected = edited.injected;
  again.token_id_texts = edited.token_id_texts;
  again.call = {record.path, std::move(edited.body)};
  return again;
}

void ReadAgain(const AgainCall& again, const CallAnswer& answer, size_t answer_bytes_max,
               ServedRecord* record) {
  record->stream = false;
  record->started_at_ms = answer.started_at_ms;
  record->latency_ms = answer.seconds * 1e3;
  record->ttft_ms = 0;  // of a whole answer nobody sees when its first token was there
  record->status = answer.status;
  record->cut = record->client_left = false;
  record->finish_reason.clear();
  record->fingerprint.clear();
  record->text.clear();
  record->prompt_ids.clear();
  record->tokens.clear();
  record->reason.clear();
  if (answer.status < 200 || answer.status >= 300) return;
  // An error under a status that looks good is what it says it is.
  if (const std::optional<int> error = ErrorStatusOf(answer.body)) {
    record->status = *error;
    return;
  }
  AnswerReader reader(*again.wire, again.chat, again.injected, again.token_id_texts,
                      answer_bytes_max);
  std::string edited;
  reader.Read(answer.body, &edited);
  ServedAnswer read = reader.Take();
  if (!LooksLikeObject(answer.body) || (!read.any_choice && read.fault.empty())) {
    record->cut = true;  // it answers nothing
    return;
  }
  record->finish_reason = std::move(read.finish_reason);
  record->fingerprint = std::move(read.fingerprint);
  record->text = std::move(read.text);
  record->prompt_ids = std::move(read.prompt_ids);
  record->tokens = std::move(read.tokens);
  record->reason = std::move(read.fault);
}

}  // namespace kcc
