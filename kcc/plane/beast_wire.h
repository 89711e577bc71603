// One connection's bytes, plain or with TLS. Included by the sources that know Asio alone
// (beast_*.cc). The executor's type is named, since the general one costs a call more for every
// step.
#pragma once

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

namespace kcc::plane {

namespace asio = boost::asio;
using ErrorCodeOf = boost::system::error_code;
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;
using TlsContext = asio::ssl::context;
using TlsStream = asio::ssl::stream<Socket&>;

// At most one read and one write are under way.
class Wire {
 public:
  explicit Wire(Socket socket) : socket_(std::move(socket)) {}

  Socket& socket() { return socket_; }
  bool is_open() const { return socket_.is_open(); }
  TlsStream* tls() { return tls_.get(); }
  void UseTls(TlsContext& context) { tls_ = std::make_unique<TlsStream>(socket_, context); }

  // Small pieces go out at once: a token must not wait for the next.
  void NoDelay() {
    ErrorCodeOf ignored;
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  }

  // How much the socket takes at once, without a turn of the loop; an error shows at the next
  // write, and in `closed` where the other side's end of the connection was known before.
  size_t TrySend(std::string_view bytes, bool* closed = nullptr) {
    if (tls_) return 0;
    const auto sent =
        ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (closed != nullptr) *closed = sent < 0 && (errno == EPIPE || errno == ECONNRESET);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }

  // Bytes that were sent and that the other side's system has not acknowledged. What is in here
  // when the other side has ended was never read there.
  size_t Unacknowledged() {
    int bytes = 0;
    return ::ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) == 0 && bytes > 0
               ? static_cast<size_t>(bytes)
               : 0;
  }
  // The other side has ended, though bytes may wait to be read before its end.
  bool HasEnded() {
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state != TCP_ESTABLISHED;
  }

  // There is nothing to read, not even the end.
  bool IsSilent() {
    char byte = 0;
    return ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
  }

  template <class Handler>
  void ReadSome(asio::mutable_buffer buffer, Handler handler) {
    if (tls_) {
      tls_->async_read_some(buffer, std::move(handler));
    } else {
      socket_.async_read_some(buffer, std::move(handler));
    }
  }
  template <class Handler>
  void WriteSome(std::string_view bytes, Handler handler) {
    if (tls_) {
      tls_->async_write_some(asio::const_buffer(bytes.data(), bytes.size()), std::move(handler));
    } else {
      socket_.async_write_some(asio::const_buffer(bytes.data(), bytes.size()), std::move(handler));
    }
  }

  void Close() {
    ErrorCodeOf ignored;
    socket_.close(ignored);
  }
  void ShutdownSend() {
    ErrorCodeOf ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  // As a program that died would: what was sent and not taken may be lost.
  void Reset() {
    ErrorCodeOf ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
  }

 private:
  Socket socket_;
  std::unique_ptr<TlsStream> tls_;
};

// Waits of connections are looked at together a few times a second (PlaneThread::Sweep): a timer of
// its own for every wait would cost more than the wait's request.
class Timed : public std::enable_shared_from_this<Timed> {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  Timed() = default;
  virtual ~Timed() = default;
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  virtual void OnDeadline() = 0;
  virtual void OnDrain() {}
  virtual void Abort() = 0;  // closed at once, without a word

  int64_t deadline_us = kNever;
  size_t place = 0;  // in the list of its thread
};

}  // namespace kcc::plane
