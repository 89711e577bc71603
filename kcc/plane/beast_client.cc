// Requests: bytes to a head that is surely one, to a body, to an exchange.
//
// The invariant: one read is pending from the first byte of a connection to its last, but while the
// buffer holds a whole head's worth of what has not been looked at. While an answer is made, what
// this read brings is the client's next request, or its leaving, which is noticed so. The read's
// handler holds the connection. Where none is pending, the connection holds itself, and the system
// is asked once a second whether the client has left.
#include "kcc/plane/beast_client.h"

#include <algorithm>

#include "kcc/gateway/openai_error.h"
#include "kcc/plane/beast_thread.h"
#include "kcc/plane/http_text.h"

namespace kcc::plane {
namespace {

constexpr size_t kClientReadBytes = 4 << 10;
constexpr size_t kBodyReadBytes = 64 << 10;
constexpr size_t kBodyReserveMax = 1 << 20;  // a length alone, without its bytes, takes no more
constexpr int64_t kDrainFirstMs = 1000;
constexpr int64_t kWatchMs = 1000;

std::string TooLarge(size_t limit) {
  return "the body is larger than " + std::to_string(limit) + " bytes";
}

}  // namespace

ClientConnection::ClientConnection(PlaneThread& thread, Socket socket, bool too_many)
    : thread_(thread), too_many_(too_many), wire_(std::move(socket)) {
  ErrorCodeOf failed;
  const auto endpoint = wire_.socket().remote_endpoint(failed);
  if (!failed) address_ = endpoint.address().to_string(failed);
  rate_key_ = RateKey(address_, thread_.salt());
  thread_.Came(this);
  thread_.ClientCame(too_many_);
}

ClientConnection::~ClientConnection() {
  Close();
  thread_.Gone(this);
  thread_.ClientGone(too_many_);
}

std::shared_ptr<ClientConnection> ClientConnection::Self() {
  return std::static_pointer_cast<ClientConnection>(shared_from_this());
}

void ClientConnection::ExpireIn(int64_t ms) { deadline_us = thread_.NowUs() + ms * 1000; }

void ClientConnection::Start() {
  Guard([this] {
    wire_.NoDelay();
    const std::shared_ptr<const Settings> settings = thread_.shared_settings();
    if (too_many_) {
      if (settings->tls) return Close();  // what is said would cost a handshake
      keep_alive_ = false;
      return Refuse(ErrorAnswer(503, "too many connections", "", "overloaded"));
    }
    if (!settings->tls) {
      ExpireIn(settings->options.idle_ms);
      return Read();
    }
    phase_ = Phase::kHandshake;
    ExpireIn(settings->options.request_ms);
    wire_.UseTls(*settings->tls);
    wire_.tls()->async_handshake(TlsStream::server, [self = Self()](ErrorCodeOf failed) {
      self->Guard([&] {
        if (failed) {
          ++self->thread_.counts().bad_requests;
          return self->Close();
        }
        self->phase_ = Phase::kIdle;
        self->ExpireIn(self->thread_.options().idle_ms);
        self->Read();
      });
    });
  });
}

void ClientConnection::Read() {
  if (reading_ || !wire_.is_open()) return;
  reading_ = true;
  size_t want = kClientReadBytes;
  if (phase_ == Phase::kBody) {
    const uint64_t left = head_.chunked ? kBodyReadBytes : head_.length - body_.size();
    want = static_cast<size_t>(std::clamp<uint64_t>(left, kClientReadBytes, kBodyReadBytes));
  }
  const std::span<char> room = in_.Prepare(want);
  wire_.ReadSome(asio::buffer(room.data(), room.size()),
                 [self = Self()](ErrorCodeOf failed, size_t bytes) {
                   self->reading_ = false;
                   self->Guard([&] { self->OnRead(failed, bytes); });
                 });
  held_.reset();
}

void ClientConnection::OnRead(ErrorCodeOf failed, size_t bytes) {
  if (failed) {
    if (phase_ == Phase::kHead || phase_ == Phase::kBody) ++thread_.counts().bad_requests;
    return Close();
  }
  in_.Commit(bytes);
  switch (phase_) {
    case Phase::kLinger:
      return OnLingerRead();
    case Phase::kAnswer:
      if (in_.size() < thread_.options().header_bytes_max) return Read();
      held_ = Self();
      if (!writing_) WatchClient();
      return;
    default:
      return Parse();
  }
}

// While an answer is made.
void ClientConnection::WatchClient() {
  if (reading_) {
    deadline_us = kNever;
  } else {
    ExpireIn(kWatchMs);
  }
}

// Requests that came together are taken one after the other, in a loop: each may be answered before
// Begin returns.
void ClientConnection::Parse() {
  if (parsing_) return;
  parsing_ = true;
  bool more = true;
  while (more) {
    if (phase_ == Phase::kIdle && in_.bytes().starts_with("\r\n")) {
      in_.Take(2);  // some old clients end a body so
    }
    if (phase_ == Phase::kIdle && in_.size() > 0) {
      phase_ = Phase::kHead;
      scanned_ = 0;
      head_said_ = chunked_ = bodyless_ = false;
      length_.reset();
      body_sent_ = 0;
      head_.http11 = true;
      head_.method = {};
      keep_alive_ = false;  // until there is a head that says so
      ExpireIn(thread_.options().request_ms);
    }
    if (phase_ == Phase::kHead) {
      more = ParseHead();
    } else if (phase_ == Phase::kBody && !writing_) {
      more = TakeBody();
    } else {
      more = false;
    }
  }
  parsing_ = false;
  if (phase_ != Phase::kClosed) Read();
}

// False: there is no whole head yet, or the request was refused.
bool ClientConnection::ParseHead() {
  const size_t limit = thread_.options().header_bytes_max;
  const std::string_view bytes = in_.bytes().substr(0, limit);
  const HeadScan scan = ScanHead(bytes, scanned_);
  if (scan.fault) {
    RefuseBadRequest(*scan.fault);
    return false;
  }
  if (scan.end == 0) {
    scanned_ = bytes.size();
    if (in_.size() < limit) return false;
    RefuseBadRequest({431, "the head is larger than this gateway reads"});
    return false;
  }
  head_bytes_.assign(bytes.substr(0, scan.end));
  in_.Take(scan.end);
  body_.clear();
  chunks_.reset();
  if (const auto fault = ReadRequestHead(head_bytes_, &head_)) {
    RefuseBadRequest(*fault);
    return false;
  }
  phase_ = Phase::kBody;
  keep_alive_ = head_.keep_alive && !thread_.draining();
  OnHead();
  return phase_ != Phase::kClosed && phase_ != Phase::kLinger;
}

// What can be refused before the body is read. A body that has come whole is passed over, and the
// connection stays; one that has not would have to be read to its end for that.
void ClientConnection::OnHead() {
  const PlaneOptions& options = thread_.options();
  if (!head_.chunked && head_.length > options.body_bytes_max) {
    return RefuseBadRequest({413, TooLarge(options.body_bytes_max)});
  }
  const int wait_s =
      thread_.rates().WaitSeconds(rate_key_, options.requests_per_second_max, thread_.NowUs());
  if (wait_s > 0 || !thread_.settings().keys.Knows(head_.authorization)) {
    if (!head_.chunked && head_.length <= in_.size()) {
      in_.Take(static_cast<size_t>(head_.length));
    } else {
      keep_alive_ = false;
    }
    bodyless_ = head_.method == "HEAD";
    if (wait_s == 0) {
      ++thread_.counts().without_key;
      GatewayAnswer answer = ErrorAnswer(
          401, "a known API key is needed, as 'Authorization: Bearer KEY'", "", "invalid_api_key");
      answer.headers.emplace_back("www-authenticate", "Bearer");
      return Refuse(answer);
    }
    ++thread_.counts().rate_limited;
    GatewayAnswer answer =
        ErrorAnswer(429, "too many requests from this address", "", "rate_limit_exceeded");
    answer.headers.emplace_back("retry-after", std::to_string(wait_s));
    return Refuse(answer);
  }
  if (head_.chunked) chunks_.emplace(options.body_bytes_max);
  body_.reserve(static_cast<size_t>(std::min<uint64_t>(head_.length, kBodyReserveMax)));
  if (head_.expects_continue && in_.size() == 0 && (head_.chunked || head_.length > 0)) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    Write(Then::kReadBody);
  }
}

