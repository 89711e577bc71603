// Answers: the steps of an exchange, as bytes to the client and requests to kernels.
//
// The invariant: at most one write is under way, and while it is, the kernel's connection is
// paused, so that a client that reads slowly holds one piece of its answer in memory and no more.
#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <charconv>

#include "kcc/plane/beast_client.h"
#include "kcc/plane/beast_thread.h"
#include "kcc/plane/http_text.h"

namespace kcc::plane {
namespace {

constexpr size_t kOutKept = 64 << 10;

bool HasNoBody(int status) { return status < 200 || status == 204 || status == 304; }

void AppendNumber(std::string* text, uint64_t number, int base) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, base).ptr;
  text->append(digits, end);
}

}  // namespace

void ClientConnection::Do(Step step) {
  switch (step.kind) {
    case StepKind::kSend:
      DropKernel();
      return Send(step.ask);
    case StepKind::kAnswer:
      DropKernel();
      return head_said_ ? BreakOff() : SayAnswer(step.answer);
    case StepKind::kWait:
      if (kernel_) kernel_->Resume();
      return;
    case StepKind::kPass:
    case StepKind::kDone:
    case StepKind::kCut:
      break;
  }
  if (step.header && !head_said_) {
    AppendHead(step.header->status, step.header->headers, step.header->length);
  }
  AppendBody(step.bytes);
  if (step.kind == StepKind::kPass) return Write(Then::kGoOn);
  DropKernel();
  // An answer whose length is not the one it told of can only be broken off.
  const bool whole = head_said_ && (!length_ || bodyless_ || body_sent_ == *length_);
  if (step.kind == StepKind::kCut || !whole) return Write(Then::kBreakOff);
  if (chunked_) out_ += "0\r\n\r\n";
  Write(Then::kFinish);
}

void ClientConnection::Send(const UpstreamAsk& ask) {
  const std::shared_ptr<const GatewayPool> pool = thread_.core().PoolFor(thread_.worker());
  if (ask.kernel >= pool->kernels.size()) return OnKernelFailure(UpstreamFailure::kConnect);
  const PoolKernel& kernel = pool->kernels[ask.kernel];
  std::string bytes;
  bytes.reserve(512 + ask.body.size());
  bytes.append(ask.method).append(" ").append(ask.target).append(" HTTP/1.1\r\n");
  AppendField(&bytes, "host", thread_.kernels().HostField(pool, ask.kernel));
  for (const auto& [name, value] : ask.headers) {
    // The key of a client is for the gateway alone.
    if (!IsConnectionField(name) && !EqualsIgnoringCase(name, "authorization")) {
      AppendField(&bytes, name, value);
    }
  }
  if (!kernel.key.empty()) AppendField(&bytes, "authorization", "Bearer " + kernel.key);
  if (!ask.body.empty() || ask.method == "POST" || ask.method == "PUT") {
    bytes += "content-length: ";
    AppendNumber(&bytes, ask.body.size(), 10);
    bytes += "\r\n";
  }
  bytes += "\r\n";
  bytes += ask.body;
  kernel_number_ = ask.kernel;
  kernel_head_only_ = ask.method == "HEAD";
  kernel_ = thread_.kernels().Take(pool, ask.kernel, false);
  kernel_->Ask(this, std::move(bytes), kernel_head_only_);
}

void ClientConnection::OnKernelHead(int status, std::span<const HeaderField> headers) {
  Guard([&] { Do(exchange_->OnHead(status, headers, thread_.NowUs())); });
}

void ClientConnection::OnKernelBody(std::string_view bytes) {
  Guard([&] { Do(exchange_->OnBody(bytes, thread_.NowUs())); });
}

void ClientConnection::OnKernelEnd() {
  Guard([&] {
    kernel_.reset();
    Do(exchange_->OnEnd(thread_.NowUs()));
  });
}

void ClientConnection::OnKernelFailure(UpstreamFailure failure) {
  Guard([&] {
    kernel_.reset();
    Do(exchange_->OnFailure(failure, thread_.NowUs()));
  });
}

void ClientConnection::OnKernelStale(std::string request) {
  Guard([&] {
    const std::shared_ptr<const GatewayPool> pool = thread_.core().PoolFor(thread_.worker());
    kernel_ = thread_.kernels().Take(pool, kernel_number_, true);
    kernel_->Ask(this, std::move(request), kernel_head_only_);
  });
}

void ClientConnection::SayAnswer(const GatewayAnswer& answer) {
  HeaderList headers = answer.headers;
  headers.emplace_back("content-type", answer.content_type);
  AppendHead(answer.status, headers, answer.body.size());
  AppendBody(answer.body);
  Write(Then::kFinish);
}

