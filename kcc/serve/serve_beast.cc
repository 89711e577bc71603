// The plane of the server: connections, limits, time-outs, streams and signals, with Boost.Beast.
//
// One thread runs all connections; the engine has its own, and hands answers over through
// ReplySink. A connection is shared by the two: by the plane's pending operations, and by the
// exchange that answers its request (ConnectionReply).
#include "kcc/serve/serve.h"

#include <sys/socket.h>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "kcc/serve/event_text.h"
#include "kcc/serve/local_host.h"
#include "kcc/serve/open_port.h"
#include "kcc/serve/reserved_memory.h"
#include "kcc/serve/service.h"
#include "kcc/serve/stop_signals.h"

namespace kcc {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using ErrorCodeOf = boost::system::error_code;

constexpr size_t kHeaderBytesMax = 16 << 10;
constexpr int kLingerS = 5;  // for a client to hear an answer behind which it still sends

class Connection;

// What the connections share.
class Plane {
 public:
  Plane(const ServeOptions& options, std::unique_ptr<Service> service)
      : options_(options), service_(std::move(service)) {}
  ~Plane() {
    closing_ = true;
    service_.reset();
    if (signals_.is_open()) signals_.release();  // stop_signals_ closes it
  }
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;

  Result<> Listen(const TellStarted& started);
  void Run() { io_.run(); }

  const ServeOptions& options() const { return options_; }
  Service& service() { return *service_; }
  bool draining() const { return draining_; }
  asio::io_context& io() { return io_; }
  void Came(Connection* connection) { connections_.insert(connection); }
  void Gone(Connection* connection);

 private:
  void Accept(tcp::acceptor* acceptor, bool admin);
  void AwaitSignal();
  void Drain();

  const ServeOptions options_;
  std::set<Connection*> connections_;  // that live
  bool draining_ = false;
  bool closing_ = false;  // the plane itself ends
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  tcp::acceptor admin_acceptor_{io_};
  StopSignals stop_signals_;
  asio::posix::stream_descriptor signals_{io_};  // waits for them, and does not own their fd
  asio::steady_timer drain_timer_{io_};
  asio::steady_timer retry_timer_{io_};
  // Last, so that its thread has ended before the connections go.
  std::unique_ptr<Service> service_;
};

// One connection, one request at a time. What is to be said waits in `outbox_`; one write is under
// way at most. A connection is busy from a whole request to the end of its answer.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  enum class Kind : uint8_t { kAnswer, kEvent, kFinish, kCut };
  struct Item {
    Kind kind;
    HttpAnswer answer;
    std::string data;
    int wait_ms;
  };

  Connection(Plane& plane, tcp::socket socket, bool admin)
      : plane_(plane), stream_(std::move(socket)), timer_(stream_.get_executor()), admin_(admin) {
    plane_.Came(this);
  }
  ~Connection() { plane_.Gone(this); }

  void Start() { Read(); }
  // There are too many.
  void Refuse() { EndWith({503, "too many connections", "", "overloaded"}); }
  // The server ends: what waits for a request is closed.
  void OnDrain() {
    keep_alive_ = false;
    if (!busy_) Close();
  }

  // From any thread.
  void Post(Item item);
  asio::io_context& io() { return plane_.io(); }
  // The engine's end is gone.
  void OnReplyGone(bool said);

 private:
  void Read();
  void OnHeader(ErrorCodeOf failed);
  void ReadBody();
  void OnRequest(ErrorCodeOf failed);
  void OnBadRequest(ErrorCodeOf failed);
  void EndWith(const ApiError& error);
  void WatchClient();
  void Push(Item item);
  void Next();
  void Say();
  void SayAnswer(const HttpAnswer& answer);
  void SayEvents();
  void Write(std::string bytes, bool last);
  void OnWritten(ErrorCodeOf failed, bool last);
  void Linger();
  void Close();

  Plane& plane_;
  beast::tcp_stream stream_;
  asio::steady_timer timer_;
  const bool admin_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::deque<Item> outbox_;
  std::string bytes_;  // of the write that is under way
  uint64_t ticket_ = 0;
  uint64_t requests_ = 0;
  bool busy_ = false;
  bool writing_ = false;
  bool streaming_ = false;
  bool keep_alive_ = true;
  bool chunked_ = true;     // HTTP/1.1
  bool head_only_ = false;  // HEAD: the answer has no body
};

