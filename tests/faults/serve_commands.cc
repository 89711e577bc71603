#include "tests/faults/serve_commands.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <streambuf>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/faults/commands.h"
#include "tests/faults/inputs.h"

namespace kcc::faults {
namespace {

// Does something as soon as a server has said that it started: it flushes that line. Not where a
// start failed after all, which flushes its output when the handler of signals has gone.
class AtFlush final : public std::streambuf {
 public:
  AtFlush(std::streambuf* to, std::function<void()> act) : to_(to), act_(std::move(act)) {}

 protected:
  int_type overflow(int_type c) override {
    written_ = true;
    return to_->sputc(traits_type::to_char_type(c));
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    written_ = written_ || count > 0;
    return to_->sputn(bytes, count);
  }
  int sync() override {
    const int result = to_->pubsync();
    struct sigaction now {};
    ::sigaction(SIGTERM, nullptr, &now);
    const bool handled = now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
    if (std::exchange(written_, false) && handled) act_();
    return result;
  }

 private:
  std::streambuf* to_;
  const std::function<void()> act_;
  bool written_ = false;
};

// A server from its start to its end. The port is any that is free.
class ServeSubject : public CommandSubject {
 public:
  explicit ServeSubject(const std::vector<std::string>& words)
      : CommandSubject(words, TheInputs().out(), {}) {}

  void Run() override {
    AtFlush started(std::cout.rdbuf(), [this] { Started(); });
    std::streambuf* const kept = std::cout.rdbuf(&started);
    CommandSubject::Run();
    std::cout.rdbuf(kept);
  }

  Outcome Take() override {
    static const std::regex port("127\\.0\\.0\\.1:[0-9]+");
    Outcome outcome = CommandSubject::Take();
    std::string& said = outcome.results["standard output"];
    said = std::regex_replace(said, port, "127.0.0.1:PORT");
    return outcome;
  }

 private:
  virtual void Started() { std::raise(SIGTERM); }
};

// A client that takes no memory: one request, read to the end of its connection.
class RawClient {
 public:
  // "answered", "ended" without an answer, or "left waiting".
  const char* Ask(uint16_t port, std::string_view request) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{20, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    const char* what = "ended";
    if (::connect(fd, to, sizeof address) == 0 &&
        ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      what = Read(fd);
    }
    ::close(fd);
    return what;
  }

 private:
  const char* Read(int fd) {
    size_t held = 0;
    while (held < bytes_.size()) {
      const ssize_t got = ::recv(fd, bytes_.data() + held, bytes_.size() - held, 0);
      if (got < 0 && errno == EAGAIN) return "left waiting";
      if (got <= 0) break;
      held += static_cast<size_t>(got);
    }
    return std::string_view(bytes_.data(), held).find("[DONE]") < held ? "answered" : "ended";
  }

  std::array<char, 64 << 10> bytes_;
};

// A server that is asked something, and memory runs out from then on: whoever asked is answered, or
// its connection ends.
class AskedSubject final : public ServeSubject {
 public:
  explicit AskedSubject(const std::vector<std::string>& words) : ServeSubject(words) {
    std::signal(SIGTERM, SIG_IGN);  // the server may have ended by itself when it is sent
    thread_ = std::thread([this] { Ask(); });
  }
  ~AskedSubject() override {
    Tell(kNoMore);
    thread_.join();
  }

  void Run() override {
    Pause();
    started_ = false;
    ServeSubject::Run();
    Resume();
    while (turn_.load() > kNone) std::this_thread::yield();
  }

  Outcome Take() override {
    Outcome outcome = ServeSubject::Take();
    const std::string_view what = what_.load();
    if (what == "left waiting") outcome.broken = "a client waits for ever: " + outcome.message;
    return outcome;
  }

 private:
  static constexpr int kNone = 0, kNoMore = -1;

  // The port stands in the line that was said.
  void Started() override {
    if (std::exchange(started_, true)) return;
    const std::string line = SaidSoFar();
    const size_t at = line.find("127.0.0.1:");
    const int port = at == line.npos ? kNone : std::atoi(line.c_str() + at + 10);
    Resume();
    Tell(port);
  }

  void Tell(int what) {
    turn_.store(what);
    turn_.notify_one();
  }

  void Ask() {
    static constexpr std::string_view kRequest =
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
        "69\r\n\r\n"
        "{\"prompt\": [1, 2, 3], \"max_tokens\": 8, \"stream\": true, \"logprobs\": 2}";
    for (;;) {
      turn_.wait(kNone);
      const int port = turn_.load();
      if (port == kNoMore) return;
      what_ = client_.Ask(static_cast<uint16_t>(port), kRequest);
      ::kill(::getpid(), SIGTERM);
      Tell(kNone);
    }
  }

  bool started_ = false;
  RawClient client_;
  std::atomic<const char*> what_{"ended"};
  std::atomic<int> turn_{kNone};  // a port; nobody is asked; nobody will be
  std::thread thread_;
};

template <class ASubject>
Case ServeCase(const std::string& name, std::vector<std::string> words) {
  return {name, [words = std::move(words)] { return std::make_unique<ASubject>(words); },
          /*slow=*/true};
}

}  // namespace

std::vector<Case> ServeCases() {
  const std::string kernel = "?kv_tokens=256&model=" + TheInputs().In("model");
  return {
      ServeCase<ServeSubject>(
          "lab serve", {"lab", "serve", "lab:f32" + kernel, "--port", "0", "--threads", "1"}),
      ServeCase<ServeSubject>(
          "lab serve --threads 3 --allow-faults",
          {"lab", "serve", "lab:bf16" + kernel, "--port", "0", "--threads", "3", "--allow-faults"}),
      ServeCase<AskedSubject>("lab serve, asked", {"lab", "serve", "lab:f32" + kernel, "--port",
                                                   "0", "--threads", "1"}),
      ServeCase<AskedSubject>("lab serve --threads 3, asked", {"lab", "serve", "lab:f32" + kernel,
                                                               "--port", "0", "--threads", "3"})};
}

}  // namespace kcc::faults
