// An event stream is held by two: by this port's thread, as a connection, and by the handler, as a
// sink that any thread may write to. Between them is an outbox with a lock of its own; it is closed
// before its connection goes, and neither keeps the other alive.
#include "kcc/plane/beast_admin.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "kcc/gateway/openai_error.h"
#include "kcc/plane/http_text.h"
#include "kcc/plane/request_head.h"

namespace kcc::plane {
namespace {

namespace http = boost::beast::http;

constexpr size_t kAdminHeadMax = 16 << 10;
constexpr size_t kAdminBodyMax = 1 << 20;
constexpr size_t kAdminConnectionsMax = 128;
constexpr size_t kOutboxMax = 2 << 20;  // of events that a listener has not taken
constexpr auto kRequestTime = std::chrono::seconds(60);
constexpr auto kAdminWriteTime = std::chrono::seconds(30);
constexpr auto kHeartbeat = std::chrono::seconds(15);

std::string EventText(std::string_view event, std::string_view data) {
  std::string text;
  if (IsFieldValue(event)) text.append("event: ").append(event).append("\n");
  for (;;) {
    const size_t end = std::min(data.find_first_of("\r\n"), data.size());
    text.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == data.size()) break;
    data.remove_prefix(end + (data.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  return text + "\n";
}

}  // namespace

class Outbox final : public EventSink {
 public:
  Outbox(asio::io_context& io, std::weak_ptr<AdminConnection> connection)
      : io_(&io), connection_(std::move(connection)) {}

  bool Event(std::string_view event, std::string_view data) override;
  // The connection's thread.
  void Close() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }
  std::string Take() {
    const std::lock_guard lock(mutex_);
    told_ = false;
    return std::exchange(text_, {});
  }
  bool overflown() {
    const std::lock_guard lock(mutex_);
    return overflown_;
  }

 private:
  std::mutex mutex_;
  asio::io_context* io_;  // null: the connection is gone, and its loop may be
  const std::weak_ptr<AdminConnection> connection_;
  std::string text_;
  bool told_ = false;  // the connection knows that there is something
  bool overflown_ = false;
};

class AdminConnection final : public std::enable_shared_from_this<AdminConnection> {
 public:
  AdminConnection(AdminListener& listener, asio::io_context& io, Socket socket)
      : listener_(listener), io_(io), socket_(std::move(socket)), timer_(io) {
    listener_.Came(this);
  }
  ~AdminConnection() {
    Close();
    listener_.Gone(this);
  }

  void Read();
  void Flush();
  void Close();

 private:
  template <class Work>
  void Guard(Work work);
  void ExpireIn(std::chrono::seconds time);
  void OnRequest(ErrorCodeOf failed);
  void Handle(const http::request<http::string_body>& request);
  void Say(const GatewayAnswer& answer);
  void Stream(const GatewayAnswer& answer);
  void Write(std::string bytes);
  void OnWritten();
  void Beat();
  void WatchClient();
  std::string Head(const GatewayAnswer& answer) const;

  AdminListener& listener_;
  asio::io_context& io_;
  Socket socket_;
  Timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<Outbox> outbox_;  // while events are streamed
  std::string out_;                 // of the write that is under way
  char watched_[256];
  uint64_t waits_ = 0;  // numbers them, so that a timer that came too late is told apart
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool writing_ = false;
};

bool Outbox::Event(std::string_view event, std::string_view data) {
  try {
    const std::string text = EventText(event, data);
    const std::lock_guard lock(mutex_);
    if (io_ == nullptr || overflown_) return false;
    overflown_ = text_.size() + text.size() > kOutboxMax;
    if (!overflown_) text_ += text;
    if (!told_ || overflown_) {
      asio::post(*io_, [connection = connection_] {
        if (const auto held = connection.lock()) held->Flush();
      });
      told_ = true;
    }
    return !overflown_;
  } catch (const std::exception&) {
    return false;
  }
}

template <class Work>
void AdminConnection::Guard(Work work) {
  if (!socket_.is_open()) return;
  try {
    work();
  } catch (const std::exception&) {
    Close();
  }
}

void AdminConnection::ExpireIn(std::chrono::seconds time) {
  timer_.expires_after(time);
  timer_.async_wait([weak = weak_from_this(), wait = ++waits_](ErrorCodeOf failed) {
    const auto self = weak.lock();
    if (!failed && self && self->waits_ == wait) self->Close();
  });
}

void AdminConnection::Read() {
  parser_.emplace();
  parser_->header_limit(kAdminHeadMax);
  parser_->body_limit(kAdminBodyMax);
  ExpireIn(kRequestTime);
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCodeOf failed, size_t) {
                     self->Guard([&] { self->OnRequest(failed); });
                   });
}