// The end of a reply, which may come where memory has run out.
struct Farewell {
  std::shared_ptr<Connection> connection;
  bool said = false;  // the last of the answer is on its way
  ReservedMemory memory;
};

struct SayFarewell {
  using allocator_type = ReservedAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(&farewell->memory); }
  void operator()() const { farewell->connection->OnReplyGone(farewell->said); }
  std::unique_ptr<Farewell> farewell;
};

// The engine's end of a connection. Only the plane's thread may destroy a connection, so that it is
// given back there; and a client to whom nothing can be said any more must not wait for it.
class ConnectionReply final : public ReplySink {
 public:
  explicit ConnectionReply(std::shared_ptr<Connection> connection)
      : farewell_(new Farewell{std::move(connection), false, {}}) {}
  ~ConnectionReply() override {
    asio::io_context& io = farewell_->connection->io();
    asio::post(io.get_executor(), SayFarewell{std::move(farewell_)});
  }
  ConnectionReply(const ConnectionReply&) = delete;
  ConnectionReply& operator=(const ConnectionReply&) = delete;

  void Answer(HttpAnswer answer, int wait_ms) override {
    SayLast({Connection::Kind::kAnswer, std::move(answer), "", wait_ms});
  }
  void Event(std::string data, int wait_ms) override {
    farewell_->connection->Post({Connection::Kind::kEvent, {}, std::move(data), wait_ms});
  }
  void Finish() override { SayLast({Connection::Kind::kFinish, {}, "", 0}); }
  void Cut(int wait_ms) override { SayLast({Connection::Kind::kCut, {}, "", wait_ms}); }

 private:
  void SayLast(Connection::Item item) {
    if (farewell_->said) return;
    farewell_->connection->Post(std::move(item));
    farewell_->said = true;
  }

  std::unique_ptr<Farewell> farewell_;
};

// The wait for a request is idle time; once its first bytes are there it must arrive in time. A
// client that sends a byte now and then is closed like one that sends none.
void Connection::Read() {
  busy_ = streaming_ = head_only_ = false;
  ticket_ = 0;
  if (plane_.draining()) return Close();
  parser_.emplace();
  parser_->header_limit(kHeaderBytesMax);
  parser_->body_limit(plane_.options().body_bytes_max);
  stream_.expires_after(std::chrono::seconds(plane_.options().idle_s));
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCodeOf failed, size_t) { self->OnHeader(failed); });
}

void Connection::OnHeader(ErrorCodeOf failed) {
  if (failed) return OnBadRequest(failed);
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return ReadBody();
  bytes_ = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(bytes_),
                    [self = shared_from_this()](ErrorCodeOf error, size_t) {
                      error ? self->Close() : self->ReadBody();
                    });
}

void Connection::ReadBody() {
  stream_.expires_after(std::chrono::seconds(plane_.options().request_s));
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCodeOf failed, size_t) { self->OnRequest(failed); });
}

// What cannot be read as HTTP is answered where that helps, and the connection ends.
void Connection::OnBadRequest(ErrorCodeOf failed) {
  const auto too_large = [this](int status, const std::string& what, size_t most) {
    EndWith({status, what + " is larger than " + std::to_string(most) + " bytes", "", ""});
  };
  if (failed == http::error::header_limit) return too_large(431, "the header", kHeaderBytesMax);
  if (failed == http::error::body_limit) {
    return too_large(413, "the body", plane_.options().body_bytes_max);
  }
  if (failed == http::error::end_of_stream || failed == http::error::partial_message ||
      failed.category() != http::make_error_code(http::error::bad_method).category()) {
    return Close();  // the client left, or was too slow
  }
  EndWith({400, "this is not an HTTP request: " + failed.message(), "", ""});
}

void Connection::EndWith(const ApiError& error) {
  busy_ = true;
  keep_alive_ = false;
  Push({Kind::kAnswer, HttpAnswer::Of(error), "", 0});
}

