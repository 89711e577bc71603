// Answers on their way through: whole ones wait until they are there, since their fingerprint is
// said in their head; streams pass event by event from the first with content on.
#include <algorithm>
#include <utility>

#include "kcc/gateway/event_signs.h"
#include "kcc/gateway/exchange_state.h"
#include "kcc/gateway/gateway_metrics.h"
#include "kcc/gateway/header_rules.h"

namespace kcc {
namespace {

// What waits of an answer that is not sampled, of a stream before its first content, and of one
// event. Beyond it the answer passes as it comes.
constexpr size_t kHeldBytesMax = size_t{1} << 20;

// Answers that say nothing about the request: the kernel is down, busy, or not set up as the
// configuration says, which is no business of the client's.
bool IsKernelFailure(int status) {
  return status < 200 || (status >= 300 && status < 400) || status >= 500 || status == 401 ||
         status == 403 || status == 404 || status == 405 || status == 407 || status == 408 ||
         status == 429;
}

// Replaces the data of an event that has several lines of it; its other lines stay.
void AppendLines(std::string_view raw, std::string_view data, std::string* out) {
  bool written = false;
  while (!raw.empty()) {
    const size_t end = std::min(raw.find_first_of("\r\n"), raw.size());
    size_t next = std::min(end + 1, raw.size());
    if (end < raw.size() && raw[end] == '\r' && next < raw.size() && raw[next] == '\n') ++next;
    const std::string_view line_end = raw.substr(end, next - end);
    if (!raw.starts_with("data:") && raw.substr(0, end) != "data") {
      out->append(raw.substr(0, next));
    } else if (!std::exchange(written, true)) {
      for (size_t at = 0; at <= data.size();) {
        const size_t stop = std::min(data.find('\n', at), data.size());
        out->append("data: ").append(data.substr(at, stop - at)).append(line_end);
        at = stop + 1;
      }
    }
    raw.remove_prefix(next);
  }
}

}  // namespace

AnswerHeader GatewayExchange::State::MakeHeader(std::optional<uint64_t> length) const {
  AnswerHeader header;
  header.status = status;
  header.length = length;
  header.headers = kept_headers;
  AddHeader("x-request-id", id, &header.headers);
  AddHeader("x-kcc-kernel", asked().name, &header.headers);
  // A stream's head goes out before its fingerprint is known.
  const bool told = !events && !fingerprint.empty();
  AddHeader("x-kcc-fingerprint", told ? fingerprint : asked().fingerprint, &header.headers);
  AddHeader("x-kcc-contract", pool->contract_digest, &header.headers);
  AddHeader("x-kcc-stage", pool->stage, &header.headers);
  return header;
}

Step GatewayExchange::State::Pass(StepKind kind, std::string_view bytes) {
  Count(worker.counts().bytes_out, bytes.size());
  Step step;
  step.kind = kind;
  step.bytes = bytes;
  return step;
}

Step GatewayExchange::State::OnHead(int the_status, std::span<const HeaderField> headers,
                                    int64_t now) {
  if (the_status < 200 && the_status != 101) return {};
  status = the_status;
  Count(counts().by_status[static_cast<size_t>(std::clamp(status / 100, 0, 5))]);
  kept_headers.clear();
  for (const HeaderField& field : headers) {
    if (IsKeptOfAnswer(field.name)) AddHeader(field.name, field.value, &kept_headers);
  }
  if (IsKernelFailure(status)) {
    const auto later = FindHeader(headers, "retry-after");
    retry_after = later && IsHeaderValue(*later) ? std::string(*later) : std::string();
    return TryNext({status, "status"}, now);
  }
  // It was told not to: what it unpacks to has no bound.
  const auto encoding = FindHeader(headers, "content-encoding");
  if (encoding && !SameHeaderName(*encoding, "identity")) {
    return TryNext({status, "encoded answer"}, now);
  }
  // The client's own request may well be good, so it is sent as it was.
  if (injected.any() && (status == 400 || status == 422)) {
    sampling_refused = true;
    return Send(*kernel);
  }
  const auto type = FindHeader(headers, "content-type");
  events = status == 200 && type && IsMediaType(*type, "text/event-stream");
  if (events)
    tap.emplace(sampled ? std::max(pool->answer_bytes_max, kHeldBytesMax) : kHeldBytesMax);
  phase = ExchangePhase::kHeld;
  return {};
}

// Of what is too large to be read.
void GatewayExchange::State::NoticePassing(std::string_view bytes, int64_t now) {
  const std::string& told = search.Feed(bytes);
  if (told.empty() || told == fingerprint) return;
  fingerprint = told;
  CheckFingerprint(fingerprint, now);
}

Step GatewayExchange::State::OnWholeBody(std::string_view bytes, int64_t now) {
  if (phase == ExchangePhase::kPassing) {
    if (status < 300) NoticePassing(bytes, now);
    return Pass(StepKind::kPass, bytes);
  }
  held.append(bytes);
  const size_t most = sampled ? std::max(pool->answer_bytes_max, kHeldBytesMax) : kHeldBytesMax;
  if (held.size() <= most) return {};
  // Too large to wait for. If something was asked for beyond what the client did, it stays in the
  // answer, which is better than none; the record says that it is lost.
  if (reader) reader->Lose("the answer is too large");
  phase = ExchangePhase::kPassing;
  said = std::move(held);
  held.clear();
  if (status < 300) NoticePassing(said, now);
  Step step = Pass(StepKind::kPass, said);
  step.header = MakeHeader(std::nullopt);
  return step;
}

Step GatewayExchange::State::FinishWhole(int64_t now) {
  if (phase == ExchangePhase::kPassing) {
    PutEnd(false, false, now);
    End(ExchangeEnd::kAnswered, now);
    return Pass(StepKind::kDone, {});
  }
  const bool good = status < 300;
  if (good && !LooksLikeObject(held)) return TryNext({status, "garbage"}, now);
  said = std::move(held);
  held.clear();
  if (good) {
    first_us = now;
    CountTime(now - started_us, worker.counts().first_content, worker.counts().first_content_us);
    if (reader) {
      std::string edited;
      if (reader->Read(said, &edited) == AnswerReader::Outcome::kEdited) said = std::move(edited);
      fingerprint = reader->answer().fingerprint;
    } else {
      fingerprint = FingerprintOf(said);
    }
    CheckFingerprint(fingerprint, now);
  }
  Step step = Pass(StepKind::kDone, said);
  step.header = MakeHeader(said.size());
  PutEnd(false, false, now);
  End(ExchangeEnd::kAnswered, now);
  return step;
}

void GatewayExchange::State::OnUnit(const SseUnit& unit, int64_t now) {
  if (early_failure()) return;
  if (unit.event) Notice(unit.data, now);
  if (unit.too_long) {
    // Not read, so taken for content; what was asked for beyond the client's request stays in it.
    content = true;
    NoticePassing(unit.raw, now);
    if (reader) reader->Lose("an event is too large");
  }
  if (reader && !early_failure()) Rewrite(unit);
}

void GatewayExchange::State::Notice(std::string_view data, int64_t now) {
  // What comes behind the end, or behind an error, changes nothing: the client may have it by now.
  if (done) return;
  if (data == "[DONE]") {
    done = true;
    return;
  }
  if (!LooksLikeObject(data)) {
    garbage = garbage || (!content && !error_event);
    return;
  }
  if (const std::optional<int> error = ErrorStatusOf(data)) {
    if (!std::exchange(error_event, true)) error_status = *error;
    return;
  }
  if (!content && HasContent(data)) {
    content = true;
    first_us = now;
    CountTime(now - started_us, worker.counts().first_content, worker.counts().first_content_us);
  }
  std::string told = FingerprintOf(data);
  if (told.empty() || told == fingerprint) return;
  fingerprint = std::move(told);
  CheckFingerprint(fingerprint, now);
}

void GatewayExchange::State::Rewrite(const SseUnit& unit) {
  const bool with_dropped = std::exchange(dropped_last, false) && unit.line_feed;
  if (with_dropped) return;
  std::string edited;
  const auto outcome = unit.event && unit.data != "[DONE]" ? reader->Read(unit.data, &edited)
                                                           : AnswerReader::Outcome::kAsIs;
  if (outcome == AnswerReader::Outcome::kAsIs) {
    said.append(unit.raw);
  } else if (outcome == AnswerReader::Outcome::kDropped) {
    dropped_last = true;
  } else if (unit.simple) {
    const auto begin = static_cast<size_t>(unit.data.data() - unit.raw.data());
    said.append(unit.raw.substr(0, begin)).append(edited);
    said.append(unit.raw.substr(begin + unit.data.size()));
  } else {
    AppendLines(unit.raw, edited, &said);
  }
}

Step GatewayExchange::State::OnEvents(std::string_view bytes, int64_t now) {
  said.clear();
  const std::string_view complete =
      tap->Feed(bytes, [&](const SseUnit& unit) { OnUnit(unit, now); });
  const std::string_view out = reader ? std::string_view(said) : complete;
  if (phase == ExchangePhase::kPassing) {
    return out.empty() ? Step() : Pass(StepKind::kPass, out);
  }
  if (early_failure()) {
    return TryNext({garbage ? status : error_status, garbage ? "garbage" : "error event"}, now);
  }
  held.append(out);
  if (!content && !done && !error_event && held.size() <= kHeldBytesMax) return {};
  phase = ExchangePhase::kPassing;
  said.swap(held);
  held.clear();
  Step step = Pass(StepKind::kPass, said);
  step.header = MakeHeader(std::nullopt);
  return step;
}

// The kernel has nothing more to say. Of an event without its blank line only the end is good for
// something.
Step GatewayExchange::State::FinishEvents(int64_t now) {
  const SseUnit rest = tap->Rest();
  const bool ends = rest.event && rest.data == "[DONE]";
  if (ends) done = true;
  if (phase == ExchangePhase::kHeld && !done) return TryNext({status, "no content"}, now);
  if (!done && !error_event) return CutStream("it has no end", now);
  said.clear();
  if (phase == ExchangePhase::kHeld) said.swap(held);
  if (ends) said.append(rest.raw);
  Step step = Pass(StepKind::kDone, said);
  if (phase == ExchangePhase::kHeld) step.header = MakeHeader(std::nullopt);
  const bool cut = error_event && !is_client_error();
  PutEnd(cut, false, now);
  End(cut ? ExchangeEnd::kCut : ExchangeEnd::kAnswered, now);
  return step;
}

}  // namespace kcc
