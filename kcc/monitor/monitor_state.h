// All that a monitor is: what is fixed (contract, policy, signals), and what observations change.
// Only the latter is saved; bytes are read against the former.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/monitor/kernel_state.h"
#include "kcc/monitor/monitor.h"
#include "kcc/monitor/release.h"
#include "kcc/monitor/request_evidence.h"
#include "kcc/monitor/route.h"
#include "kcc/monitor/session_filter.h"
#include "kcc/monitor/signal.h"

namespace kcc {

// Of the saved bytes. Another version is refused: a monitor that guesses may release what it must
// not. A state in which no kernel was renewed is written as the version before, which knew of none.
inline constexpr uint64_t kMonitorStateVersion = 3;
inline constexpr uint64_t kMonitorStateBefore = 2;

struct Monitor::State {
  State(Contract its_contract, MonitorPolicy its_policy, const MonitorOptions& its_options)
      : contract(std::move(its_contract)),
        policy(std::move(its_policy)),
        options(its_options),
        sessions(policy.audit.session_filter_bits),
        requests(policy.audit.session_filter_bits) {}

  // Fixed after Make. Signals point into the contract, records into the policy.
  Contract contract;
  MonitorPolicy policy;
  MonitorOptions options;
  SignalPlan plan;
  std::optional<RequestEvidence> evidence;
  Order on_broken;
  std::string identity;  // digest of contract, policy and options
  uint64_t seed = 0;     // of the hashes, from the identity

  std::vector<KernelRecord> kernels;
  SessionFilter sessions;  // audited in the epoch, by kernel
  SessionFilter requests;  // ids that counted in the epoch, by kernel
  int64_t epoch = 0;
  bool begun = false;  // an epoch has begun
  int64_t observations = 0;
  int64_t unaudited = 0;
  int64_t duplicates = 0;
  int64_t repeated_sessions = 0;
  int64_t late = 0;
  int64_t renewals = 0;
  Route route;

  KernelRecord* Find(std::string_view kernel);
  const KernelRecord* Find(std::string_view kernel) const;
  int64_t EpochOf(int64_t time_ms) const;
  uint64_t SessionKey(std::string_view request, std::string_view session,
                      std::string_view kernel) const;
  double AuditRate(const KernelRecord& record) const;
  // Whether the observation is evidence; takes its session and its id where it is.
  Handling Admit(const MonitorObservation& observation);
  void Fold(const MonitorObservation& observation, KernelRecord* record,
            std::vector<MonitorChange>* changes);
  // One that is no evidence but of its being logged.
  void FoldEvent(const MonitorObservation& observation, KernelRecord* record,
                 std::vector<MonitorChange>* changes);
  // A line that could not be read, and is or may be the kernel's.
  void FoldUnread(bool its_own, KernelRecord* record, std::vector<MonitorChange>* changes);
  // Lines that could not be read: all that became nothing else.
  int64_t Unread() const;
  int64_t HalfWindow() const { return std::max<int64_t>(1, policy.window_requests / 2); }
  Route Choose() const;
  void UpdateRoute(std::vector<MonitorChange>* changes);
  KernelStatus StatusOf(const KernelRecord& record) const;

  void Visit(Archive& archive);
};

}  // namespace kcc