// False: the body is not whole yet, or it was refused.
bool ClientConnection::TakeBody() {
  if (!head_.chunked) {
    const size_t take =
        static_cast<size_t>(std::min<uint64_t>(head_.length - body_.size(), in_.size()));
    body_.append(in_.bytes().substr(0, take));
    in_.Take(take);
    if (body_.size() < head_.length) return false;
  } else {
    in_.Take(chunks_->Read(in_.bytes(), &body_));
    if (chunks_->state() == ChunkReader::State::kMore) return false;
    if (chunks_->state() != ChunkReader::State::kDone) {
      if (chunks_->state() == ChunkReader::State::kTooLarge) {
        RefuseBadRequest({413, TooLarge(thread_.options().body_bytes_max)});
      } else {
        RefuseBadRequest({400, "the body is not chunked as HTTP asks for"});
      }
      return false;
    }
  }
  Begin();
  return true;
}

void ClientConnection::Begin() {
  phase_ = Phase::kAnswer;
  deadline_us = kNever;
  ++requests_;
  bodyless_ = head_.method == "HEAD";
  exchange_.emplace(thread_.core(), thread_.worker());
  const AskHead ask{head_.method, head_.target, head_.fields, address_};
  Do(exchange_->Start(ask, std::move(body_), thread_.NowUs()));
}

// An answer of the plane's own, for a request that no exchange hears of.
void ClientConnection::Refuse(const GatewayAnswer& answer) {
  phase_ = Phase::kAnswer;
  deadline_us = kNever;
  ++requests_;
  SayAnswer(answer);
}

// What the client has yet to send of it is unknown, so the connection ends.
void ClientConnection::RefuseBadRequest(const HeadFault& fault) {
  ++thread_.counts().bad_requests;
  keep_alive_ = false;
  bodyless_ = false;
  Refuse(ErrorAnswer(fault.status, fault.why, "", ""));
}

void ClientConnection::OnDrain() {
  keep_alive_ = false;
  if (phase_ != Phase::kIdle) return;
  // Its first request may be on its way.
  if (requests_ == 0) return ExpireIn(kDrainFirstMs);
  Guard([this] { wire_.Unacknowledged() == 0 ? Close() : Linger(true); });
}

void ClientConnection::OnDeadline() {
  deadline_us = kNever;
  Guard([this] {
    if (phase_ == Phase::kLinger) return OnLingerDeadline();
    if (phase_ == Phase::kAnswer && !writing_) return wire_.HasEnded() ? Close() : WatchClient();
    const bool began = phase_ == Phase::kHead || phase_ == Phase::kBody;
    if (phase_ == Phase::kIdle && wire_.Unacknowledged() > 0) return Linger(true);
    if (!began || writing_) return Close();
    RefuseBadRequest({408, "the request did not arrive in time"});
  });
}

void ClientConnection::Abort() { Close(); }

}  // namespace kcc::plane
