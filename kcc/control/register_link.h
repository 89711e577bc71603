// What a gateway and its register tell each other, on a thread of its own: which kernels may serve
// under the contract, which stage and share a promotion gives its candidate, and the incidents that
// the monitor found.
//
// The gateway advances no promotion: `kcc promote advance` does, on evaluations and with its hooks.
// It follows: a share that the promotion does not allow is not given, and a guarded candidate is an
// incident of the promotion, which guards it or rolls it back. While the register does not answer,
// what it said last holds, and no share grows.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/control/gateway_now.h"
#include "kcc/control/history.h"
#include "kcc/control/live_evidence.h"
#include "kcc/control/route_plan.h"
#include "kcc/register/register.h"
#include "kcc/register/register_claim.h"

namespace kcc {

struct LinkedKernel {
  std::string name;
  std::string fingerprint;  // empty: not said; nothing can be looked up then
};

struct RegisterLinkOptions {
  std::string uri;
  std::string gateway;  // its name: who writes
  Contract contract;
  std::string contract_text;
  std::vector<LinkedKernel> kernels;
  bool follows_promotion = false;  // the configuration names a PromotionPolicy
  bool claims = true;              // the register is this gateway's alone; else peer_link.h
  RouteWishes wishes;              // of the configuration
  int64_t every_ms = 5000;
  // What is measured of a promotion's candidate; null: nothing is recorded of it.
  LiveEvidence* evidence = nullptr;
  std::string audit_fingerprint;  // of the audit kernel; empty: not said
  std::string kcc_version;
  std::function<bool()> decides;          // whether this gateway folds evidence
  std::function<std::string()> log_head;  // of the decision log
};

class RegisterLink {
 public:
  // Opens the register, or makes one; fails where another gateway has it. Reads it once.
  static Result<std::unique_ptr<RegisterLink>> Open(RegisterLinkOptions options,
                                                    const Clock* clock);
  ~RegisterLink();
  RegisterLink(const RegisterLink&) = delete;
  RegisterLink& operator=(const RegisterLink&) = delete;

  // Starts the thread. `wish` is asked for a route whenever the register says another one, and
  // again at the next look where it answers false.
  using Wish = std::function<bool(const RouteWishes&, const std::string& reason)>;
  void Begin(Wish wish);
  // No wish is under way afterwards, and none comes; what the link is told it still records.
  void StopWishing();
  // Records what is collected of a promotion's candidate and not recorded yet.
  void RecordLast() { (void)RecordEvidence(true); }
  // A change of the monitor's; any thread, returns at once.
  void Tell(const HistoryEntry& entry);

  RouteWishes wishes() const;
  bool promotion_followed() const { return options_.follows_promotion; }
  std::optional<PromotionNow> promotion() const;
  // None: no promotion is followed. Of a kernel that is not its candidate: 0.
  std::optional<double> share_allowed(const std::string& kernel) const;
  std::string error() const;  // why the register was not read; empty: it was
  // That it rules nobody out though it could: it knows no pair under the contract. Empty: it does,
  // or no kernel has a fingerprint by which it could.
  std::string warning() const;

 private:
  RegisterLink(RegisterLinkOptions options, const Clock* clock)
      : options_(std::move(options)), clock_(clock) {}
  Result<> TakeLock();
  Result<> AddContract();
  Result<> Read();  // barred kernels and the promotion
  Result<> Record(const HistoryEntry& entry);
  // What of the promotion live evidence can speak for; empty: it can.
  std::string WhyNoEvidence(const PromotionPolicy& policy, const PromotionState& state) const;
  Result<> CollectFor(Register& source, const PromotionPolicy& policy, const PromotionState& state,
                      int64_t entered, const std::string& kernel);
  Result<> RecordEvidence(bool last);
  void Run();
  void Look();

  RegisterLinkOptions options_;
  const Clock* clock_;
  std::optional<RegisterClaim> claim_;
  std::mutex wish_mutex_;
  Wish wish_;  // null: nobody is to be asked
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false;
  std::deque<HistoryEntry> told_;
  RouteWishes wishes_;
  std::optional<PromotionNow> promotion_;
  std::string error_;
  std::string warning_;
  RouteWishes given_;      // that `wish` took last; the thread's
  std::string candidate_;  // kernel of the promotion; empty: none
  std::thread thread_;
};

}  // namespace kcc