void Connection::OnRequest(ErrorCodeOf failed) {
  if (failed) return OnBadRequest(failed);
  stream_.expires_never();
  http::request<http::string_body> request = parser_->release();
  busy_ = true;
  ++requests_;
  keep_alive_ = request.keep_alive() && !plane_.draining();
  chunked_ = request.version() >= 11;
  head_only_ = request.method() == http::verb::head;
  HttpAsk ask;
  ask.method = std::string(request.method_string());
  ask.path = std::string(request.target());
  ask.path.resize(std::min(ask.path.size(), ask.path.find('?')));
  ask.content_type = std::string(request[http::field::content_type]);
  ask.body = std::move(request.body());
  if (admin_) {
    const auto host = request[http::field::host];
    if (IsLocalHost({host.data(), host.size()})) {
      return Push({Kind::kAnswer, plane_.service().HandleAdmin(ask), "", 0});
    }
    return EndWith({403, "this port is for 127.0.0.1", "", ""});
  }
  WatchClient();
  ticket_ = plane_.service().Handle(ask, std::make_shared<ConnectionReply>(shared_from_this()));
}

// While an answer is made nothing is read, so a client that leaves is seen by its socket becoming
// readable with nothing in it.
void Connection::WatchClient() {
  stream_.socket().async_wait(
      tcp::socket::wait_read, [self = shared_from_this(), request = requests_](ErrorCodeOf failed) {
        if (failed || !self->busy_ || self->requests_ != request) return;
        char byte = 0;
        const auto got =
            ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got == 0) self->Close();
      });
}

void Connection::Post(Item item) {
  asio::post(stream_.get_executor(),
             [self = shared_from_this(), item = std::make_shared<Item>(std::move(item))] {
               self->Push(std::move(*item));
             });
}

// There was no memory for an answer: the connection ends without a word, or without the rest.
void Connection::OnReplyGone(bool said) {
  if (said || !busy_) return;
  ticket_ = 0;  // the exchange is over
  Close();
}

void Connection::Push(Item item) {
  if (!stream_.socket().is_open()) return;
  outbox_.push_back(std::move(item));
  if (!writing_) Next();
}

void Connection::Next() {
  if (outbox_.empty()) return;
  writing_ = true;
  const int wait_ms = std::exchange(outbox_.front().wait_ms, 0);
  if (wait_ms == 0) return Say();
  timer_.expires_after(std::chrono::milliseconds(wait_ms));
  timer_.async_wait([self = shared_from_this()](ErrorCodeOf failed) {
    if (!failed && self->stream_.socket().is_open()) self->Say();
  });
}

void Connection::Say() {
  Item& item = outbox_.front();
  switch (item.kind) {
    case Kind::kAnswer: {
      HttpAnswer answer = std::move(item.answer);
      outbox_.pop_front();
      return SayAnswer(answer);
    }
    case Kind::kEvent:
      return SayEvents();
    case Kind::kFinish:
      outbox_.pop_front();
      if (!chunked_) return OnWritten({}, true);
      return Write("0\r\n\r\n", true);
    case Kind::kCut: {
      outbox_.clear();
      // Reset, as a server that died would do.
      ErrorCodeOf ignored;
      stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
      return Close();
    }
  }
}

void Connection::SayAnswer(const HttpAnswer& answer) {
  http::response<http::string_body> response(static_cast<http::status>(answer.status),
                                             chunked_ ? 11 : 10);
  response.set(http::field::content_type, answer.content_type);
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  response.keep_alive(keep_alive_);
  response.content_length(answer.body.size());
  std::ostringstream head;
  head << response.base();
  Write(head.str() + (head_only_ ? "" : answer.body), true);
}

// All events up to the next one that must wait go out in one write.
void Connection::SayEvents() {
  std::string bytes;
  if (!std::exchange(streaming_, true)) {
    if (!chunked_) keep_alive_ = false;
    bytes = StreamHeadText(chunked_, keep_alive_);
  }
  std::string events;
  do {
    events += EventText(outbox_.front().data);
    outbox_.pop_front();
  } while (!outbox_.empty() && outbox_.front().kind == Kind::kEvent &&
           outbox_.front().wait_ms == 0);
  Write(bytes + (chunked_ ? ChunkText(events) : events), false);
}

void Connection::Write(std::string bytes, bool last) {
  bytes_ = std::move(bytes);
  stream_.expires_after(std::chrono::seconds(plane_.options().request_s));
  asio::async_write(stream_, asio::buffer(bytes_),
                    [self = shared_from_this(), last](ErrorCodeOf failed, size_t) {
                      self->OnWritten(failed, last);
                    });
}

