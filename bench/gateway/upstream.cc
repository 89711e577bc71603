// The scripted upstream of the gateway's benchmark: one thread, answers at once, streams at the
// pace that the prompt asks for ("ask-17 chunks-100 every-2000", microseconds). Every chunk of a
// stream carries the time at which it was written, so that a client on the same machine sees its
// delay.
//
//   gateway_upstream [--port N] [--stall]
//
// --stall: it answers what is asked at a start, and then never scores what was served.
//
// Prints {"url": ...} and runs until standard input is closed.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "bench/gateway/endpoint.h"
#include "bench/gateway/http_reader.h"
#include "bench/gateway/model.h"

namespace kcc::bench {
namespace {

struct Connection {
  int socket = -1;
  uint64_t number = 0;
  HttpReader reader;
  std::string in, out;
  bool full = false;  // the socket took less than there was
  Ask ask;
  int64_t next_chunk = -1;  // of the stream under way; below 0: none
};

class Upstream {
 public:
  Upstream(uint16_t port, bool stall)
      : listener_(ListenLocal(port)), epoll_(epoll_create1(EPOLL_CLOEXEC)), stall_(stall) {
    Watch(epoll_, listener_, EPOLLIN, false);
    Watch(epoll_, STDIN_FILENO, EPOLLIN, false);
    std::printf("{\"url\":\"http://127.0.0.1:%u\"}\n", unsigned{PortOf(listener_)});
    std::fflush(stdout);
  }

  void Run() {
    std::vector<epoll_event> events(512);
    while (true) {
      const int count = WaitFor(epoll_, events.data(), static_cast<int>(events.size()), WaitNs());
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        if (event.data.fd == STDIN_FILENO) return;
        if (event.data.fd == listener_) {
          Accept();
        } else {
          OnSocket(event.data.fd, event.events);
        }
      }
      WriteDue();
    }
  }

 private:
  using Due = std::tuple<int64_t, int, uint64_t>;  // nanoseconds, socket, number

  int64_t WaitNs() const {
    if (due_.empty()) return -1;
    return std::max<int64_t>(0, std::get<0>(due_.top()) - NowNs());
  }

  void Accept() {
    for (int socket = AcceptFrom(listener_); socket >= 0; socket = AcceptFrom(listener_)) {
      auto connection = std::make_unique<Connection>();
      connection->socket = socket;
      connection->number = ++accepted_;
      connections_[socket] = std::move(connection);
      Watch(epoll_, socket, EPOLLIN, false);
    }
  }

  void Close(int socket) {
    connections_.erase(socket);
    close(socket);
  }

  void OnSocket(int socket, uint32_t events) {
    const auto found = connections_.find(socket);
    if (found == connections_.end()) return;
    Connection& connection = *found->second;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
      if (!ReceiveSome(socket, &connection.in)) return Close(socket);
      size_t taken = 0;
      while (taken < connection.in.size() && connection.next_chunk < 0) {
        taken += connection.reader.Feed(std::string_view(connection.in).substr(taken));
        if (connection.reader.failed()) return Close(socket);
        if (!connection.reader.done()) break;
        if (!Stalls(connection.reader.body())) Answer(&connection);
        connection.reader.Reset();
      }
      connection.in.erase(0, taken);
    }
    Flush(&connection);
  }

  // Probes are of a few tokens; what was served has its prompt and kAnswerTokens.
  bool Stalls(std::string_view body) const {
    return stall_ && IsScoring(body) && PromptTokens(body) > kAnswerTokens;
  }

  void Answer(Connection* connection) {
    const std::string& head = connection->reader.head();
    const std::string& body = connection->reader.body();
    if (head.starts_with("GET ")) {
      const bool known = head.starts_with("GET /version") || head.starts_with("GET /v1/models");
      const std::string page = head.starts_with("GET /version") ? Version() : Models();
      connection->out += known ? Head(200, page.size()) + page : Head(404, 0);
    } else if (head.starts_with("POST /tokenize")) {
      connection->out += Head(200, Tokenized().size()) + Tokenized();
    } else if (AsksVocabulary(body)) {
      connection->out += Head(400, VocabularyError().size()) + VocabularyError();
    } else if (IsScoring(body) || IsGeneration(body)) {
      const std::string answer = IsScoring(body) ? Scored(body) : Generated(body);
      connection->out += Head(200, answer.size()) + answer;
    } else {
      connection->ask = ReadAsk(body);
      if (connection->ask.stream) {
        connection->out += StreamHead();
        connection->next_chunk = 0;
        due_.emplace(NowNs(), connection->socket, connection->number);
      } else {
        const std::string answer = WholeAnswer(connection->ask);
        connection->out += Head(200, answer.size()) + answer;
      }
    }
  }

  void WriteDue() {
    for (int64_t now = NowNs(); !due_.empty() && std::get<0>(due_.top()) <= now; now = NowNs()) {
      const auto [at, socket, number] = due_.top();
      due_.pop();
      const auto found = connections_.find(socket);
      if (found == connections_.end() || found->second->number != number) continue;
      Connection& connection = *found->second;
      if (connection.next_chunk < connection.ask.chunks) {
        connection.out += StreamChunk(connection.ask, connection.next_chunk++, NowNs());
        due_.emplace(at + 1000 * connection.ask.every_us, socket, number);
      } else {
        connection.out += StreamEnd(connection.ask);
        connection.next_chunk = -1;
      }
      Flush(&connection);
    }
  }

  void Flush(Connection* connection) {
    const int socket = connection->socket;
    if (!SendSome(socket, &connection->out)) return Close(socket);
    const bool full = !connection->out.empty();
    if (full != connection->full) Watch(epoll_, socket, full ? EPOLLIN | EPOLLOUT : EPOLLIN, true);
    connection->full = full;
  }

  const int listener_;
  const int epoll_;
  const bool stall_;
  uint64_t accepted_ = 0;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace
}  // namespace kcc::bench

int main(int count, char** words) {
  uint16_t port = 0;
  bool stall = false;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--stall") == 0) {
      stall = true;
    } else if (std::strcmp(words[i], "--port") == 0 && i + 1 < count) {
      port = static_cast<uint16_t>(std::atoi(words[++i]));
    } else {
      std::fprintf(stderr, "usage: gateway_upstream [--port N] [--stall]\n");
      return 2;
    }
  }
  kcc::bench::Upstream(port, stall).Run();
}