void ClientConnection::AppendHead(int status, const HeaderList& headers,
                                  std::optional<uint64_t> length) {
  status = std::clamp(status, 200, 999);
  const bool http11 = head_.http11;
  head_said_ = true;
  length_ = length;
  bodyless_ |= HasNoBody(status);
  chunked_ = http11 && !length && !bodyless_;
  if (!http11 && !length && !bodyless_) keep_alive_ = false;
  if (thread_.draining()) keep_alive_ = false;
  out_ += http11 ? "HTTP/1.1 " : "HTTP/1.0 ";
  AppendNumber(&out_, static_cast<uint64_t>(status), 10);
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  out_.append(" ").append(reason.data(), reason.size()).append("\r\n");
  for (const auto& [name, value] : headers) {
    if (!IsConnectionField(name)) AppendField(&out_, name, value);
  }
  if (length && !HasNoBody(status)) {
    out_ += "content-length: ";
    AppendNumber(&out_, *length, 10);
    out_ += "\r\n";
  }
  if (chunked_) out_ += "transfer-encoding: chunked\r\n";
  if (!keep_alive_) {
    out_ += "connection: close\r\n";
  } else if (!http11) {
    out_ += "connection: keep-alive\r\n";
  }
  out_ += "\r\n";
}

void ClientConnection::AppendBody(std::string_view bytes) {
  if (bytes.empty() || bodyless_ || !head_said_) return;
  if (length_)
    bytes = bytes.substr(
        0, static_cast<size_t>(std::min<uint64_t>(bytes.size(), *length_ - body_sent_)));
  body_sent_ += bytes.size();
  if (!chunked_) {
    out_ += bytes;
    return;
  }
  AppendNumber(&out_, bytes.size(), 16);
  out_.append("\r\n").append(bytes).append("\r\n");
}

void ClientConnection::Write(Then then) {
  then_ = then;
  sent_ = out_.empty() ? 0 : wire_.TrySend(out_);
  if (sent_ == out_.size()) return OnWritten();
  writing_ = true;
  if (kernel_) kernel_->Pause();
  WriteRest();
}

// Each piece has its time anew: a client may be slow, and not stand still.
void ClientConnection::WriteRest() {
  const int64_t before = deadline_us;
  ExpireIn(thread_.options().write_ms);
  if (then_ == Then::kReadBody) deadline_us = std::min(before, deadline_us);
  wire_.WriteSome(std::string_view(out_).substr(sent_),
                  [self = Self()](ErrorCodeOf failed, size_t bytes) {
                    self->Guard([&] {
                      if (failed) return self->Close();
                      self->sent_ += bytes;
                      if (self->sent_ < self->out_.size()) return self->WriteRest();
                      self->writing_ = false;
                      if (self->then_ != Then::kReadBody) self->WatchClient();
                      self->OnWritten();
                    });
                  });
}

void ClientConnection::OnWritten() {
  out_.clear();
  if (out_.capacity() > kOutKept) out_.shrink_to_fit();
  switch (then_) {
    case Then::kReadBody:
      return Parse();
    case Then::kGoOn:
      if (kernel_) kernel_->Resume();
      return;
    case Then::kFinish:
      return FinishAnswer();
    case Then::kBreakOff:
      return BreakOff();
  }
}

void ClientConnection::FinishAnswer() {
  exchange_.reset();
  if (!keep_alive_ || thread_.draining()) return Linger(true);
  phase_ = Phase::kIdle;
  ExpireIn(thread_.options().idle_ms);
  Parse();
}

// The client must not take what it has for the whole. Where the coding tells that more was to come,
// the connection just ends, so that what was sent is read first; where it does not, it is reset.
void ClientConnection::BreakOff() {
  exchange_.reset();
  if (head_said_ && (chunked_ || length_)) {
    keep_alive_ = false;
    return Linger(false);
  }
  wire_.Reset();
  Close();
}

void ClientConnection::DropKernel() {
  if (kernel_) std::exchange(kernel_, nullptr)->Drop();
}

void ClientConnection::Close() {
  if (phase_ == Phase::kClosed) return;
  const std::shared_ptr<ClientConnection> held = std::move(held_);
  phase_ = Phase::kClosed;
  deadline_us = kNever;
  if (exchange_) {
    try {
      exchange_->OnClientGone(thread_.NowUs());
    } catch (const std::exception&) {
      // Memory ran out; the exchange itself still ends here.
    }
  }
  DropKernel();
  wire_.Close();
}

}  // namespace kcc::plane
