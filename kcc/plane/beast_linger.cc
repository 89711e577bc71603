// The end of a client's connection. Closed with bytes unread, a connection is reset, and what the
// client has not taken of its answer is lost. So the sending side alone is closed first, and what
// the client still sends is taken and thrown away, until
//
// - the client ends its side, or
// - it has all of the answer, and nothing more has come for kQuietMs, or
// - it has all of the answer, and goes on sending for as long as a request may take to arrive, or
// - it has taken nothing of the answer for as long as a write may take.
//
// A client's system that has acknowledged the bytes counts as having them: a reset does not take
// them from its program there (Linux).
#include <algorithm>
#include <array>
#include <span>

#include "kcc/plane/beast_client.h"
#include "kcc/plane/beast_thread.h"

namespace kcc::plane {
namespace {

constexpr int64_t kQuietMs = 2000;
constexpr int64_t kLookMs = 200;

// Of a thread; nobody reads it.
std::span<char> Waste() {
  static thread_local std::array<char, 64 << 10> waste;
  return waste;
}

}  // namespace

// `clean`: TLS says that this is the end, which it must not where the answer broke off.
void ClientConnection::Linger(bool clean) {
  phase_ = Phase::kLinger;
  in_.TakeAll();
  untaken_ = wire_.Unacknowledged();
  taken_us_ = heard_us_ = thread_.NowUs();
  all_us_ = 0;
  ExpireIn(kLookMs);
  const std::shared_ptr<ClientConnection> held = std::move(held_);  // until the next read holds it
  if (wire_.tls() == nullptr || !clean) {
    wire_.ShutdownSend();
    return LingerOn();
  }
  // What comes in place of the client's own end of TLS is an error, and is thrown away unread. By
  // then the end of this side has gone out.
  wire_.tls()->async_shutdown([self = Self()](ErrorCodeOf failed) {
    self->Guard([&] {
      if (!failed || failed == asio::error::eof) return self->Close();
      self->wire_.ShutdownSend();
      self->LingerOn();
    });
  });
}

// Past TLS, whose bytes mean nothing any more. A plain connection's own read that is still pending
// goes first, and comes here when it is done.
void ClientConnection::LingerOn() {
  if (discards_ || !wire_.is_open() || (reading_ && wire_.tls() == nullptr)) return;
  discards_ = true;
  const std::span<char> waste = Waste();
  wire_.socket().async_read_some(asio::buffer(waste.data(), waste.size()),
                                 [self = Self()](ErrorCodeOf failed, size_t) {
                                   self->discards_ = false;
                                   self->Guard([&] {
                                     if (failed) return self->Close();
                                     self->heard_us_ = self->thread_.NowUs();
                                     self->LingerOn();
                                   });
                                 });
}

void ClientConnection::OnLingerRead() {
  in_.TakeAll();
  heard_us_ = thread_.NowUs();
  if (wire_.tls() == nullptr) LingerOn();
}

void ClientConnection::OnLingerDeadline() {
  const PlaneOptions& options = thread_.options();
  const int64_t now = thread_.NowUs();
  const size_t untaken = wire_.Unacknowledged();
  if (untaken > 0) {
    if (untaken < untaken_) taken_us_ = now;
    untaken_ = untaken;
    if (now - taken_us_ > options.write_ms * 1000) return Close();
    return ExpireIn(kLookMs);
  }
  if (all_us_ == 0) all_us_ = now;
  const int64_t quiet_ms = std::min(kQuietMs, options.request_ms);
  const int64_t most_ms = too_many_ || thread_.draining() ? quiet_ms : options.request_ms;
  const bool quiet = now - std::max(heard_us_, all_us_) > quiet_ms * 1000;
  if (quiet || now - all_us_ > most_ms * 1000) return Close();
  ExpireIn(kLookMs);
}

}  // namespace kcc::plane
