// What the admin port of a gateway answers (docs/gateway-api.md). Who may ask is the plane's to
// decide; what is asked here comes with the token, but for GET /, /healthz and /readyz.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kcc/control/decider.h"
#include "kcc/control/event_hub.h"
#include "kcc/control/gateway_now.h"
#include "kcc/gateway/admin_handler.h"

namespace kcc {

struct ReloadReport {
  bool reloaded = false;
  std::vector<std::string> problems;       // why not, as `kcc gateway --check` says it
  std::vector<std::string> needs_restart;  // what is in the file and not in force
};

// What the answers are made of. Functions are called by the thread of the admin port, and by the
// one that calls Tick().
struct GatewayApiParts {
  std::function<GatewayNow()> now;
  std::function<std::string()> core_metrics;
  std::function<ReloadReport()> reload;
  History* history = nullptr;
  Decider* decider = nullptr;
  // The largest share that a promotion allows the kernel now: nothing but for its candidate. None:
  // no promotion is followed.
  std::function<std::optional<double>(const std::string& kernel)> share_allowed;
  // What an operator asked for and got, to outlast the process; null: it does not.
  std::function<Result<>(const RouteWishes&)> keep;
  double configured_share = 0;  // of the canary, as the configuration has it
  std::string configured_canary;
};

class GatewayApi final : public AdminHandler {
 public:
  explicit GatewayApi(GatewayApiParts parts) : parts_(std::move(parts)) {}

  GatewayAnswer Handle(const AskHead& head, const std::string& body,
                       const std::shared_ptr<EventSink>& sink) override;

  // About once a second: what listeners are told without having asked.
  void Tick();
  // A change, as it is decided; any thread.
  void OnHistory(const HistoryEntry& entry);
  void ForgetListeners() { hub_.Clear(); }
  void SetReady(bool ready) { draining_.store(!ready); }

 private:
  GatewayAnswer Get(const std::string& path, const std::string& query,
                    const std::shared_ptr<EventSink>& sink);
  GatewayAnswer Post(const std::string& path, const std::string& body);
  GatewayAnswer Ready();
  GatewayAnswer Listen(const std::shared_ptr<EventSink>& sink);
  GatewayAnswer Why(const std::string& query);
  GatewayAnswer Reload();
  GatewayAnswer SetCanary(const std::string& body);
  GatewayAnswer Flagger(const std::string& hook, const std::string& body);
  std::string Metrics();

  GatewayApiParts parts_;
  EventHub hub_;
  std::atomic<bool> changed_{true};
  std::atomic<bool> draining_{false};
  int64_t sent_at_ms_ = 0;  // of Tick's thread
};

// {"error": {"message", "type", "param", "code"}}
GatewayAnswer ApiError(int status, const std::string& message, const std::string& code);

// The value of a query's parameter, decoded; empty: there is none.
std::string QueryValue(std::string_view query, std::string_view name);

}  // namespace kcc