void AdminConnection::OnRequest(ErrorCodeOf failed) {
  if (failed == http::error::end_of_stream || failed == http::error::partial_message ||
      (failed && failed.category() != http::make_error_code(http::error::bad_method).category())) {
    return Close();
  }
  if (failed) {
    keep_alive_ = head_only_ = false;
    const int status = failed == http::error::body_limit     ? 413
                       : failed == http::error::header_limit ? 431
                                                             : 400;
    return Say(ErrorAnswer(status, "not an HTTP request: " + failed.message(), "", ""));
  }
  const http::request<http::string_body> request = parser_->release();
  keep_alive_ = request.keep_alive();
  Handle(request);
}

void AdminConnection::Handle(const http::request<http::string_body>& request) {
  const auto view = [](const auto& text) { return std::string_view(text.data(), text.size()); };
  std::vector<HeaderField> fields;
  for (const auto& field : request) {
    fields.push_back({view(field.name_string()), view(field.value())});
  }
  head_only_ = request.method() == http::verb::head;
  const std::string_view method = head_only_ ? "GET" : view(request.method_string());
  const auto parts = SplitTarget(view(request.target()));
  const std::string_view target = parts ? parts->path : "";
  if (parts && !parts->authority.empty()) {  // whom the page that asks takes this port for
    std::erase_if(fields, [](const auto& field) { return EqualsIgnoringCase(field.name, "host"); });
    fields.push_back({"host", parts->authority});
  }
  const bool one_host = request.count(http::field::host) <= 1;
  AdminDecision decision = target.starts_with('/') && one_host
                               ? listener_.guard()->Check(method, target, fields)
                               : AdminDecision{400, "not a target of this port", "", ""};
  if (decision.status == 303) {
    return Say({303,
                "",
                "text/plain",
                {{"location", decision.location}, {"set-cookie", decision.set_cookie}}});
  }
  if (decision.status != 0) {
    return Say(ErrorAnswer(decision.status, decision.message, "", ""));
  }
  const auto accept = request[http::field::accept];
  std::shared_ptr<Outbox> sink;
  if (method == "GET" && !head_only_ &&
      view(accept).find("text/event-stream") != std::string_view::npos) {
    sink = std::make_shared<Outbox>(io_, weak_from_this());
  }
  GatewayAnswer answer;
  try {
    ErrorCodeOf ignored;
    const std::string client = socket_.remote_endpoint(ignored).address().to_string(ignored);
    answer = listener_.handler().Handle({method, target, fields, client}, request.body(), sink);
  } catch (const std::exception& fault) {
    if (sink) sink->Close();
    answer = ErrorAnswer(500, "this could not be answered: " + std::string(fault.what()), "", "");
    sink = nullptr;
  }
  if (sink && answer.status == 200 && answer.body.empty() &&
      answer.content_type.starts_with("text/event-stream")) {
    outbox_ = std::move(sink);
    return Stream(answer);
  }
  if (sink) sink->Close();
  Say(answer);
}

std::string AdminConnection::Head(const GatewayAnswer& answer) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(answer.status));
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " ";
  head.append(reason.data(), reason.size()).append("\r\n");
  AppendField(&head, "content-type", answer.content_type);
  bool cached = false;
  for (const auto& [name, value] : answer.headers) {
    if (IsConnectionField(name)) continue;
    cached |= EqualsIgnoringCase(name, "cache-control");
    AppendField(&head, name, value);
  }
  if (!cached) head += "cache-control: no-store\r\n";
  // The address may have held the token; and no other page may frame, load or guess at these.
  head +=
      "referrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\nx-frame-options: DENY\r\n"
      "cross-origin-resource-policy: same-origin\r\n";
  if (!keep_alive_) head += "connection: close\r\n";
  return head;
}

void AdminConnection::Say(const GatewayAnswer& answer) {
  std::string bytes = Head(answer) + "content-length: " + std::to_string(answer.body.size());
  bytes += "\r\n\r\n";
  if (!head_only_) bytes += answer.body;
  Write(std::move(bytes));
}

