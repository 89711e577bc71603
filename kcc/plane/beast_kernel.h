// Connections to kernels: one request at a time, kept open between requests. A thread's own.
#pragma once

#include <boost/asio/ip/basic_resolver.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/gateway/gateway_exchange.h"
#include "kcc/plane/beast_wire.h"

namespace kcc::plane {

class PlaneThread;
class KernelDoor;
class KernelConnection;

// Who asked. Every request ends with one OnKernelEnd, OnKernelFailure or OnKernelStale, unless it
// is dropped; nothing comes after that.
class KernelListener {
 public:
  virtual ~KernelListener() = default;
  virtual void OnKernelHead(int status, std::span<const HeaderField> headers) = 0;
  virtual void OnKernelBody(std::string_view bytes) = 0;  // they live as long as the call
  virtual void OnKernelEnd() = 0;
  virtual void OnKernelFailure(UpstreamFailure failure) = 0;
  // The connection was kept from an earlier request and turned out to have been closed before the
  // request reached the kernel: it may be sent once more, on a new one.
  virtual void OnKernelStale(std::string request) = 0;
};

// An address of kernels, with the connections to it that wait for a request.
struct KernelPlace {
  std::string scheme, host, ca_file;
  uint16_t port = 0;
  std::string host_field;           // for Host
  std::shared_ptr<TlsContext> tls;  // null: plain, or the certificates cannot be read
  std::vector<std::shared_ptr<KernelConnection>> idle;  // the youngest last
  bool retired = false;                                 // no kernel of the pool in force is there
};

class KernelConnection final : public Timed {
 public:
  KernelConnection(PlaneThread& thread, std::shared_ptr<KernelPlace> place);
  ~KernelConnection() override;

  // `request`: head and body. It connects first where it has not. `head_only`: the answer to a
  // HEAD.
  void Ask(KernelListener* listener, std::string request, bool head_only);
  // While the client takes what was passed on, nothing more is read.
  void Pause() { paused_ = true; }
  void Resume();
  // The answer is not wanted any more: nothing is told, the connection is closed.
  void Drop();
  void OnDeadline() override;
  void Abort() override { Drop(); }

 private:
  friend class KernelDoor;
  enum class Phase : uint8_t { kNew, kConnecting, kIdle, kHead, kBody, kEnd, kClosed };
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;

  std::shared_ptr<KernelConnection> Self();
  template <class Work>
  void Guard(Work work);
  void ExpireIn(int64_t ms);
  void Connect();
  void OnConnected(ErrorCodeOf failed);
  void Handshake();
  void NewParser();
  void SendRequest();
  void WriteRest();
  void Read();
  void OnRead(ErrorCodeOf failed, size_t bytes);
  void Pump();
  // False: more bytes are needed, or the answer is over.
  bool ReadHead();
  bool ReadBody();
  void TellHead();
  void Finish();
  void Fail(UpstreamFailure failure);
  void Close();

  PlaneThread& thread_;
  std::shared_ptr<KernelPlace> place_;
  Wire wire_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::vector<HeaderField> fields_;
  KernelListener* listener_ = nullptr;  // set while a request is under way
  std::string request_;
  size_t sent_ = 0;  // of it
  int skipped_ = 0;  // heads of 1xx
  Phase phase_ = Phase::kNew;
  bool head_only_ = false;
  bool reused_ = false;
  bool received_ = false;  // a byte of this answer
  bool unheard_ = false;   // the kernel ended without a byte of this request
  bool reading_ = false;
  bool writing_ = false;
  bool write_failed_ = false;
  bool paused_ = false;
  bool pumping_ = false;
};

class KernelDoor {
 public:
  explicit KernelDoor(PlaneThread& thread) : thread_(thread) {}

  // A connection to a kernel of `pool`: the youngest that waits, or, where there is none or `fresh`
  // is asked for, a new one.
  std::shared_ptr<KernelConnection> Take(const std::shared_ptr<const GatewayPool>& pool,
                                         size_t kernel, bool fresh);
  const std::string& HostField(const std::shared_ptr<const GatewayPool>& pool, size_t kernel);
  void CloseAll();

 private:
  friend class KernelConnection;
  const std::shared_ptr<KernelPlace>& PlaceOf(const std::shared_ptr<const GatewayPool>& pool,
                                              size_t kernel);
  void Read(const std::shared_ptr<const GatewayPool>& pool);
  bool Keep(const std::shared_ptr<KernelConnection>& connection);
  void Forget(KernelConnection* connection);

  PlaneThread& thread_;
  std::map<std::string, std::shared_ptr<KernelPlace>> places_;
  std::shared_ptr<const GatewayPool> pool_;  // that `by_kernel_` is of
  std::vector<std::shared_ptr<KernelPlace>> by_kernel_;
};

// With the certificates that a kernel's is checked against.
Result<std::shared_ptr<TlsContext>> KernelTls(const std::string& ca_file);

}  // namespace kcc::plane
