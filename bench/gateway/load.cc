// The load of the gateway's benchmark: one thread, every answer verified, delays in microseconds.
//
//   gateway_load closed PORT --connections C --seconds S        the next request after each answer
//   gateway_load open   PORT --connections C --seconds S --rate R   R requests a second, evenly
//   gateway_load sse    PORT --connections C --seconds S --chunks N --every MICROSECONDS
//
// closed: delays from sending to the last byte. open: from the moment at which the request was due,
// so that waiting for a place counts. sse: of each chunk, from its writing by the upstream, which
// stands in it (the clock is the machine's), to its reading here; the streams start spread over one
// interval. Prints one line of JSON. Exit code 1 where an answer was wrong.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/gateway/endpoint.h"
#include "bench/gateway/http_reader.h"

namespace kcc::bench {
namespace {

enum class Mode : uint8_t { kClosed, kOpen, kSse };

struct LoadOptions {
  Mode mode = Mode::kClosed;
  uint16_t port = 0;
  int connections = 1;
  double seconds = 1;
  double rate = 100;
  int64_t chunks = 100;
  int64_t every_us = 1000;
  int body_bytes = 2048;
};

struct Call {
  int socket = -1;
  HttpReader reader;
  std::string in, out;
  bool full = false;
  bool busy = false;
  int64_t id = 0;
  int64_t since_ns = 0;
  int64_t chunk = 0;  // the next that must come
  size_t read = 0;    // of the body, as events
};

class Load {
 public:
  explicit Load(const LoadOptions& options)
      : options_(options),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        calls_(static_cast<size_t>(options.connections)) {
    delays_.reserve(1 << 20);
    padding_.assign(static_cast<size_t>(options.body_bytes), 'x');
  }

  int Run() {
    const int64_t start = NowNs();
    const int64_t end = start + static_cast<int64_t>(options_.seconds * 1e9);
    int64_t begun = 0;
    std::vector<epoll_event> events(512);
    while (NowNs() < end || (under_way_ > 0 && NowNs() < end + 20'000'000'000)) {
      const int64_t now = NowNs();
      if (now < end) begun += StartDue(now - start, begun, start);
      const int count = WaitFor(epoll_, events.data(), static_cast<int>(events.size()),
                                WaitNs(start, begun, end));
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        OnSocket(calls_[event.data.u32], event.data.u32, event.events);
      }
      if (NowNs() >= end) waiting_.clear();
    }
    return Print(static_cast<double>(NowNs() - start) / 1e9);
  }

 private:
  // Until the next request is due.
  int64_t WaitNs(int64_t start, int64_t begun, int64_t end) const {
    constexpr int64_t kMillisecond = 1'000'000;
    const int64_t now = NowNs();
    if (now >= end) return 100 * kMillisecond;
    if (options_.mode != Mode::kOpen) return kMillisecond;
    const double next = static_cast<double>(begun) / options_.rate * 1e9;
    return std::max<int64_t>(0, start + static_cast<int64_t>(next) - now);
  }

  // How many more became due at `elapsed`; each gets a connection or waits for one.
  int64_t StartDue(int64_t elapsed, int64_t begun, int64_t start) {
    int64_t due = 0;
    if (options_.mode == Mode::kOpen) {
      due = static_cast<int64_t>(static_cast<double>(elapsed) / 1e9 * options_.rate) + 1 - begun;
      for (int64_t i = 0; i < due; ++i) {
        waiting_.push_back(
            start + static_cast<int64_t>(static_cast<double>(begun + i) / options_.rate * 1e9));
      }
    } else if (begun < options_.connections) {
      const double share =
          static_cast<double>(elapsed) / 1e3 / static_cast<double>(options_.every_us);
      const auto wanted =
          options_.mode == Mode::kSse
              ? std::min<int64_t>(options_.connections,
                                  static_cast<int64_t>(share * options_.connections) + 1)
              : options_.connections;
      due = wanted - begun;
      for (int64_t i = 0; i < due; ++i) waiting_.push_back(0);
    }
    for (size_t i = 0; i < calls_.size() && !waiting_.empty(); ++i) {
      if (!calls_[i].busy) Begin(i, TakeWaiting());
    }
    return due;
  }

