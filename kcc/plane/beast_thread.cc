#include "kcc/plane/beast_thread.h"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <future>

#include "kcc/plane/beast_client.h"

namespace kcc::plane {
namespace {

constexpr auto kSweepEvery = std::chrono::milliseconds(50);
constexpr auto kAcceptAgain = std::chrono::milliseconds(100);
// Connections over the limit that hear so at the same time; what is beyond is closed without a
// word.
constexpr size_t kRefusedMax = 128;

}  // namespace

PlaneThread::PlaneThread(GatewayCore& core, GatewayWorker& worker, SharedCounts& counts,
                         std::shared_ptr<const Settings> settings, uint64_t salt)
    : core_(core),
      worker_(worker),
      counts_(counts),
      settings_(std::move(settings)),
      salt_(salt),
      acceptor_(io_),
      sweep_timer_(io_),
      accept_timer_(io_),
      kernels_(*this) {}

PlaneThread::~PlaneThread() { Stop(); }

int64_t PlaneThread::NowUs() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Result<uint16_t> PlaneThread::Listen(const std::string& host, uint16_t port) {
  ErrorCodeOf failed;
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(host, failed), port);
  if (!failed) acceptor_.open(endpoint.protocol(), failed);
  if (!failed) acceptor_.set_option(asio::socket_base::reuse_address(true), failed);
  const int yes = 1;
  if (!failed &&
      ::setsockopt(acceptor_.native_handle(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0) {
    failed.assign(errno, boost::system::system_category());
  }
  if (!failed) acceptor_.bind(endpoint, failed);
  if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (!failed) acceptor_.non_blocking(true, failed);
  if (failed) {
    return IoError("cannot listen on " + host + ":" + std::to_string(port) + ": " +
                   failed.message());
  }
  return acceptor_.local_endpoint().port();
}

void PlaneThread::Start() {
  Accept();
  Sweep();
  thread_ = std::thread([this] { Run(); });
}

// What a handler threw in spite of all guards costs no more than what it was about.
void PlaneThread::Run() {
  pthread_setname_np(pthread_self(), "kcc-plane");
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception&) {
    }
  }
}

void PlaneThread::Stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    ErrorCodeOf ignored;
    acceptor_.close(ignored);
    for (const auto& one : Everyone(Timed::kNever)) one->Abort();
    kernels_.CloseAll();
    io_.stop();
  });
  thread_.join();
}

void PlaneThread::StopAccepting() {
  asio::post(io_, [this] { Drain(); });
}

void PlaneThread::Use(std::shared_ptr<const Settings> settings) {
  std::promise<void> done;
  asio::post(io_, [this, &done, &settings] {
    settings_ = std::move(settings);
    done.set_value();
  });
  done.get_future().wait();
}

void PlaneThread::Accept() {
  acceptor_.async_accept([this](ErrorCodeOf failed, Socket socket) {
    if (!acceptor_.is_open()) return;
    if (!failed) {
      Take(std::move(socket));
      return Accept();
    }
    // No descriptor is free, for example: another try once some may have been given back.
    accept_timer_.expires_after(kAcceptAgain);
    accept_timer_.async_wait([this](ErrorCodeOf error) {
      if (!error && acceptor_.is_open()) Accept();
    });
  });
}

void PlaneThread::Take(Socket socket) {
  try {
    counts_.accepted.fetch_add(1, std::memory_order_relaxed);
    const bool full = counts_.connections.load() >= options().connections_max;
    if (full) {
      counts_.over_limit.fetch_add(1, std::memory_order_relaxed);
      if (refused_ >= kRefusedMax) return;
    }
    const auto client = std::make_shared<ClientConnection>(*this, std::move(socket), full);
    client->Start();
  } catch (const std::exception&) {
    // Memory ran out: the connection is closed by its destructor.
  }
}

void PlaneThread::Came(Timed* timed) {
  timed->place = timed_.size();
  timed_.push_back(timed);
}

void PlaneThread::Gone(Timed* timed) {
  timed_[timed->place] = timed_.back();
  timed_[timed->place]->place = timed->place;
  timed_.pop_back();
}

void PlaneThread::ClientCame(bool refused) {
  if (refused) {
    ++refused_;
  } else {
    counts_.connections.fetch_add(1);
  }
}

void PlaneThread::ClientGone(bool refused) {
  if (refused) {
    --refused_;
    return;
  }
  counts_.connections.fetch_sub(1);
  if (!counts_.draining.load()) return;
  const std::lock_guard lock(counts_.drain_mutex);
  counts_.drained.notify_all();
}

// Held, since what is called on one may end another. One that is being made has no holder yet.
std::vector<std::shared_ptr<Timed>> PlaneThread::Everyone(int64_t deadline_until_us) const {
  std::vector<std::shared_ptr<Timed>> everyone;
  for (Timed* const timed : timed_) {
    if (timed->deadline_us > deadline_until_us) continue;
    if (auto held = timed->weak_from_this().lock()) everyone.push_back(std::move(held));
  }
  return everyone;
}

void PlaneThread::Sweep() {
  sweep_timer_.expires_after(kSweepEvery);
  sweep_timer_.async_wait([this](ErrorCodeOf failed) {
    if (failed) return;
    try {
      for (const auto& one : Everyone(NowUs())) {
        if (one->deadline_us != Timed::kNever) one->OnDeadline();
      }
    } catch (const std::exception&) {
      // Memory ran out; the next turn tries again.
    }
    Sweep();
  });
}

// Clients that wait to be accepted have been promised a connection by the system: they are served.
void PlaneThread::Drain() {
  draining_ = true;
  ErrorCodeOf failed;
  while (acceptor_.is_open()) {
    Socket socket = acceptor_.accept(failed);
    if (failed) break;
    Take(std::move(socket));
  }
  acceptor_.close(failed);
  for (const auto& one : Everyone(Timed::kNever)) one->OnDrain();
}

}  // namespace kcc::plane
