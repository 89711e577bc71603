#include "kcc/contract/monitor_reader.h"

#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/contract/false_alarms.h"
#include "kcc/contract/mapping_reader.h"
#include "kcc/contract/override_cover.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/read_document.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

constexpr double kDaySeconds = 86'400;
// The detectors of every clause and slice hold one bet for each shift.
constexpr size_t kShiftsMax = 16;
constexpr int64_t kFilterBytesMin = int64_t{1} << 10;
constexpr int64_t kFilterBytesMax = int64_t{1} << 30;

std::string RoleText(KernelRole role) { return "role " + std::string(Name(role)); }

// Goes through the document once and keeps going after a mistake, as the reader of contracts does.
// A part that is wrong is left at its default; the policy is handed out only if nothing was wrong.
class MonitorReader {
 public:
  MonitorReader(const YamlDocument& document, Problems* problems)
      : document_(document), problems_(*problems) {}

  MonitorPolicy Read() {
    const MappingReader root(document_, document_.root(), TableOf("monitor"), &problems_);
    ReadPolicyRoot(root, &policy_, [&](const MappingReader& spec) { Spec(spec); });
    return std::move(policy_);
  }

 private:
  void Spec(const MappingReader& spec) {
    Budget(spec);
    policy_.detector = spec.EnumWord<DetectorWord>("detector").value_or(policy_.detector);
    Shifts(spec);
    policy_.window_requests = spec.Integer("window").value_or(policy_.window_requests);
    policy_.block_requests = spec.Integer("block").value_or(policy_.block_requests);
    if (const auto audit = spec.Mapping("audit")) Audit(*audit);
    if (const auto release = spec.Mapping("release")) Release(*release);
    policy_.panic = spec.EnumWord<PanicRule>("panic").value_or(policy_.panic);
    if (policy_.panic == PanicRule::kFailOpen) {
      problems_.Warning(
          *spec.Value("panic"), "fail-open",
          "when every kernel is bad, the first serves as if nothing were wrong",
          "write 'panic: serve-safest', or keep it if any answer is better than none");
    }
    // First, since overrides name them.
    Kernels(spec);
    Overrides(spec);
  }

  void Budget(const MappingReader& spec) {
    const auto budget = spec.ReadAs("falseAlarms", ReadFalseAlarms, "bad-budget");
    const auto rate = spec.ReadAs("auditedRate", ReadRate, "bad-rate");
    if (!budget) return;
    FalseAlarmBudget& read = policy_.false_alarms;
    read = *budget;
    const YamlNode& at = *spec.Value("falseAlarms");
    if (!read.span_ms && spec.Key("auditedRate") != nullptr) {
      problems_.Error(*spec.Key("auditedRate"), "rate-unused",
                      "falseAlarms counts requests, and auditedRate is for a budget over time",
                      "remove auditedRate, or write 'falseAlarms: 1 per 30d'");
    }
    if (read.span_ms && spec.Key("auditedRate") == nullptr) {
      problems_.Error(at, "missing-rate",
                      "falseAlarms is over a time, and detectors count audited requests",
                      "add 'auditedRate: 5 per s', or write '1 per 10^6 requests'");
    }
    if (read.span_ms && !rate) return;
    if (read.span_ms && !CountRequests(*rate, &read)) {
      problems_.Error(at, "out-of-range", "falseAlarms is over more than 10^15 audited requests",
                      "write a shorter time or fewer alarms");
      return;
    }
    CheckBudget(at);
  }

  void CheckBudget(const YamlNode& at) {
    const FalseAlarmBudget& budget = policy_.false_alarms;
    const auto requests = static_cast<double>(budget.requests);
    if (budget.alarms >= requests) {
      problems_.Error(at, "vacuous-budget", "falseAlarms lets every audited request raise an alarm",
                      "write how seldom a false one may come, such as 1 per 10^6 requests");
      return;
    }
    // Without a rate, one audited request a second is taken for little traffic.
    const double per_day = budget.alarms * budget.rate_per_sec.value_or(1) * kDaySeconds / requests;
    if (per_day < 1) return;
    problems_.Warning(at, "alarms-daily",
                      "falseAlarms allows " + ReadableNumber(per_day) + " a day" +
                          (budget.rate_per_sec ? "" : " at one audited request a second") +
                          ", and nobody follows alarms that come daily for nothing",
                      "write fewer, such as 1 per 10^6 requests");
  }

