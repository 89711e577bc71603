// The monitor policy: the typed form of a document of kind MonitorPolicy (docs/monitor.md). It says
// how often the monitor may raise an alarm for nothing, which requests are audited, where requests
// go after an alarm, and what evidence brings a kernel back.
//
// A MonitorPolicy is only made by ReadMonitorPolicy (contract/monitor_reader.h), so it is always
// valid: names are distinct, targets are kernels of the policy, there is a kernel of role infer and
// a fallback. What it means for a contract's clauses is decided by kcc/monitor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"

namespace kcc {

// What a kernel of the pool is for. Requests are never routed to kCandidate or kAudit.
enum class KernelRole : uint8_t { kInfer, kGuard, kFallback, kCandidate, kAudit };
bool IsServable(KernelRole role);
// The role that an action sends requests to; none for log and freeze, which move nothing. A
// rollback is carried out by others, and until then the fallback serves.
std::optional<KernelRole> RoleFor(Action action);

struct MonitorKernel {
  std::string name;  // unique in the policy
  KernelRole role = KernelRole::kInfer;
  std::string fingerprint;  // what its answers must carry; empty: any
  Mark mark;
};

// The alarms that may be raised while nothing is wrong, over all clauses and slices together: the
// chance of any false alarm within T requests is at most alarms * T / requests. Stated over a span
// of time, it is turned into requests by the declared rate.
struct FalseAlarmBudget {
  double alarms = 1;
  int64_t requests = 1'000'000;        // audited requests
  std::optional<int64_t> span_ms;      // set: it was stated over this span
  std::optional<double> rate_per_sec;  // audited requests a second; set with span_ms

  bool operator==(const FalseAlarmBudget&) const = default;
};

// "1 per 10^6 requests", "1 per 720h": as it was stated; the rate is a key of its own.
std::string FalseAlarmsText(const FalseAlarmBudget& budget);

// e-SR sees small shifts sooner, e-CUSUM has far fewer false alarms (stats/change.h).
enum class DetectorWord : uint8_t { kShiryaevRoberts, kCusum };

struct AuditPolicy {
  double rate = 0.05;            // share of requests that are audited
  double probe_rate = 0.05;      // share of requests that a guarded kernel is shown as probes
  bool once_per_session = true;  // at most one audited request for each session key and epoch
  int64_t session_epoch_ms = 86'400'000;
  int64_t session_filter_bits = int64_t{1} << 23;  // of the filter of keys seen in the epoch

  bool operator==(const AuditPolicy&) const = default;
};

// How a guarded kernel is released. kPass: the anytime-valid PASS test on the probes since its last
// alarm, for every clause that alarmed. There is no rule by time alone.
enum class ReleaseRule : uint8_t { kPass };

struct ReleasePolicy {
  ReleaseRule rule = ReleaseRule::kPass;
  double alpha = 0.05;  // of the first release; halved by every strike
  int64_t strikes_max = 10;
  int64_t clean = 3000;  // probes without an exceedance that release a hard clause without a test
  int64_t probation = 1000;  // audited requests at full audit after a release

  bool operator==(const ReleasePolicy&) const = default;
};

// What is served when every kernel that could serve is bad.
enum class PanicRule : uint8_t { kServeSafest, kFailClosed, kFailOpen };

// What a violation orders, and where requests go; the first that matches wins, before the
// contract's own escalation.
struct RouteOverride {
  std::optional<Family> family;  // none: any
  std::optional<ViolationLevel> level;
  std::optional<Action> action;  // none: the contract's
  std::string target;            // a kernel of the policy; empty: the first of the action's role
  Mark mark;
};

struct MonitorPolicy {
  std::string name;
  std::string version;
  std::string owner;
  std::string description;
  std::map<std::string, std::string> labels;
  FalseAlarmBudget false_alarms;
  DetectorWord detector = DetectorWord::kShiryaevRoberts;
  // Factors over the threshold that the detectors' bets are chosen for, rising, each > 1.
  std::vector<double> shifts;      // empty: the default grid
  int64_t window_requests = 1000;  // audited requests that health and shown rates are taken over
  int64_t block_requests = 200;    // for metrics of a population, judged block by block
  AuditPolicy audit;
  ReleasePolicy release;
  PanicRule panic = PanicRule::kServeSafest;
  std::vector<RouteOverride> overrides;
  std::vector<MonitorKernel> kernels;  // in the order of the document: the first of a role is asked

  const MonitorKernel* FindKernel(std::string_view name) const;
  const MonitorKernel* FirstOf(KernelRole role) const;  // null: there is none
};

// The words of the language.
std::string_view Name(KernelRole role);        // "infer"
std::string_view Name(DetectorWord detector);  // "e-sr", "e-cusum"
std::string_view Name(ReleaseRule rule);       // "pass"
std::string_view Name(PanicRule rule);         // "serve-safest", "fail-closed", "fail-open"

// Canonical form, identity and the text for people, as of a contract (contract/canonical.h).
std::string CanonicalJson(const MonitorPolicy& policy);
std::string PolicyDigest(const MonitorPolicy& policy);
std::string ToYaml(const MonitorPolicy& policy);

}  // namespace kcc
