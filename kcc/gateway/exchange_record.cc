// What an exchange leaves for the scorer.
#include <new>
#include <utility>

#include "kcc/gateway/exchange_state.h"

namespace kcc {

// Of the request; the body is the record's from then on only where the exchange is over with it.
ServedRecord GatewayExchange::State::NewRecord(RecordKind kind, int64_t now) const {
  ServedRecord record;
  record.kind = kind;
  record.pool = pool;
  record.kernel = kernel.value_or(0);
  record.id = record_id;
  record.session = session;
  record.path = route->path;
  record.stream = stream;
  record.started_at_ms = started_at_ms;
  // A kernel is not charged with the time that another one took before it.
  record.latency_ms = static_cast<double>(now - sent_us) / 1000;
  record.ttft_ms = first_us == 0 ? 0 : static_cast<double>(first_us - sent_us) / 1000;
  record.status = status;
  record.canary = by_canary;
  record.fingerprint = fingerprint;
  return record;
}

// A place is for what becomes evidence; that another build answered is told at once.
void GatewayExchange::State::Put(ServedRecord record) {
  KernelCounts& its = worker.counts().kernels[record.kernel];
  const bool evidence = record.kind != RecordKind::kFingerprint;
  if (evidence && !record.place) record.place = core.places().TakeServed(record.kernel);
  if (evidence && !record.place) return Drop(record.kernel);
  const size_t of = record.kernel;
  const bool served = record.kind != RecordKind::kProbe;
  if (!worker.ring().Put(std::move(record))) {
    Count(its.dropped);
  } else if (evidence) {
    Count(its.sampled);
  }
  if (evidence && served) CountMirror(of);
}

// The scorer hears of it: its evidence is missing, and not gone. Takes no memory.
void GatewayExchange::State::Drop(size_t its_kernel) {
  Count(worker.counts().kernels[its_kernel].dropped);
  worker.ring().Drop(its_kernel);
  CountMirror(its_kernel);
}

// Whether or not it comes to that: who is shown nothing any more must be seen to have no evidence.
void GatewayExchange::State::CountMirror(size_t served_by) {
  const size_t candidate = core.route().sampling().shadow;
  if (!shadow || candidate >= pool->kernels.size() || candidate == served_by) return;
  Count(worker.counts().kernels[candidate].mirrored);
}

// Where there is no memory for a record, the answer goes on without.
template <class Make>
void GatewayExchange::State::PutOrDrop(size_t its_kernel, const Make& make) {
  try {
    Put(make());
  } catch (const std::bad_alloc&) {
    Drop(its_kernel);
  }
}

// Put at the start, so that it does not depend on how the request ends. A kernel for whose answers
// many probes wait, or for whose probe there is no memory, is not asked: that says nothing for it
// and nothing against it.
void GatewayExchange::State::PutProbe(size_t probed, int64_t now) {
  try {
    ScorerPlace place = core.places().TakeShown(probed);
    if (place && !worker.ring().full()) {
      ServedRecord record = NewRecord(RecordKind::kProbe, now);
      record.place = std::move(place);
      record.kernel = probed;
      record.fields = fields;
      record.request_body = body;
      return Put(std::move(record));
    }
  } catch (const std::bad_alloc&) {
  }
  Count(worker.counts().kernels[probed].unasked);
}

// A kernel that did not answer. It has a record of its own, since the request goes on.
void GatewayExchange::State::PutFailure(const TryFailure& failure, int64_t now) {
  if (!std::exchange(owed, false)) return;
  PutOrDrop(*kernel, [&] {
    ServedRecord record = NewRecord(RecordKind::kAudit, now);
    record.id += "~" + std::to_string(failures + 1);
    record.fields = fields;
    record.request_body = body;
    record.status = failure.status;
    record.reason = failure.reason;
    return record;
  });
}

// The end of a sampled request at the kernel that answered, or that its client did not wait for.
void GatewayExchange::State::PutEnd(bool cut, bool left, int64_t now) {
  if (!std::exchange(owed, false)) return;
  PutOrDrop(*kernel, [&] { return EndRecord(cut, left, now); });
}

ServedRecord GatewayExchange::State::EndRecord(bool cut, bool left, int64_t now) {
  ServedRecord record = NewRecord(RecordKind::kAudit, now);
  record.fields = std::move(fields);
  record.cut = cut;
  record.client_left = left;
  record.shadow = shadow;
  if (is_client_error()) record.status = error_status;
  worker.budget().Spend(reader->bytes());
  ServedAnswer answer = reader->Take();
  record.finish_reason = std::move(answer.finish_reason);
  if (!answer.fingerprint.empty()) record.fingerprint = std::move(answer.fingerprint);
  const bool answered = record.status >= 200 && record.status < 300;
  if (answered && sampling_refused) answer.fault = "the kernel refused the fields of sampling";
  if (answered && !left && !answer.any_choice && answer.fault.empty()) {
    answer.fault = "the answer has no choice";
  }
  // That an answer was cut is evidence by itself, whatever could be read of it.
  if (answered && !cut && !answer.fault.empty()) {
    record.kind = RecordKind::kLost;
    record.reason = std::move(answer.fault);
  } else if (answer.fault.empty()) {
    record.text = std::move(answer.text);
    record.prompt_ids = std::move(answer.prompt_ids);
    record.tokens = std::move(answer.tokens);
  }
  // The scan's views end here, and the request has been sent for the last time.
  scan.members.clear();
  record.request_body = std::move(body);
  return record;
}

void GatewayExchange::State::CheckFingerprint(std::string_view told, int64_t now) {
  const std::string& expected = asked().fingerprint;
  if (expected.empty() || told.empty() || told == expected || stranger) return;
  stranger = true;
  Count(counts().strangers);
  PutOrDrop(*kernel, [&] {
    ServedRecord record = NewRecord(RecordKind::kFingerprint, now);
    record.fingerprint = told;
    return record;
  });
}

}  // namespace kcc