  void Shifts(const MappingReader& spec) {
    for (const MappingReader::NumberItem& item : spec.NumberList("shifts")) {
      if (!policy_.shifts.empty() && item.value <= policy_.shifts.back()) {
        problems_.Error(*item.at, "shifts-not-rising",
                        "a shift of " + ShortestNumber(item.value) + " follows one of " +
                            ShortestNumber(policy_.shifts.back()),
                        "list shifts from the smallest to the largest");
      }
      policy_.shifts.push_back(item.value);
    }
    if (policy_.shifts.size() > kShiftsMax) {
      problems_.Error(
          *spec.Key("shifts"), "too-many-shifts",
          "shifts lists " + std::to_string(policy_.shifts.size()) + ", and each dilutes the others",
          "list at most " + std::to_string(kShiftsMax));
    }
  }

  void Audit(const MappingReader& mapping) {
    AuditPolicy& audit = policy_.audit;
    audit.rate = mapping.Number("rate").value_or(audit.rate);
    audit.probe_rate = mapping.Number("probeRate").value_or(audit.probe_rate);
    audit.once_per_session = mapping.Boolean("oncePerSession").value_or(audit.once_per_session);
    if (const auto epoch = mapping.Duration("sessionEpoch")) {
      audit.session_epoch_ms = *epoch;
      if (*epoch == 0) {
        problems_.Error(*mapping.Value("sessionEpoch"), "out-of-range",
                        "sessionEpoch is no time at all",
                        "write '24h', or 'oncePerSession: false'");
      }
    }
    if (const auto filter = mapping.ReadAs("sessionFilter", ReadSize, "bad-size")) {
      audit.session_filter_bits = *filter * 8;
      if (*filter < kFilterBytesMin || *filter > kFilterBytesMax) {
        problems_.Error(*mapping.Value("sessionFilter"), "out-of-range",
                        "sessionFilter " + SizeText(*filter) + " is out of range",
                        "it must be at least 1KiB and at most 1GiB");
      }
    }
    if (audit.rate == 0) {
      problems_.Warning(*mapping.Value("rate"), "nothing-audited",
                        "no request is audited, so the monitor never sees anything",
                        "write 'rate: 5%'");
    }
    if (audit.probe_rate == 0) {
      problems_.Warning(*mapping.Value("probeRate"), "never-released",
                        "a guarded kernel gets no probes, so nothing can ever release it",
                        "write 'probeRate: 5%'");
    }
    if (!audit.once_per_session) {
      problems_.Warning(*mapping.Value("oncePerSession"), "sessions-repeat",
                        "requests of one session are alike, and the budget of false alarms holds "
                        "for requests that are not",
                        "write 'oncePerSession: true' unless every request is a session");
    }
  }

  void Release(const MappingReader& mapping) {
    ReleasePolicy& release = policy_.release;
    release.rule = mapping.EnumWord<ReleaseRule>("rule").value_or(release.rule);
    release.alpha = mapping.Number("alpha").value_or(release.alpha);
    release.strikes_max = mapping.Integer("strikesMax").value_or(release.strikes_max);
    release.clean = mapping.Integer("clean").value_or(release.clean);
    release.probation = mapping.Integer("probation").value_or(release.probation);
  }

