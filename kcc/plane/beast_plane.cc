// The plane as a whole: listens, starts the threads, reloads, drains.
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <chrono>
#include <cstring>

#include "kcc/base/check.h"
#include "kcc/plane/beast_admin.h"
#include "kcc/plane/beast_thread.h"
#include "kcc/plane/plane.h"
#include "kcc/plane/plane_check.h"

namespace kcc {
namespace plane {
namespace {

Result<std::shared_ptr<TlsContext>> ServerTls(const PlaneTls& files) {
  auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                                    SSL_OP_CIPHER_SERVER_PREFERENCE);
  ErrorCodeOf failed;
  // Nobody is there to be asked for one.
  context->set_password_callback([](size_t, TlsContext::password_purpose) { return std::string(); },
                                 failed);
  context->use_certificate_chain_file(files.certificate, failed);
  if (failed) {
    return IoError("cannot read the certificate '" + files.certificate + "': " + failed.message());
  }
  context->use_private_key_file(files.key, TlsContext::pem, failed);
  if (failed) return IoError("cannot read the key '" + files.key + "': " + failed.message());
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return InvalidError("the key '" + files.key + "' is not that of the certificate '" +
                        files.certificate + "'");
  }
  return context;
}

Result<std::shared_ptr<const Settings>> MakeSettings(const PlaneOptions& options) {
  auto settings = std::make_shared<Settings>();
  settings->options = options;
  KCC_TRY(settings->keys, ClientKeys::Of(options.client_key_hashes));
  if (!options.tls.certificate.empty()) {
    KCC_TRY(settings->tls, ServerTls(options.tls));
  }
  return std::shared_ptr<const Settings>(std::move(settings));
}

// Threads share their port (SO_REUSEPORT), and so could another program of this user, which would
// then take a part of the requests. This asks once without.
Result<> CheckPortIsFree(const std::string& host, uint16_t port) {
  asio::io_context io;
  Acceptor probe(io);
  ErrorCodeOf failed;
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(host, failed), port);
  if (!failed) probe.open(endpoint.protocol(), failed);
  if (!failed) probe.set_option(asio::socket_base::reuse_address(true), failed);
  if (!failed) probe.bind(endpoint, failed);
  if (failed) {
    return IoError("cannot listen on " + host + ":" + std::to_string(port) + ": " +
                   failed.message());
  }
  return {};
}

std::string UrlOf(const char* scheme, const std::string& host, uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return std::string(scheme) + "://" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

class BeastPlane final : public Plane {
 public:
  BeastPlane(const PlaneOptions& options, AdminHandler& admin, const std::string& secret)
      : options_(options), admin_(admin, secret) {}
  ~BeastPlane() override {
    // First: a reload that it carries out waits for the threads.
    admin_.Stop();
    for (const auto& thread : threads_) thread->Stop();
  }

  Result<> Open(GatewayCore& core, uint64_t salt, PlaneStarted* started);
  Result<> Reload(const PlaneOptions& options) override;
  void Drain() override;
  PlaneCounts counts() const override;

 private:
  PlaneOptions options_;
  SharedCounts counts_;
  AdminListener admin_;
  std::vector<std::unique_ptr<PlaneThread>> threads_;
};

Result<> BeastPlane::Open(GatewayCore& core, uint64_t salt, PlaneStarted* started) {
  KCC_TRY(const auto settings, MakeSettings(options_));
  const std::string host = ListenAddress(options_.host);
  if (options_.port != 0) {
    KCC_TRY_VOID(CheckPortIsFree(host, options_.port));
  }
  uint16_t port = options_.port;
  for (const auto& worker : core.workers()) {
    threads_.push_back(std::make_unique<PlaneThread>(core, *worker, counts_, settings, salt));
    KCC_TRY(port, threads_.back()->Listen(host, port));
  }
  const std::string admin_host = ListenAddress(options_.admin_host);
  KCC_TRY(const uint16_t admin_port, admin_.Listen(admin_host, options_.admin_port));
  admin_.UseToken(options_.admin_token);
  started->url = UrlOf(settings->tls ? "https" : "http", host, port);
  started->admin_url = UrlOf("http", admin_host, admin_port);
  admin_.Start();
  for (const auto& thread : threads_) thread->Start();
  return {};
}

Result<> BeastPlane::Reload(const PlaneOptions& options) {
  KCC_TRY_VOID(CheckPlaneReload(options_, options));
  try {
    KCC_TRY(const auto settings, MakeSettings(options));
    admin_.UseToken(options.admin_token);
    for (const auto& thread : threads_) thread->Use(settings);
  } catch (const std::exception& fault) {
    return IoError("the options could not be taken: " + std::string(fault.what()));
  }
  options_ = options;
  return {};
}

void BeastPlane::Drain() {
  counts_.draining.store(true);
  for (const auto& thread : threads_) thread->StopAccepting();
  std::unique_lock lock(counts_.drain_mutex);
  counts_.drained.wait_for(lock, std::chrono::milliseconds(options_.drain_ms),
                           [&] { return counts_.connections.load() == 0; });
}

PlaneCounts BeastPlane::counts() const {
  return {counts_.connections.load(),  counts_.accepted.load(),    counts_.over_limit.load(),
          counts_.bad_requests.load(), counts_.without_key.load(), counts_.rate_limited.load()};
}

}  // namespace
}  // namespace plane

Result<> CheckPlane(const PlaneOptions& options, const GatewayPool& pool) {
  KCC_TRY_VOID(CheckPlaneOptions(options));
  KCC_TRY_VOID(plane::MakeSettings(options));
  for (const PoolKernel& kernel : pool.kernels) {
    if (kernel.scheme != "https") continue;
    auto tls = plane::KernelTls(kernel.ca_file);
    if (!tls) return InvalidError("kernel '" + kernel.name + "': " + tls.error().message());
  }
  return {};
}

Result<std::unique_ptr<Plane>> Plane::Start(const PlaneOptions& options, GatewayCore& core,
                                            AdminHandler& admin, PlaneStarted* started) {
  KCC_CHECK(!core.workers().empty());
  KCC_TRY_VOID(CheckPlane(options, *core.pool()));
  try {
    unsigned char random[40];
    if (RAND_bytes(random, sizeof random) != 1) return IoError("the system gives no random bytes");
    uint64_t salt = 0;
    std::memcpy(&salt, random + 32, sizeof salt);
    const std::string secret(reinterpret_cast<const char*>(random), 32);
    auto plane = std::make_unique<plane::BeastPlane>(options, admin, secret);
    KCC_TRY_VOID(plane->Open(core, salt, started));
    return std::unique_ptr<Plane>(std::move(plane));
  } catch (const std::exception& fault) {
    return IoError("the gateway cannot listen: " + std::string(fault.what()));
  }
}

}  // namespace kcc