  int64_t TakeWaiting() {
    const int64_t since = waiting_.front();
    waiting_.pop_front();
    return since == 0 ? NowNs() : since;
  }

  void Begin(size_t place, int64_t since_ns) {
    Call& call = calls_[place];
    if (call.socket < 0) {
      call.socket = ConnectLocal(options_.port);
      epoll_event event = {};
      event.events = EPOLLIN | EPOLLOUT;
      event.data.u32 = static_cast<uint32_t>(place);
      epoll_ctl(epoll_, EPOLL_CTL_ADD, call.socket, &event);
      call.full = true;  // until it is connected
    }
    call.busy = true;
    call.id = ++ids_;
    call.since_ns = since_ns;
    call.chunk = 0;
    call.read = 0;
    call.reader.Reset();
    ++under_way_;
    call.out = Request(call.id);
    Flush(call, place);
  }

  std::string Request(int64_t id) const {
    std::string body =
        "{\"model\":\"kcc-lab\",\"messages\":[{\"role\":\"user\",\"content\":\"ask-" +
        std::to_string(id) + " chunks-" + std::to_string(options_.chunks) + " every-" +
        std::to_string(options_.every_us) + ' ';
    const size_t rest = body.size() + 40;
    if (rest < padding_.size()) body.append(padding_, 0, padding_.size() - rest);
    body += options_.mode == Mode::kSse ? "\"}],\"stream\":true}" : "\"}],\"temperature\":0}";
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
           "application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  void Flush(Call& call, size_t place) {
    if (!SendSome(call.socket, &call.out)) return Fail(call);
    const bool full = !call.out.empty();
    if (full == call.full) return;
    epoll_event event = {};
    event.events = full ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.u32 = static_cast<uint32_t>(place);
    epoll_ctl(epoll_, EPOLL_CTL_MOD, call.socket, &event);
    call.full = full;
  }

  void Fail(Call& call) {
    if (call.busy) {
      ++broken_;
      --under_way_;
    }
    close(call.socket);
    call = Call();
  }

