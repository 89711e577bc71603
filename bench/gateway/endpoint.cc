#include "bench/gateway/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace kcc::bench {
namespace {

sockaddr_in Local(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(4);
}

void SetUp(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

int64_t NowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int ListenLocal(uint16_t port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = Local(port);
  if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) ||
      listen(listener, 4096)) {
    Fail("cannot listen");
  }
  return listener;
}

uint16_t PortOf(int listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size)) Fail("getsockname");
  return ntohs(address.sin_port);
}

int ConnectLocal(uint16_t port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connection < 0) Fail("socket");
  const sockaddr_in address = Local(port);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    Fail("connect");
  }
  SetUp(connection);
  return connection;
}

int AcceptFrom(int listener) {
  const int connection = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (connection >= 0) SetUp(connection);
  return connection;
}

// With the finest timer there is: what sleeps longer than it meant to would be a delay that is
// measured.
int WaitFor(int epoll, epoll_event* events, int most, int64_t wait_ns) {
  static const int fine = prctl(PR_SET_TIMERSLACK, 1000);
  static_cast<void>(fine);
  constexpr int64_t kSecond = 1'000'000'000;
  timespec wait = {};
  wait.tv_sec = wait_ns / kSecond;
  wait.tv_nsec = wait_ns % kSecond;
  return epoll_pwait2(epoll, events, most, wait_ns < 0 ? nullptr : &wait, nullptr);
}

void Watch(int epoll, int socket, uint32_t events, bool known) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = socket;
  if (epoll_ctl(epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event)) Fail("epoll_ctl");
}

bool SendSome(int socket, std::string* bytes) {
  size_t sent = 0;
  while (sent < bytes->size()) {
    const ssize_t done = send(socket, bytes->data() + sent, bytes->size() - sent, MSG_NOSIGNAL);
    if (done > 0) {
      sent += static_cast<size_t>(done);
    } else if (errno == EAGAIN || errno == ENOTCONN) {
      break;
    } else if (errno != EINTR) {
      return false;
    }
  }
  bytes->erase(0, sent);
  return true;
}

bool ReceiveSome(int socket, std::string* bytes) {
  char part[64 << 10];
  while (true) {
    const ssize_t got = recv(socket, part, sizeof part, 0);
    if (got > 0) {
      bytes->append(part, static_cast<size_t>(got));
      if (static_cast<size_t>(got) < sizeof part) return true;
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
}

int64_t NumberAfter(std::string_view text, std::string_view key, int64_t otherwise) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return otherwise;
  int64_t value = otherwise;
  std::from_chars(text.data() + at + key.size(), text.data() + text.size(), value);
  return value;
}

}  // namespace kcc::bench
