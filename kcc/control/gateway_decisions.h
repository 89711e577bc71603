// The part of a gateway's process that decides, or follows whoever does: the evaluator, and what
// the register has to do with it.
//
// Without a register, and with one in a file, this gateway decides, alone. At a register in
// PostgreSQL one of several does (peer_link.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kcc/base/clock.h"
#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"
#include "kcc/control/decider.h"
#include "kcc/control/gateway_files.h"
#include "kcc/control/gateway_parts.h"
#include "kcc/control/history.h"
#include "kcc/control/live_evidence.h"
#include "kcc/control/peer_link.h"
#include "kcc/control/register_link.h"

namespace kcc {

// Of this process's sampled records, by kernel: those that were put for the scorer are the core's
// to count, those whose evidence was handed on are counted here. Any thread.
class EvidenceCounts {
 public:
  explicit EvidenceCounts(const GatewayCore* core) : core_(core) {}
  // Of what the scorer hands on: one record may give several pieces, one after the other.
  void Finish(const ServedRecord& record);
  // All that was sampled up to now was handed on, or told to be lost.
  void FinishAll();
  std::map<std::string, EvidenceCount> Now() const;

 private:
  const GatewayCore* core_;
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> finished_;
  std::string last_;  // record
};

class GatewayDecisions {
 public:
  GatewayDecisions(const GatewayDocuments& documents, StatePaths paths, std::string kcc_version,
                   History* history, const Clock* clock);
  ~GatewayDecisions() { Stop(); }

  // Opens the register. Nothing is decided yet.
  Result<> Open();
  Result<> Start(GatewayCore* core);
  // Folds or delivers what it was given, and hands over. Evidence must not come any more.
  void Stop();

  Decider& decider() { return *decider_; }
  EvidenceCounts& counts() { return *counts_; }
  RegisterLink* link() { return link_.get(); }  // null: there is no register
  std::optional<PeersNow> peers() const;        // none: it shares its register with nobody
  // A change, as it is decided; any thread.
  void OnHistory(const HistoryEntry& entry);

 private:
  Result<std::shared_ptr<Evaluator>> StartEvaluator(const TakeOver& from);
  EvaluatorOptions OptionsFrom(const TakeOver& from) const;
  Result<> StartPeers(GatewayCore* core);
  void RecordLast();
  RouteWishes WishesNow() const;
  bool shared() const;  // the register is one that several gateways may have

  const GatewayDocuments documents_;
  const StatePaths paths_;
  const std::string kcc_version_;
  History* const history_;
  const Clock* const clock_;
  FileDescriptor folder_;  // the lock on the state's folder, of a register that is shared
  std::string instance_;
  GatewayCore* core_ = nullptr;
  std::atomic<bool> ended_{false};  // it decided until its end
  std::unique_ptr<PeerOutbox> outbox_;
  std::unique_ptr<EvidenceCounts> counts_;
  std::unique_ptr<LiveEvidence> evidence_;  // none: no promotion is followed
  std::unique_ptr<RegisterLink> link_;
  std::unique_ptr<Decider> decider_;
  std::unique_ptr<PeerLink> peers_;
  std::atomic<RegisterLink*> told_link_{nullptr};
  std::atomic<PeerLink*> told_peers_{nullptr};
};

}  // namespace kcc