  void OnSocket(Call& call, size_t place, uint32_t events) {
    if (call.socket < 0) return;
    if (events & EPOLLOUT) Flush(call, place);
    if (call.socket < 0 || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    const bool open = ReceiveSome(call.socket, &call.in);
    const int64_t now = NowNs();
    const size_t taken = call.busy ? call.reader.Feed(call.in) : 0;
    call.in.erase(0, taken);
    if (call.busy && options_.mode == Mode::kSse) ReadEvents(call, now);
    if (call.busy && call.reader.done()) {
      Finish(call, now);
      const bool next = options_.mode != Mode::kOpen && now < end_of_starts();
      if (open && next) {
        Begin(place, NowNs());
      } else if (open && !waiting_.empty()) {
        Begin(place, TakeWaiting());
      }
    }
    if (!open || call.reader.failed()) Fail(call);
  }

  int64_t end_of_starts() const { return begun_ns_ + static_cast<int64_t>(options_.seconds * 1e9); }

  void ReadEvents(Call& call, int64_t now) {
    const std::string& body = call.reader.body();
    const std::string mark = "\"ask-" + std::to_string(call.id) + ':';
    for (size_t end = body.find("\n\n", call.read); end != std::string::npos;
         end = body.find("\n\n", call.read)) {
      const std::string_view event = std::string_view(body).substr(call.read, end - call.read);
      call.read = end + 2;
      const size_t at = event.find(mark);
      if (at == std::string_view::npos) continue;
      const std::string_view rest = event.substr(at + mark.size());
      const int64_t number = NumberAfter(rest, "", -1);
      const size_t colon = rest.find(':');
      const int64_t written =
          colon == std::string_view::npos ? 0 : NumberAfter(rest.substr(colon + 1), "", 0);
      if (number != call.chunk || written <= 0 || written > now) ++wrong_;
      ++call.chunk;
      delays_.push_back(static_cast<float>(now - written) / 1e3F);
    }
  }

  void Finish(Call& call, int64_t now) {
    --under_way_;
    call.busy = false;
    const std::string& body = call.reader.body();
    bool right = call.reader.status() == 200;
    if (options_.mode == Mode::kSse) {
      right = right && call.chunk == options_.chunks && body.ends_with("data: [DONE]\n\n");
    } else {
      right = right &&
              body.find("\"ask-" + std::to_string(call.id) + " and") != std::string::npos &&
              body.find("\"logprobs\":null") != std::string::npos && body.ends_with('}');
      delays_.push_back(static_cast<float>(now - call.since_ns) / 1e3F);
    }
    if (!right && wrong_ < 3) {
      std::fprintf(stderr, "wrong answer to ask-%lld: status %d, %.300s\n",
                   static_cast<long long>(call.id), call.reader.status(), body.c_str());
    }
    wrong_ += right ? 0 : 1;
    ++finished_;
  }

  double Quantile(double share) const {
    if (delays_.empty()) return 0;
    const auto place = static_cast<size_t>(share * static_cast<double>(delays_.size() - 1));
    return static_cast<double>(delays_[place]);
  }

  int Print(double seconds) {
    std::sort(delays_.begin(), delays_.end());
    std::printf(
        "{\"requests\":%lld,\"wrong\":%lld,\"broken\":%lld,\"unfinished\":%lld,\"seconds\":%.3f,"
        "\"rps\":%.1f,\"delays\":%zu,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f}\n",
        static_cast<long long>(finished_), static_cast<long long>(wrong_),
        static_cast<long long>(broken_), static_cast<long long>(under_way_), seconds,
        static_cast<double>(finished_) / std::min(seconds, options_.seconds), delays_.size(),
        Quantile(0.5), Quantile(0.9), Quantile(0.99), Quantile(1));
    return wrong_ + broken_ + under_way_ == 0 ? 0 : 1;
  }

  const LoadOptions options_;
  const int epoll_;
  const int64_t begun_ns_ = NowNs();
  std::vector<Call> calls_;
  std::deque<int64_t> waiting_;  // when each was due; 0: now
  std::string padding_;
  std::vector<float> delays_;
  int64_t ids_ = 0, under_way_ = 0, finished_ = 0, wrong_ = 0, broken_ = 0;
};

int Usage() {
  std::fprintf(
      stderr,
      "usage: gateway_load closed|open|sse PORT [--connections C] [--seconds S] [--rate R] "
      "[--chunks N] [--every US] [--body BYTES]\n");
  return 2;
}

}  // namespace
}  // namespace kcc::bench

int main(int count, char** words) {
  using kcc::bench::Mode;
  kcc::bench::LoadOptions options;
  if (count < 3 || count % 2 == 0) return kcc::bench::Usage();
  const std::string mode = words[1];
  if (mode != "closed" && mode != "open" && mode != "sse") return kcc::bench::Usage();
  options.mode = mode == "closed" ? Mode::kClosed : mode == "open" ? Mode::kOpen : Mode::kSse;
  options.port = static_cast<uint16_t>(std::atoi(words[2]));
  for (int i = 3; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const double value = std::atof(words[i + 1]);
    if (name == "--connections")
      options.connections = static_cast<int>(value);
    else if (name == "--seconds")
      options.seconds = value;
    else if (name == "--rate")
      options.rate = value;
    else if (name == "--chunks")
      options.chunks = static_cast<int64_t>(value);
    else if (name == "--every")
      options.every_us = static_cast<int64_t>(value);
    else if (name == "--body")
      options.body_bytes = static_cast<int>(value);
    else
      return kcc::bench::Usage();
  }
  return kcc::bench::Load(options).Run();
}
