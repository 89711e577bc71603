// What the plane's tests share: connections as plain sockets, a kernel that follows a script, and a
// plane on free ports before it. Everything waits for what it is told, never for a time; a wait
// that cannot end fails after kPatience.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/gateway/gateway_core.h"
#include "kcc/plane/plane.h"

namespace kcc {

inline constexpr int kPatienceSeconds = 20;

// One end of a connection; blocking.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {
    const timeval patience{kPatienceSeconds, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  ~Channel() { Close(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  static std::unique_ptr<Channel> To(uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(fd);
      return nullptr;
    }
    return std::make_unique<Channel>(fd);
  }

  bool UseTls(SSL_CTX* context, bool server) {
    tls_ = SSL_new(context);
    SSL_set_fd(tls_, fd_);
    return (server ? SSL_accept(tls_) : SSL_connect(tls_)) == 1;
  }
  SSL* tls() { return tls_; }

  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = tls_ != nullptr
                            ? SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()))
                            : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // False: the connection has ended, or was reset.
  bool ReadMore() {
    char bytes[65536];
    const auto got =
        tls_ != nullptr ? SSL_read(tls_, bytes, sizeof bytes) : ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) {
      reset_ = got < 0;
      return false;
    }
    read_.append(bytes, static_cast<size_t>(got));
    return true;
  }
  // Through the end of the first `mark`; empty: the connection ended before it.
  std::string ReadThrough(std::string_view mark) {
    size_t at = 0;
    while ((at = read_.find(mark)) == read_.npos) {
      if (!ReadMore()) return "";
    }
    return TakeRead(at + mark.size());
  }
  std::string ReadBytes(size_t count) {
    while (read_.size() < count && ReadMore()) {
    }
    return TakeRead(std::min(count, read_.size()));
  }
  std::string ReadAll() {
    while (ReadMore()) {
    }
    return TakeRead(read_.size());
  }
  bool Ended() { return ReadAll().empty(); }
  bool reset() const { return reset_; }
  void EndSending() { ::shutdown(fd_, SHUT_WR); }
  void Reset() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    Close();
  }
  void Close() {
    if (tls_ != nullptr) SSL_free(std::exchange(tls_, nullptr));
    if (const int fd = fd_.exchange(-1); fd >= 0) ::close(fd);
  }
  // Wakes a read in another thread.
  void Interrupt() { ::shutdown(fd_, SHUT_RDWR); }

 private:
  std::string TakeRead(size_t count) {
    std::string taken = read_.substr(0, count);
    read_.erase(0, count);
    return taken;
  }

  std::atomic<int> fd_;
  SSL* tls_ = nullptr;
  std::string read_;
  bool reset_ = false;
};

struct TestMessage {
  std::string head;
  std::string body;
  bool whole = false;

  int status() const { return head.size() > 12 ? std::stoi(head.substr(9, 3)) : 0; }
  bool Has(std::string_view text) const { return head.find(text) != head.npos; }
};

// A request or an answer, by its length, its chunks or the end of the connection.
inline TestMessage ReadMessage(Channel& channel, bool request) {
  TestMessage message;
  message.head = channel.ReadThrough("\r\n\r\n");
  if (message.head.empty()) return message;
  const auto field = [&](const std::string& name) {
    std::string lower = message.head;
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    const size_t at = lower.find("\r\n" + name + ":");
    if (at == lower.npos) return std::string();
    const size_t from = at + name.size() + 3;
    return lower.substr(from, lower.find("\r\n", from) - from);
  };
  if (const std::string length = field("content-length"); !length.empty()) {
    const size_t bytes = std::stoul(length);
    message.body = channel.ReadBytes(bytes);
    message.whole = message.body.size() == bytes;
  } else if (field("transfer-encoding").find("chunked") != std::string::npos) {
    for (;;) {
      const std::string line = channel.ReadThrough("\r\n");
      if (line.empty()) return message;
      const size_t size = std::stoul(line, nullptr, 16);
      const std::string data = channel.ReadBytes(size);
      message.body += data;
      if (data.size() < size || channel.ReadThrough("\r\n").empty()) return message;
      if (size == 0) break;
    }
    message.whole = true;
  } else if (request || message.status() < 200 || message.status() == 204) {
    message.whole = true;
  } else {
    message.body = channel.ReadAll();
    message.whole = !channel.reset();
  }
  return message;
}

inline std::string Sized(std::string_view body, std::string_view fields = "",
                         std::string_view status = "200 OK") {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: application/json\r\n" +
         std::string(fields) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}
inline const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
inline std::string Chunk(std::string_view data) {
  char size[20];
  snprintf(size, sizeof size, "%zx\r\n", data.size());
  return size + std::string(data) + "\r\n";
}
inline std::string Token(std::string_view text) {
  return "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":"
         "[{\"index\":0,\"delta\":{\"content\":\"" +
         std::string(text) + "\"},\"finish_reason\":null}]}\n\n";
}
inline const std::string kDoneEvent = "data: [DONE]\n\n";
inline std::string Answer(std::string_view text) {
  return "{\"id\":\"c\",\"object\":\"chat.completion\",\"model\":\"m\",\"choices\":[{\"index\":0,"
         "\"message\":{\"role\":\"assistant\",\"content\":\"" +
         std::string(text) + "\"},\"finish_reason\":\"stop\"}]}";
}

