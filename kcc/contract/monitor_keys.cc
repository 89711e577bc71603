// The key tables of a monitor policy (keys.h).
#include <algorithm>

#include "kcc/base/constants.h"
#include "kcc/contract/key_rows.h"

namespace kcc {
namespace {

using enum ValueType;

// clang-format off
constexpr KeyRow kMonitor[] = {
    {"apiVersion", kWord, kRequired, "", "version of the contract language", kApiVersions},
    {"kind", kWord, kRequired, "", "what the document is", KindWordAt(2)},
    {"metadata", kMapping, kRequired, "", "name and version of the policy",
     {}, -kInf, kInf, kClosed, kClosed, "monitorMetadata"},
    {"spec", kMapping, kRequired, "", "the policy itself: alarms, audits, routes and the way back",
     {}, -kInf, kInf, kClosed, kClosed, "monitorSpec"},
};

constexpr KeyRow kMonitorSpec[] = {
    {"falseAlarms", kAlarmBudget, kRequired, "", "how often an alarm may come while nothing is wrong, over all clauses and slices together. Of `A per N requests`, the chance of one within T audited requests is at most A * T / N"},
    {"auditedRate", kRate, kOptional, "", "audited requests in a time, by which a budget such as `1 per 30d` is turned into requests; required with one, and of no use without"},
    {"detector", kWord, kOptional, "e-sr", "e-sr sees small shifts sooner; e-cusum has fewer false alarms than the budget allows", kDetectorWords},
    {"shifts", kNumberList, kOptional, "", "how many times its budget a clause may be exceeded for the detectors to be quickest, rising; without it, a grid for shifts of every size",
     {}, 1, 1e9, kOpen},
    {"window", kInteger, kOptional, "1000", "audited requests that health and the rates that people see are taken over; no action comes from them", {}, 1, 1e9},
    {"block", kInteger, kOptional, "200", "audited requests of a block, for metrics that only a population has", {}, 1, 1e9},
    {"audit", kMapping, kOptional, "", "which requests are audited",
     {}, -kInf, kInf, kClosed, kClosed, "auditRule"},
    {"release", kMapping, kOptional, "", "what evidence brings a guarded kernel back",
     {}, -kInf, kInf, kClosed, kClosed, "releaseRule"},
    {"panic", kWord, kRequired, "", "what is served when every kernel that could serve is bad. serve-safest: the one whose health is least bad; fail-closed: none, requests are refused; fail-open: the first of role infer, as if nothing were wrong", kPanicWords},
    {"overrides", kMappingList, kOptional, "", "where a violation sends requests, before the contract's own escalation; the first that matches wins",
     {}, -kInf, kInf, kClosed, kClosed, "routeOverride"},
    {"kernels", kMappingList, kRequired, "", "the kernels that are watched, or that requests go to; of a role the first is asked first",
     {}, -kInf, kInf, kClosed, kClosed, "monitorKernel"},
};

constexpr KeyRow kAuditRule[] = {
    {"rate", kRatio, kOptional, "5%", "share of requests that are audited", {}, 0, 1},
    {"probeRate", kRatio, kOptional, "5%", "share of requests that a guarded kernel is shown as probes, whose answers nobody gets", {}, 0, 1},
    {"oncePerSession", kBoolean, kOptional, "true", "audit at most one request of a session key in an epoch: requests of one session are alike, and the budget of false alarms holds for requests that are not"},
    {"sessionEpoch", kDuration, kOptional, "24h", "how long a session key is remembered"},
    {"sessionFilter", kSize, kOptional, "1MiB", "memory for the session keys of an epoch, from 1KiB to 1GiB. A key that is taken for another costs an audit, and never admits one"},
};

constexpr KeyRow kReleaseRule[] = {
    {"rule", kWord, kOptional, "pass", "pass: the anytime-valid test that each clause that alarmed holds, on the probes since the last alarm. Time alone releases nothing", kReleaseWords},
    {"alpha", kRatio, kOptional, "5%", "error of that test at the first release; halved by every strike, an alarm after a release", {}, 0, 0.5, kOpen},
    {"strikesMax", kInteger, kOptional, "10", "strikes that halve alpha; further ones do not", {}, 0, 50},
    {"clean", kInteger, kOptional, "3000", "probes without one exceedance that release a hard clause, which no test can certify", {}, 1, 1e12},
    {"probation", kInteger, kOptional, "1000", "audited requests after a release during which every request is audited", {}, 0, 1e12},
};

constexpr KeyRow kRouteOverride[] = {
    {"family", kWord, kOptional, "", "family it applies to; without it, any", kFamilyWords},
    {"level", kWord, kOptional, "", "level it applies to; without it, any", kLevelWords},
    {"action", kWord, kOptional, "", "what the violation orders; without it, what the contract says", kActionWords},
    {"target", kIdentifier, kOptional, "", "kernel that requests go to; without it, the first of the action's role: guard for guard, fallback for fallback and rollback"},
};

constexpr KeyRow kMonitorKernel[] = {
    {"name", kIdentifier, kRequired, "", "name of the kernel, unique in the policy; what observations call it"},
    {"role", kWord, kRequired, "", "infer: serves while all is well; guard: serves instead of a guarded one; fallback: the safest; candidate and audit: never serve", kKernelRoleWords},
    {"fingerprint", kText, kOptional, "", "what its answers must carry as kernel_fingerprint; without it, anything"},
};

constexpr MappingTable kMonitorTables[] = {
    {"monitor", "a monitor policy", kMonitor},
    {"monitorMetadata", "what identifies the policy", kPolicyMetadataRows},
    {"monitorSpec", "the policy: how often it may be wrong, what it looks at, where requests go and what brings them back", kMonitorSpec},
    {"auditRule", "which requests are audited", kAuditRule},
    {"releaseRule", "what evidence brings a guarded kernel back", kReleaseRule},
    {"routeOverride", "where a violation sends requests", kRouteOverride},
    {"monitorKernel", "one kernel of the pool", kMonitorKernel},
};
// clang-format on

static_assert(std::all_of(std::begin(kMonitorTables), std::end(kMonitorTables),
                          [](const MappingTable& table) {
                            return table.keys.size() <= kMappingKeysMax;
                          }));

}  // namespace

std::span<const MappingTable> MonitorTables() { return kMonitorTables; }

}  // namespace kcc