void Connection::OnWritten(ErrorCodeOf failed, bool last) {
  writing_ = false;
  if (failed) return Close();
  stream_.expires_never();
  if (!last) return Next();
  ticket_ = 0;  // the exchange is over
  if (keep_alive_) return Read();
  busy_ = false;
  if (plane_.draining()) return Close();
  ErrorCodeOf ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  timer_.expires_after(std::chrono::seconds(kLingerS));
  timer_.async_wait([self = shared_from_this()](ErrorCodeOf) { self->Close(); });
  Linger();
}

// Closed with bytes unread, a connection is reset, and the client may lose the answer: what it
// still sends is taken and thrown away.
void Connection::Linger() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kHeaderBytesMax),
                          [self = shared_from_this()](ErrorCodeOf error, size_t) {
                            error ? self->Close() : self->Linger();
                          });
}

void Connection::Close() {
  if (ticket_ != 0) plane_.service().Cancel(std::exchange(ticket_, 0));
  timer_.cancel();
  ErrorCodeOf ignored;
  stream_.socket().close(ignored);
}

void Plane::Gone(Connection* connection) {
  connections_.erase(connection);
  if (draining_ && connections_.empty() && !closing_) io_.stop();
}

Result<> Plane::Listen(const TellStarted& started) {
  ServeStarted words;
  KCC_TRY(words.url, OpenPort(options_.host, options_.port, &acceptor_));
  if (options_.admin_port) {
    KCC_TRY(words.admin_url, OpenPort("127.0.0.1", *options_.admin_port, &admin_acceptor_));
    Accept(&admin_acceptor_, true);
  }
  words.model = service_->model().name;
  words.fingerprint = service_->fingerprint();
  KCC_TRY_VOID(stop_signals_.Start());
  signals_.assign(stop_signals_.fd());
  AwaitSignal();
  Accept(&acceptor_, false);
  return started(words);
}

void Plane::Accept(tcp::acceptor* acceptor, bool admin) {
  acceptor->async_accept([this, acceptor, admin](ErrorCodeOf failed, tcp::socket socket) {
    if (!acceptor->is_open()) return;
    if (!failed) {
      ErrorCodeOf ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      const bool full = connections_.size() >= options_.connections_max;
      const auto connection = std::make_shared<Connection>(*this, std::move(socket), admin);
      full ? connection->Refuse() : connection->Start();
      return Accept(acceptor, admin);
    }
    // No descriptor is free, for example: another try once some may have been given back.
    retry_timer_.expires_after(std::chrono::milliseconds(100));
    retry_timer_.async_wait([this, acceptor, admin](ErrorCodeOf error) {
      if (!error && acceptor->is_open()) Accept(acceptor, admin);
    });
  });
}

void Plane::AwaitSignal() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](ErrorCodeOf failed) {
    if (failed) return;
    const uint64_t came = stop_signals_.Take();
    if (came > 1 || (came == 1 && draining_)) return io_.stop();
    if (came == 1) Drain();
    AwaitSignal();
  });
}

// New connections are not taken, and connections without a request end. The others end with their
// answers; the last of them stops the plane (Gone).
void Plane::Drain() {
  draining_ = true;
  service_->Drain();
  ErrorCodeOf ignored;
  acceptor_.close(ignored);
  admin_acceptor_.close(ignored);
  if (connections_.empty()) return io_.stop();
  for (Connection* connection : std::set(connections_)) connection->OnDrain();
  drain_timer_.expires_after(std::chrono::seconds(options_.drain_s));
  drain_timer_.async_wait([this](ErrorCodeOf failed) {
    if (!failed) io_.stop();
  });
}

}  // namespace

// The one place where the library's exceptions are caught.
Result<> Serve(const ServeOptions& options, const TellStarted& started) {
  KCC_TRY(std::unique_ptr<Service> service,
          Service::Open({options.model_directory, options.switches, options.queue_max,
                         options.program_version}));
  try {
    Plane plane(options, std::move(service));
    KCC_TRY_VOID(plane.Listen(started));
    plane.Run();
  } catch (const boost::system::system_error& fault) {
    return IoError("the server failed: " + std::string(fault.what()));
  }
  return {};
}

}  // namespace kcc