// Every request gets what the script writes; false ends the connection.
class TestKernel {
 public:
  using Script = std::function<bool(Channel&, const TestMessage&, int number_on_connection)>;

  explicit TestKernel(Script script, SSL_CTX* tls = nullptr)
      : script_(std::move(script)), tls_(tls) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1024), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~TestKernel() {
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const auto& channel : channels_) channel->Interrupt();
    }
    for (std::thread& thread : serving_) thread.join();
  }
  TestKernel(const TestKernel&) = delete;
  TestKernel& operator=(const TestKernel&) = delete;

  uint16_t port() const { return port_; }
  int connections() const { return connections_; }
  int requests() const { return requests_; }

 private:
  void Accept() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      ++connections_;
      const auto channel = std::make_shared<Channel>(fd);
      channels_.push_back(channel);
      serving_.emplace_back([this, channel] { Serve(*channel); });
    }
  }
  void Serve(Channel& channel) {
    if (tls_ != nullptr && !channel.UseTls(tls_, true)) return channel.Interrupt();
    for (int number = 0;; ++number) {
      const TestMessage request = ReadMessage(channel, true);
      if (!request.whole) break;
      ++requests_;
      if (!script_(channel, request, number)) break;
    }
    channel.Interrupt();
  }

  const Script script_;
  SSL_CTX* const tls_;
  int listener_;
  uint16_t port_ = 0;
  std::atomic<int> connections_{0}, requests_{0};
  std::mutex mutex_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::vector<std::thread> serving_;
  std::thread accepting_;
};

class TestAdmin final : public AdminHandler {
 public:
  GatewayAnswer Handle(const AskHead& head, const std::string& body,
                       const std::shared_ptr<EventSink>& sink) override {
    if (head.target == "/v1/events" && sink) {
      const std::lock_guard lock(mutex);
      sinks.push_back(sink);
      sink->Event("hello", "first\nsecond");
      return {200, "", "text/event-stream"};
    }
    if (head.target == "/throw") throw std::runtime_error("on purpose");
    return {200, std::string(head.method) + " " + std::string(head.target) + " " + body,
            "text/plain"};
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<EventSink>> sinks;
};

// A plane on free ports, before the kernels of the given ports: the first serves, others are what
// is failed over to.
class TestPlane {
 public:
  explicit TestPlane(const std::vector<uint16_t>& kernels, PlaneOptions options = {},
                     size_t threads = 1, void (*adapt)(GatewayPool&) = nullptr)
      : core(PoolOf(kernels, adapt), threads, 64, &TheSystemClock()) {
    Route24 route;
    route.serves = 0;
    core.route().Publish(route);
    options.port = options.admin_port = 0;
    options_in_force = options;
    PlaneStarted started;
    auto made = Plane::Start(options, core, admin, &started);
    EXPECT_TRUE(made) << (made ? "" : made.error().message());
    if (!made) return;
    plane = std::move(*made);
    url = started.url;
    port = PortOf(started.url);
    admin_port = PortOf(started.admin_url);
  }

  static std::shared_ptr<GatewayPool> PoolOf(const std::vector<uint16_t>& ports,
                                             void (*adapt)(GatewayPool&) = nullptr) {
    auto pool = std::make_shared<GatewayPool>();
    pool->model = "kcc-lab";
    pool->stage = "full";
    for (size_t i = 0; i < ports.size(); ++i) {
      PoolKernel kernel;
      kernel.name = "k" + std::to_string(i);
      kernel.role = i == 0 ? KernelRole::kInfer : KernelRole::kFallback;
      kernel.wire = FindWireDialect("vllm");
      kernel.scheme = "http";
      kernel.host = "127.0.0.1";
      kernel.port = ports[i];
      pool->kernels.push_back(std::move(kernel));
    }
    if (adapt != nullptr) adapt(*pool);
    return pool;
  }

  std::unique_ptr<Channel> Connect() const { return Channel::To(port); }
  // One request on a connection of its own.
  TestMessage Ask(std::string_view request) const {
    const auto channel = Connect();
    if (!channel || !channel->Write(request)) return {};
    return ReadMessage(*channel, false);
  }

  GatewayCore core;
  TestAdmin admin;
  PlaneOptions options_in_force;
  std::string url;
  uint16_t port = 0, admin_port = 0;
  std::unique_ptr<Plane> plane;

 private:
  static uint16_t PortOf(const std::string& url) {
    return static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  }
};

inline std::string ChatRequest(std::string_view fields = "", bool stream = false,
                               std::string_view text = "hi") {
  const std::string body =
      "{\"model\":\"kcc-lab\",\"messages\":[{\"role\":\"user\",\"content\":\"" + std::string(text) +
      "\"}]" + (stream ? ",\"stream\":true}" : "}");
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: "
         "application/json\r\n" +
         std::string(fields) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace kcc
