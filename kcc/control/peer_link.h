// A gateway among those of one register in PostgreSQL, on a thread of its own: one of them decides,
// the others follow it (docs/gateway.md "Several gateways").
//
// The one that decides folds its own evidence and what the others deliver, in one order; it records
// the monitor's state before each route, and the route as an event of the register. A gateway that
// follows serves by the route that was recorded last, delivers its evidence, and asks for the lock:
// once the other's connection is gone, it goes on from the recorded state.
//
// What holds whatever fails:
// - A route names no kernel that is guarded in the state recorded before it. Who takes over guards
//   what that state guards, and lets no kernel serve that the recorded route had taken away, until
//   evidence in its own log certifies it.
// - Evidence that a process had and did not deliver is counted before it is lost (PeerMember), and
//   is folded as lines that could not be read.
// - Without the register nothing is released and no share grows: a gateway that follows holds its
//   last route, and the one that decides takes kernels away and gives none back, since another may
//   have taken its place.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/control/decider.h"
#include "kcc/control/gateway_now.h"
#include "kcc/control/history.h"
#include "kcc/control/peer_items.h"
#include "kcc/control/route_record.h"
#include "kcc/register/gateway_peers.h"

namespace kcc {

// Where a gateway that begins to decide goes on from.
struct TakeOver {
  std::optional<PeerState> state;    // none: nothing was recorded under these documents
  std::optional<RouteRecord> route;  // in force; none: there is none
  bool own = false;                  // this gateway recorded both itself
};

// Records of a kernel that were sampled, and those whose evidence was handed on.
struct EvidenceCount {
  uint64_t sampled = 0, finished = 0;
};

struct PeerLinkParts {
  std::string uri;
  std::string gateway;   // its name
  std::string instance;  // of its state folder
  std::string boot;      // of this process
  PeerDocuments documents;
  Contract contract;
  MonitorPolicy policy;
  Stage stage = Stage::kFull;
  std::vector<std::string> kernels;  // of the pool, in its order
  const Clock* clock = nullptr;
  RouteWords* words = nullptr;  // written while it follows; by the evaluator while it decides
  History* history = nullptr;
  Decider* decider = nullptr;
  PeerOutbox* outbox = nullptr;
  // An evaluator that goes on from there.
  std::function<Result<std::shared_ptr<Evaluator>>(const TakeOver&)> start;
  std::function<std::map<std::string, EvidenceCount>()> counts;
};

class PeerLink {
 public:
  // Connects, and begins to decide or to follow. Fails where the register cannot be reached, where
  // the gateway that decides has other documents, and where the evaluator cannot be started.
  static Result<std::unique_ptr<PeerLink>> Start(PeerLinkParts parts);
  ~PeerLink() { End(); }
  // Hands over: a state with all that was folded, or all evidence that still waits. The evaluator
  // must be there until then; nothing is done afterwards.
  void End();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  PeersNow now() const;
  void Wake();  // something was decided; any thread

 private:
  explicit PeerLink(PeerLinkParts parts);

  // Of both roles (peer_link.cc).
  Result<> Connect();
  Result<> Begin();
  void Run();
  void Turn();
  void Lost(const Error& error);
  void Tell(const std::string& reason);
  void SetError(const std::string& error);
  PeerMember Self(const std::map<std::string, uint64_t>& missing) const;
  Result<std::optional<RouteRecord>> ReadRoute(int64_t event) const;

  // While it decides (peer_link_decide.cc).
  struct LastRoute {
    std::optional<RouteRecord> record;  // none: no gateway has recorded one under the contract
    int64_t event = 0;
  };
  Result<LastRoute> ReadLastRoute() const;
  Result<> BeginToDecide();
  Result<> SettleBefore(const PeerNotice& before, bool own);
  Result<> Decide();
  Result<> CheckTerm();
  Result<> TakeItems();
  Result<> LookAtMembers();
  void Settle(const PeerMember& member);
  Result<> Record();
  Result<> RecordRoute(RouteRecord record);
  Result<> Beat();
  void Hold(const std::string& why);
  void Release();
  void StepDown(const std::string& who);
  std::map<std::string, uint64_t> Unrecorded() const;
  void HandOver();

  // While it follows (peer_link_follow.cc).
  Result<> Follow();
  Result<> ReadWhatIsRecorded(const PeerNotice& notice);
  Result<> Publish(const PeerNotice& notice);
  Result<> DeliverAll();

  PeerLinkParts parts_;
  const std::string documents_;
  // Of the thread.
  std::unique_ptr<GatewayPeers> peers_;  // null: there is no connection
  double retry_at_s_ = 0;
  double told_at_s_ = 0;  // when members or the notice were last written
  int64_t term_ = 0;      // above 0: it decides, or did when the register was last read
  int64_t event_ = 0;     // with the route in force
  int64_t states_ = 0;
  bool held_ = false;
  int64_t taken_ = 0;  // of others' items, handed to the evaluator
  std::optional<PeerItemReader> items_;
  std::vector<PeerMember> settled_;  // whose missing evidence was told to the evaluator
  std::string recorded_;             // what of the monitor was last recorded, in short
  std::optional<RouteRecord> recorded_route_;
  int64_t recorded_observations_ = -1;
  double recorded_at_s_ = 0;
  std::map<std::string, uint64_t> finished_;  // of its own evidence, up to the recorded state
  // While it follows.
  std::optional<RouteRecord> followed_;
  std::optional<LiveWords> live_;
  MonitorStatus status_;
  std::string log_head_;
  RoutePlan plan_;
  std::map<std::string, std::string> shown_;
  std::map<std::string, int64_t> since_ms_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  bool end_ = false;
  bool woken_ = false;
  PeersNow now_;
  std::thread thread_;
};

}  // namespace kcc