  void Kernels(const MappingReader& spec) {
    DistinctNames names("two kernels have the name", &problems_);
    for (const YamlNode* item : spec.Items("kernels")) {
      if (problems_.full()) return;
      const MappingReader row(document_, *item, TableOf("monitorKernel"), &problems_);
      if (row.is_mapping()) names.Add(row.Value("name"));
      const auto name = row.Text("name");
      const auto role = row.EnumWord<KernelRole>("role");
      const std::string fingerprint = row.Text("fingerprint").value_or("");
      if (name && role) {
        policy_.kernels.push_back({*name, *role, fingerprint, problems_.MarkOf(*item)});
      } else {
        kernels_known_ = false;
      }
    }
    const YamlNode* key = spec.Key("kernels");
    if (!kernels_known_ || key == nullptr || spec.Value("kernels") == nullptr) return;
    for (const KernelRole role : {KernelRole::kInfer, KernelRole::kFallback}) {
      if (policy_.FirstOf(role) != nullptr) continue;
      problems_.Error(*key, "missing-role", "no kernel has the " + RoleText(role),
                      "add '- {name: " + std::string(Name(role)) +
                          "-kernel, role: " + std::string(Name(role)) + "}'");
    }
  }

  void Overrides(const MappingReader& spec) {
    OverrideCover cover;
    for (const YamlNode* item : spec.Items("overrides")) {
      if (problems_.full()) return;
      const MappingReader row(document_, *item, TableOf("routeOverride"), &problems_);
      if (!row.is_mapping()) continue;
      RouteOverride read;
      read.family = row.EnumWord<Family>("family");
      read.level = row.EnumWord<ViolationLevel>("level");
      read.action = row.EnumWord<Action>("action");
      read.target = row.Text("target").value_or("");
      read.mark = problems_.MarkOf(*item);
      CheckRoute(row, read);
      if (!cover.Add(read.family, read.level)) {
        problems_.Warning(*item, "unreachable-override",
                          "earlier overrides catch everything that this one would",
                          "move it up or remove it");
      }
      policy_.overrides.push_back(std::move(read));
    }
  }

  // What an override orders can be done: it leads to a kernel that may serve.
  void CheckRoute(const MappingReader& row, const RouteOverride& route) {
    if (row.Key("action") == nullptr && row.Key("target") == nullptr) {
      problems_.Error(row.node(), "says-nothing", "the override has neither action nor target",
                      "add 'action: guard', or remove it");
    }
    if (route.action && !RoleFor(*route.action)) {
      if (row.Key("target") == nullptr) return;
      problems_.Error(*row.Key("target"), "target-unused",
                      std::string(Name(*route.action)) + " sends requests nowhere",
                      "remove target, or write 'action: guard'");
      return;
    }
    if (!kernels_known_) return;
    if (!route.target.empty()) return CheckTarget(*row.Value("target"), route.target);
    if (route.action && row.Key("target") == nullptr) CheckRole(row, *route.action);
  }

  void CheckRole(const MappingReader& row, Action action) {
    const KernelRole role = RoleFor(action).value_or(KernelRole::kFallback);
    if (policy_.FirstOf(role) != nullptr) return;
    problems_.Error(
        *row.Value("action"), "no-kernel-for-action",
        std::string(Name(action)) + " has no target, and no kernel has the " + RoleText(role),
        "name a target, or add a kernel of that role");
  }

  void CheckTarget(const YamlNode& at, const std::string& target) {
    if (const MonitorKernel* kernel = policy_.FindKernel(target)) {
      if (IsServable(kernel->role)) return;
      problems_.Error(at, "not-servable",
                      "'" + target + "' has the " + RoleText(kernel->role) + ", which never serves",
                      "name a kernel of role infer, guard or fallback");
      return;
    }
    std::vector<std::string_view> names;
    for (const MonitorKernel& kernel : policy_.kernels) names.push_back(kernel.name);
    const auto nearest = NearestWord(target, names);
    problems_.Error(at, "unknown-kernel", "there is no kernel '" + target + "'",
                    nearest ? "did you mean '" + std::string(*nearest) + "'?"
                            : "kernels are " + JoinWords(names));
  }

  const YamlDocument& document_;
  Problems& problems_;
  MonitorPolicy policy_;
  bool kernels_known_ = true;  // every kernel of the document could be read
};

}  // namespace

MonitorOutcome ReadMonitorPolicy(std::string_view yaml) {
  MonitorOutcome outcome;
  outcome.diagnostics = ReadDocument(
      yaml,
      [](const YamlDocument& document, Problems* problems) {
        return MonitorReader(document, problems).Read();
      },
      &outcome.policy);
  return outcome;
}

}  // namespace kcc