void AdminConnection::Stream(const GatewayAnswer& answer) {
  keep_alive_ = false;
  WatchClient();
  Write(Head(answer) + "\r\n");
}

// A listener that leaves is seen by its end of the connection.
void AdminConnection::WatchClient() {
  socket_.async_read_some(asio::buffer(watched_),
                          [self = shared_from_this()](ErrorCodeOf failed, size_t) {
                            self->Guard([&] { failed ? self->Close() : self->WatchClient(); });
                          });
}

void AdminConnection::Write(std::string bytes) {
  writing_ = true;
  out_ = std::move(bytes);
  ExpireIn(kAdminWriteTime);
  asio::async_write(socket_, asio::buffer(out_),
                    [self = shared_from_this()](ErrorCodeOf failed, size_t) {
                      self->Guard([&] { failed ? self->Close() : self->OnWritten(); });
                    });
}

void AdminConnection::OnWritten() {
  writing_ = false;
  if (outbox_) {
    Beat();
    return Flush();
  }
  if (keep_alive_) return Read();
  ErrorCodeOf ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  // What the client still sends is passed over, so that it can read the answer first.
  ExpireIn(std::chrono::seconds(2));
  WatchClient();
}

void AdminConnection::Beat() {
  timer_.expires_after(kHeartbeat);
  timer_.async_wait([weak = weak_from_this(), wait = ++waits_](ErrorCodeOf failed) {
    const auto self = weak.lock();
    if (failed || !self || self->waits_ != wait) return;
    self->Guard([&] {
      if (!self->writing_) self->Write(": still here\n\n");
    });
  });
}

void AdminConnection::Flush() {
  Guard([this] {
    if (!outbox_) return;
    if (outbox_->overflown()) return Close();
    if (writing_) return;
    std::string text = outbox_->Take();
    if (!text.empty()) Write(std::move(text));
  });
}

void AdminConnection::Close() {
  if (outbox_) outbox_->Close();
  timer_.cancel();
  ErrorCodeOf ignored;
  socket_.close(ignored);
}

AdminListener::AdminListener(AdminHandler& handler, std::string secret)
    : handler_(handler), secret_(std::move(secret)), acceptor_(io_), accept_timer_(io_) {}

AdminListener::~AdminListener() { Stop(); }

Result<uint16_t> AdminListener::Listen(const std::string& host, uint16_t port) {
  ErrorCodeOf failed;
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(host, failed), port);
  if (!failed) acceptor_.open(endpoint.protocol(), failed);
  if (!failed) acceptor_.set_option(asio::socket_base::reuse_address(true), failed);
  if (!failed) acceptor_.bind(endpoint, failed);
  if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) {
    return IoError("cannot listen on " + host + ":" + std::to_string(port) +
                   ", the admin port: " + failed.message());
  }
  port_ = acceptor_.local_endpoint().port();
  return port_;
}

void AdminListener::UseToken(const std::string& token) {
  auto guard = std::make_shared<const AdminGuard>(token, secret_, port_);
  const std::lock_guard lock(guard_mutex_);
  guard_ = std::move(guard);
}

std::shared_ptr<const AdminGuard> AdminListener::guard() const {
  const std::lock_guard lock(guard_mutex_);
  return guard_;
}

void AdminListener::Start() {
  Accept();
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "kcc-admin");
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception&) {
      }
    }
  });
}

void AdminListener::Stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    ErrorCodeOf ignored;
    acceptor_.close(ignored);
    for (AdminConnection* const connection : std::set(connections_)) connection->Close();
    io_.stop();
  });
  thread_.join();
}

void AdminListener::Accept() {
  acceptor_.async_accept([this](ErrorCodeOf failed, Socket socket) {
    if (!acceptor_.is_open()) return;
    if (failed) {
      accept_timer_.expires_after(std::chrono::milliseconds(100));
      accept_timer_.async_wait([this](ErrorCodeOf error) {
        if (!error && acceptor_.is_open()) Accept();
      });
      return;
    }
    try {
      ErrorCodeOf ignored;
      socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      if (connections_.size() < kAdminConnectionsMax) {
        std::make_shared<AdminConnection>(*this, io_, std::move(socket))->Read();
      }
    } catch (const std::exception&) {
      // Memory ran out: the connection is closed by its destructor.
    }
    Accept();
  });
}

}  // namespace kcc::plane
