// The admin port: a listener and a thread of its own, so that nothing that is asked there waits for
// clients or lets them wait.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "kcc/base/result.h"
#include "kcc/gateway/admin_handler.h"
#include "kcc/plane/admin_guard.h"
#include "kcc/plane/beast_wire.h"

namespace kcc::plane {

class AdminConnection;

class AdminListener {
 public:
  AdminListener(AdminHandler& handler, std::string secret);
  ~AdminListener();
  AdminListener(const AdminListener&) = delete;
  AdminListener& operator=(const AdminListener&) = delete;

  Result<uint16_t> Listen(const std::string& host, uint16_t port);
  void UseToken(const std::string& token);  // any thread
  void Start();
  void Stop();

  AdminHandler& handler() { return handler_; }
  std::shared_ptr<const AdminGuard> guard() const;
  void Came(AdminConnection* connection) { connections_.insert(connection); }
  void Gone(AdminConnection* connection) { connections_.erase(connection); }

 private:
  void Accept();

  AdminHandler& handler_;
  const std::string secret_;
  uint16_t port_ = 0;
  mutable std::mutex guard_mutex_;
  std::shared_ptr<const AdminGuard> guard_;
  // Before the loop, since its handlers hold connections that leave this set when they go.
  std::set<AdminConnection*> connections_;
  asio::io_context io_{1};
  Acceptor acceptor_;
  Timer accept_timer_;
  std::thread thread_;
};

}  // namespace kcc::plane
