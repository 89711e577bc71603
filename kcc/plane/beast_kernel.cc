// The invariant of a kernel's connection: while it is open and not paused, one read is pending,
// between requests too. So a connection that the kernel closed leaves the idle ones at once, and
// the read that waited becomes that of the next answer.
#include "kcc/plane/beast_kernel.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>

#include "kcc/plane/beast_thread.h"
#include "kcc/plane/http_text.h"

namespace kcc::plane {
namespace {

namespace http = boost::beast::http;
using Resolver = asio::ip::basic_resolver<asio::ip::tcp, Executor>;

constexpr size_t kKernelHeadMax = 64 << 10;
constexpr size_t kKernelReadBytes = 16 << 10;
constexpr size_t kBodyPiece = 32 << 10;
// Not boost::none, beyond which Beast takes every length to be.
constexpr uint64_t kAnyLength = std::numeric_limits<uint64_t>::max();
constexpr int kSkippedHeadsMax = 16;
constexpr int64_t kIdleMs = 60'000;

// Of a thread, for bodies on their way from parser to exchange: nothing stays in it.
char* BodyScratch() {
  static thread_local char scratch[kBodyPiece];
  return scratch;
}

std::string WithoutBrackets(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']'
             ? host.substr(1, host.size() - 2)
             : host;
}

}  // namespace

Result<std::shared_ptr<TlsContext>> KernelTls(const std::string& ca_file) {
  auto context = std::make_shared<TlsContext>(TlsContext::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  ErrorCodeOf failed;
  context->set_verify_mode(asio::ssl::verify_peer, failed);
  if (ca_file.empty()) {
    context->set_default_verify_paths(failed);
  } else {
    context->load_verify_file(ca_file, failed);
  }
  if (failed) {
    return IoError("cannot read the certificates " +
                   (ca_file.empty() ? "of the system" : "'" + ca_file + "'") + ": " +
                   failed.message());
  }
  return context;
}

KernelConnection::KernelConnection(PlaneThread& thread, std::shared_ptr<KernelPlace> place)
    : thread_(thread), place_(std::move(place)), wire_(Socket(thread.io())) {
  thread_.Came(this);
}

KernelConnection::~KernelConnection() { thread_.Gone(this); }

std::shared_ptr<KernelConnection> KernelConnection::Self() {
  return std::static_pointer_cast<KernelConnection>(shared_from_this());
}

// Nothing that is thrown leaves a handler: it costs this connection, and the request is failed
// over.
template <class Work>
void KernelConnection::Guard(Work work) {
  if (phase_ == Phase::kClosed) return;
  try {
    work();
  } catch (const std::exception&) {
    pumping_ = false;
    Fail(UpstreamFailure::kBroken);
  }
}

void KernelConnection::ExpireIn(int64_t ms) { deadline_us = thread_.NowUs() + ms * 1000; }

void KernelConnection::Ask(KernelListener* listener, std::string request, bool head_only) {
  listener_ = listener;
  request_ = std::move(request);
  head_only_ = head_only;
  sent_ = 0;
  skipped_ = 0;
  received_ = paused_ = unheard_ = false;
  if (phase_ == Phase::kNew) return Connect();
  reused_ = true;
  SendRequest();
}

// Handlers of the connection's way out are told apart by the phase: a deadline may have closed it.
void KernelConnection::Connect() {
  phase_ = Phase::kConnecting;
  ExpireIn(thread_.options().connect_ms);
  const std::string host = WithoutBrackets(place_->host);
  ErrorCodeOf failed;
  const asio::ip::address address = asio::ip::make_address(host, failed);
  if (!failed) {
    wire_.socket().async_connect({address, place_->port}, [self = Self()](ErrorCodeOf error) {
      self->Guard([&] { self->OnConnected(error); });
    });
    return;
  }
  const auto resolver = std::make_shared<Resolver>(thread_.io());
  resolver->async_resolve(
      host, std::to_string(place_->port),
      [self = Self(), resolver](ErrorCodeOf error, const Resolver::results_type& found) {
        self->Guard([&] {
          if (error) return self->Fail(UpstreamFailure::kConnect);
          asio::async_connect(self->wire_.socket(), found,
                              [self](ErrorCodeOf refused, const asio::ip::tcp::endpoint&) {
                                self->Guard([&] { self->OnConnected(refused); });
                              });
        });
      });
}

void KernelConnection::OnConnected(ErrorCodeOf failed) {
  if (failed) return Fail(UpstreamFailure::kConnect);
  wire_.NoDelay();
  if (place_->scheme == "https") return Handshake();
  SendRequest();
}

void KernelConnection::Handshake() {
  if (!place_->tls) return Fail(UpstreamFailure::kConnect);
  wire_.UseTls(*place_->tls);
  TlsStream& tls = *wire_.tls();
  const std::string host = WithoutBrackets(place_->host);
  ErrorCodeOf failed;
  asio::ip::make_address(host, failed);
  const bool name = static_cast<bool>(failed);
  // Server Name Indication is for names; a certificate may still be for an address.
  if (name && SSL_set_tlsext_host_name(tls.native_handle(), host.c_str()) != 1) {
    return Fail(UpstreamFailure::kConnect);
  }
  tls.set_verify_callback(asio::ssl::host_name_verification(host), failed);
  if (failed) return Fail(UpstreamFailure::kConnect);
  tls.async_handshake(TlsStream::client, [self = Self()](ErrorCodeOf refused) {
    self->Guard([&] {
      if (refused) return self->Fail(UpstreamFailure::kConnect);
      self->SendRequest();
    });
  });
}

void KernelConnection::NewParser() {
  parser_.emplace();
  parser_->header_limit(kKernelHeadMax);
  parser_->body_limit(kAnyLength);
  parser_->skip(head_only_);
}

void KernelConnection::SendRequest() {
  phase_ = Phase::kHead;
  ExpireIn(thread_.options().first_byte_ms);
  NewParser();
  write_failed_ = false;
  sent_ = wire_.TrySend(request_, &unheard_);
  if (sent_ < request_.size()) WriteRest();
  if (!reading_) Read();
}

// A kernel may answer before it has read all: an error here is no end while there may be an answer
// to read.
void KernelConnection::WriteRest() {
  writing_ = true;
  wire_.WriteSome(std::string_view(request_).substr(sent_),
                  [self = Self()](ErrorCodeOf failed, size_t bytes) {
                    self->writing_ = false;
                    self->Guard([&] {
                      if (failed) {
                        self->write_failed_ = true;
                        return;
                      }
                      self->sent_ += bytes;
                      if (self->sent_ < self->request_.size()) self->WriteRest();
                    });
                  });
}

void KernelConnection::Read() {
  reading_ = true;
  wire_.ReadSome(buffer_.prepare(kKernelReadBytes),
                 [self = Self()](ErrorCodeOf failed, size_t bytes) {
                   self->reading_ = false;
                   self->Guard([&] { self->OnRead(failed, bytes); });
                 });
}

void KernelConnection::OnRead(ErrorCodeOf failed, size_t bytes) {
  if (listener_ == nullptr) return Close();  // closed by the kernel, or bytes that nobody asked for
  if (failed) {
    // TLS must say that it ends; without, an answer that ends with its connection may be cut short.
    const bool ended = failed == asio::error::eof;
    if (ended || failed == asio::ssl::error::stream_truncated) {
      unheard_ = unheard_ || wire_.Unacknowledged() >= std::max<size_t>(sent_, 1);
    }
    if (ended && phase_ == Phase::kBody && parser_->need_eof()) {
      phase_ = Phase::kEnd;
      return Pump();
    }
    return Fail(UpstreamFailure::kBroken);
  }
  buffer_.commit(bytes);
  received_ = true;
  Pump();
}

void KernelConnection::Resume() {
  if (!paused_) return;
  paused_ = false;
  if (phase_ == Phase::kBody) ExpireIn(thread_.options().between_ms);
  Pump();
}

// What is told may ask for the next request, pause or drop this connection: every turn looks anew.
void KernelConnection::Pump() {
  if (pumping_) return;
  pumping_ = true;
  const std::shared_ptr<KernelConnection> self = Self();
  bool more = true;
  while (more && listener_ != nullptr && !paused_) {
    switch (phase_) {
      case Phase::kHead:
        more = ReadHead();
        break;
      case Phase::kBody:
        more = ReadBody();
        break;
      case Phase::kEnd:
        Finish();
        break;
      default:
        more = false;
    }
  }
  pumping_ = false;
  if (listener_ != nullptr && !paused_ && !reading_ && wire_.is_open() &&
      (phase_ == Phase::kHead || phase_ == Phase::kBody)) {
    Read();
  }
}

bool KernelConnection::ReadHead() {
  if (buffer_.size() == 0) return false;
  ErrorCodeOf failed;
  buffer_.consume(parser_->put(buffer_.data(), failed));
  if (failed == http::error::header_limit ||
      (failed == http::error::need_more && buffer_.size() > kKernelHeadMax)) {
    Fail(UpstreamFailure::kTooLarge);
    return false;
  }
  if (failed == http::error::need_more) return false;
  if (failed) {
    Fail(UpstreamFailure::kBroken);
    return false;
  }
  if (parser_->is_header_done()) TellHead();
  return true;
}

void KernelConnection::TellHead() {
  const int status = static_cast<int>(parser_->get().result_int());
  if (status < 200) {
    if (status == 101 || status < 100 || ++skipped_ > kSkippedHeadsMax) {
      return Fail(UpstreamFailure::kBroken);
    }
    return NewParser();
  }
  phase_ = parser_->is_done() ? Phase::kEnd : Phase::kBody;
  parser_->eager(true);
  ExpireIn(thread_.options().between_ms);
  fields_.clear();
  for (const auto& field : parser_->get()) {
    const HeaderField one{{field.name_string().data(), field.name_string().size()},
                          {field.value().data(), field.value().size()}};
    // Of these a core may want to know the length; it is written anew for the client.
    if (!IsConnectionField(one.name) || EqualsIgnoringCase(one.name, "content-length")) {
      fields_.push_back(one);
    }
  }
  listener_->OnKernelHead(status, fields_);
}

bool KernelConnection::ReadBody() {
  if (buffer_.size() == 0) return false;
  auto& body = parser_->get().body();
  body.data = BodyScratch();
  body.size = kBodyPiece;
  ErrorCodeOf failed;
  buffer_.consume(parser_->put(buffer_.data(), failed));
  const size_t got = kBodyPiece - body.size;
  const bool more = failed == http::error::need_more;
  if (failed && !more && failed != http::error::need_buffer) {
    Fail(UpstreamFailure::kBroken);
    return false;
  }
  // A line of a chunk that does not end.
  if (more && got == 0 && buffer_.size() > kKernelHeadMax) {
    Fail(UpstreamFailure::kBroken);
    return false;
  }
  if (parser_->is_done()) phase_ = Phase::kEnd;
  ExpireIn(thread_.options().between_ms);
  if (got > 0) listener_->OnKernelBody({BodyScratch(), got});
  return !more || phase_ == Phase::kEnd;
}

// A connection is kept where nothing is left on it: what came beyond the answer would be read as
// the beginning of the next one.
void KernelConnection::Finish() {
  KernelListener* const listener = std::exchange(listener_, nullptr);
  const bool keep = parser_->is_done() && parser_->keep_alive() && buffer_.size() == 0 &&
                    !writing_ && !write_failed_ && sent_ == request_.size();
  if (!writing_) request_.clear();
  if (!keep || !thread_.kernels().Keep(Self())) Close();
  listener->OnKernelEnd();
}

// A connection that was kept may be closed by the kernel while a request is on its way to it. Such
// a request was surely not begun, and may be sent once more, if the close was there when it was
// written, or the end came before the kernel's system acknowledged a byte of it: it then had ended
// before it got the request. A reset, or an end behind an acknowledgement, may be a kernel that
// died over the request: it is the kernel's failure.
void KernelConnection::Fail(UpstreamFailure failure) {
  KernelListener* const listener = std::exchange(listener_, nullptr);
  const bool broken = failure == UpstreamFailure::kBroken;
  const bool stale = broken && reused_ && !received_ && unheard_;
  // A write under way still reads the request; its handler holds this.
  std::string request = stale ? (writing_ ? request_ : std::move(request_)) : "";
  Close();
  if (listener == nullptr) return;
  if (stale) return listener->OnKernelStale(std::move(request));
  listener->OnKernelFailure(failure);
}

void KernelConnection::OnDeadline() {
  deadline_us = kNever;
  if (listener_ == nullptr) return Close();
  if (paused_) return;  // the client's time is counted, not the kernel's
  Fail(phase_ == Phase::kConnecting ? UpstreamFailure::kConnect : UpstreamFailure::kTimeout);
}

void KernelConnection::Drop() {
  listener_ = nullptr;
  Close();
}

void KernelConnection::Close() {
  if (phase_ == Phase::kClosed) return;
  const bool idle = phase_ == Phase::kIdle;
  phase_ = Phase::kClosed;
  deadline_us = kNever;
  wire_.Close();
  const std::shared_ptr<Timed> self = shared_from_this();
  if (idle) thread_.kernels().Forget(this);
}

std::shared_ptr<KernelConnection> KernelDoor::Take(const std::shared_ptr<const GatewayPool>& pool,
                                                   size_t kernel, bool fresh) {
  const std::shared_ptr<KernelPlace>& place = PlaceOf(pool, kernel);
  while (!fresh && !place->idle.empty()) {
    std::shared_ptr<KernelConnection> youngest = place->idle.back();
    // What is there before the request was sent is not its answer. The loop may not have come to
    // it.
    if (youngest->wire_.IsSilent()) {
      place->idle.pop_back();
      return youngest;
    }
    youngest->Close();  // it leaves the list
  }
  return std::make_shared<KernelConnection>(thread_, place);
}

const std::string& KernelDoor::HostField(const std::shared_ptr<const GatewayPool>& pool,
                                         size_t kernel) {
  return PlaceOf(pool, kernel)->host_field;
}

const std::shared_ptr<KernelPlace>& KernelDoor::PlaceOf(
    const std::shared_ptr<const GatewayPool>& pool, size_t kernel) {
  if (pool_ != pool) Read(pool);
  return by_kernel_[kernel];
}

// After a reload: addresses that are still in use keep their connections.
void KernelDoor::Read(const std::shared_ptr<const GatewayPool>& pool) {
  std::map<std::string, std::shared_ptr<KernelPlace>> places;
  std::vector<std::shared_ptr<KernelPlace>> by_kernel;
  for (const PoolKernel& kernel : pool->kernels) {
    const std::string key = kernel.scheme + " " + kernel.host + " " + std::to_string(kernel.port) +
                            " " + kernel.ca_file;
    std::shared_ptr<KernelPlace>& place = places[key];
    if (const auto known = places_.find(key); !place && known != places_.end()) {
      place = known->second;
    }
    if (!place) {
      place = std::make_shared<KernelPlace>();
      place->scheme = kernel.scheme;
      place->host = kernel.host;
      place->port = kernel.port;
      place->ca_file = kernel.ca_file;
      const bool bare_v6 = kernel.host.find(':') != std::string::npos && kernel.host[0] != '[';
      place->host_field = bare_v6 ? "[" + kernel.host + "]" : kernel.host;
      if (kernel.port != (kernel.scheme == "https" ? 443 : 80)) {
        place->host_field += ":" + std::to_string(kernel.port);
      }
      if (kernel.scheme == "https") {
        // Where they cannot be read no connection is made, never one that is not verified.
        if (auto tls = KernelTls(kernel.ca_file)) place->tls = *tls;
      }
    }
    by_kernel.push_back(place);
  }
  for (const auto& [key, place] : places_) {
    if (places.contains(key)) continue;
    place->retired = true;
    for (const auto& connection : std::exchange(place->idle, {})) connection->Close();
  }
  places_ = std::move(places);
  by_kernel_ = std::move(by_kernel);
  pool_ = pool;
}

bool KernelDoor::Keep(const std::shared_ptr<KernelConnection>& connection) {
  KernelPlace& place = *connection->place_;
  const size_t idle_max = thread_.options().idle_upstreams_max;
  if (place.retired || thread_.draining() || idle_max == 0) return false;
  if (place.idle.size() >= idle_max) place.idle.front()->Close();  // it leaves the list
  connection->phase_ = KernelConnection::Phase::kIdle;
  connection->ExpireIn(kIdleMs);
  place.idle.push_back(connection);
  if (!connection->reading_) connection->Read();
  return true;
}

void KernelDoor::Forget(KernelConnection* connection) {
  std::erase_if(connection->place_->idle,
                [&](const auto& idle) { return idle.get() == connection; });
}

void KernelDoor::CloseAll() {
  for (const auto& [key, place] : places_) {
    for (const auto& connection : std::exchange(place->idle, {})) connection->Close();
  }
  places_.clear();
  by_kernel_.clear();
  pool_.reset();
}

}  // namespace kcc::plane
