#include "kcc/contract/monitor_diff.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/change_list.h"
#include "kcc/contract/diff_clause.h"
#include "kcc/contract/values.h"
#include "kcc/contract/words.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {
namespace {

constexpr std::string_view kNotComparable = "; not comparable, so it counts as looser";

std::string BudgetWords(const FalseAlarmBudget& budget) {
  std::string text = FalseAlarmsText(budget);
  if (budget.rate_per_sec) text += " at " + RateText(*budget.rate_per_sec);
  return text;
}

std::string ShiftsText(const std::vector<double>& shifts) {
  if (shifts.empty()) return "the usual grid";
  std::string text;
  for (const double shift : shifts) text += (text.empty() ? "" : ", ") + ShortestNumber(shift);
  return "[" + text + "]";
}

// What the overrides say of one kind of violation; of two that match the first.
struct Route {
  std::optional<Action> action;  // none: the contract's
  std::string target;

  bool operator==(const Route&) const = default;
  bool operator<(const Route& other) const {
    return std::tie(action, target) < std::tie(other.action, other.target);
  }
};

std::string RouteText(const Route& route) {
  std::string text = route.action ? std::string(Name(*route.action)) : "as the contract says";
  return route.target.empty() ? text : text + ", to " + route.target;
}

Route RouteOf(const MonitorPolicy& policy, Family family, ViolationLevel level) {
  for (const RouteOverride& row : policy.overrides) {
    const bool fits = (!row.family || *row.family == family) && (!row.level || *row.level == level);
    if (fits) return {row.action, row.target};
  }
  return {};
}

// At least as tight: a graver action, and no other kernel.
bool Tightens(const Route& before, const Route& after) {
  return before.action && after.action && *after.action > *before.action &&
         before.target == after.target;
}

class MonitorDiff {
 public:
  MonitorDiff(const MonitorPolicy& before, const MonitorPolicy& after)
      : before_(before), after_(after) {}

  std::vector<Change> Run() {
    list_.Metadata(ViewMetadata(before_), ViewMetadata(after_));
    Detection();
    CompareAudit();
    CompareRelease();
    if (before_.panic != after_.panic) {
      list_.Add(Openness(after_.panic) > Openness(before_.panic), "policy",
                "panic changed " + FromTo(Name(before_.panic), Name(after_.panic)));
    }
    CompareRoutes();
    CompareKernels();
    return list_.Take();
  }

 private:
  using Looser = ChangeList::Looser;

  // How much is served by kernels that are known to be bad.
  static int Openness(PanicRule rule) {
    switch (rule) {
      case PanicRule::kFailClosed:
        return 0;
      case PanicRule::kServeSafest:
        return 1;
      case PanicRule::kFailOpen:
        break;
    }
    return 2;
  }

  void Detection() {
    const FalseAlarmBudget& a = before_.false_alarms;
    const FalseAlarmBudget& b = after_.false_alarms;
    const auto per_request = [](const FalseAlarmBudget& budget) {
      return budget.alarms / static_cast<double>(budget.requests);
    };
    list_.Amount("policy", "falseAlarms", BudgetWords(a), BudgetWords(b), per_request(a),
                 per_request(b), Looser::kMore);
    if (per_request(a) == per_request(b) && BudgetWords(a) != BudgetWords(b)) {
      list_.Note("policy", "falseAlarms is the same, stated as " + BudgetWords(b) + " instead of " +
                               BudgetWords(a));
    }
    if (before_.detector != after_.detector) {
      list_.Add(true, "policy",
                "detector changed " + FromTo(Name(before_.detector), Name(after_.detector)) +
                    std::string(kNotComparable));
    }
    if (before_.shifts != after_.shifts) {
      list_.Add(true, "policy",
                "shifts changed " + FromTo(ShiftsText(before_.shifts), ShiftsText(after_.shifts)) +
                    std::string(kNotComparable));
    }
    if (before_.window_requests != after_.window_requests) {  // for people; it decides nothing
      list_.Note("policy", "window changed " + FromTo(std::to_string(before_.window_requests),
                                                      std::to_string(after_.window_requests)));
    }
    if (before_.block_requests != after_.block_requests) {
      list_.Add(true, "policy",
                "block changed " +
                    FromTo(std::to_string(before_.block_requests),
                           std::to_string(after_.block_requests)) +
                    std::string(kNotComparable));
    }
  }

  void CompareAudit() {
    const AuditPolicy& a = before_.audit;
    const AuditPolicy& b = after_.audit;
    list_.Share("audit", "rate", a.rate, b.rate);
    // More probes show a guarded kernel more requests, and bring it back sooner.
    list_.Share("audit", "probeRate", a.probe_rate, b.probe_rate, Looser::kMore);
    if (a.once_per_session != b.once_per_session) {
      list_.Add(a.once_per_session, "audit",
                b.once_per_session ? "at most one request of a session is audited"
                                   : "several requests of a session may be audited");
    }
    list_.Time("audit", "sessionEpoch", a.session_epoch_ms, b.session_epoch_ms);
    // A smaller filter takes more keys for others, and audits less.
    const int64_t was = a.session_filter_bits / 8;
    const int64_t is = b.session_filter_bits / 8;
    list_.Amount("audit", "sessionFilter", SizeText(was), SizeText(is), static_cast<double>(was),
                 static_cast<double>(is));
  }

  void CompareRelease() {
    const ReleasePolicy& a = before_.release;
    const ReleasePolicy& b = after_.release;
    if (a.rule != b.rule) {
      list_.Add(true, "release",
                "rule changed " + FromTo(Name(a.rule), Name(b.rule)) + std::string(kNotComparable));
    }
    list_.Share("release", "alpha", a.alpha, b.alpha, Looser::kMore);
    list_.Count("release", "strikesMax", a.strikes_max, b.strikes_max);
    list_.Count("release", "clean", a.clean, b.clean);
    list_.Count("release", "probation", a.probation, b.probation);
  }

  // By what happens to each kind of violation, and not row by row: rows may be written in several
  // ways to one effect.
  void CompareRoutes() {
    std::map<std::pair<Route, Route>, std::vector<std::string>> changed;
    for (size_t family = 0; family < kFamilyWords.size(); ++family) {
      for (size_t level = 0; level < kLevelWords.size(); ++level) {
        const auto of = static_cast<Family>(family);
        const auto at = static_cast<ViolationLevel>(level);
        const Route a = RouteOf(before_, of, at);
        const Route b = RouteOf(after_, of, at);
        if (a == b) continue;
        changed[{a, b}].push_back(std::string(Name(of)) + " " + std::string(Name(at)));
      }
    }
    for (const auto& [routes, violations] : changed) {
      const auto& [a, b] = routes;
      const std::vector<std::string_view> names(violations.begin(), violations.end());
      const bool tighter = Tightens(a, b);
      list_.Add(!tighter, "overrides",
                JoinWords(names) + " changed " + FromTo(RouteText(a), RouteText(b)) +
                    std::string(tighter ? "" : kNotComparable));
    }
    const auto same = [](const RouteOverride& a, const RouteOverride& b) {
      return a.family == b.family && a.level == b.level && a.action == b.action &&
             a.target == b.target;
    };
    if (changed.empty() && !std::equal(before_.overrides.begin(), before_.overrides.end(),
                                       after_.overrides.begin(), after_.overrides.end(), same)) {
      list_.Note("overrides", "written otherwise, to the same effect");
    }
  }

  void CompareKernels() {
    for (const MonitorKernel& old : before_.kernels) {
      const MonitorKernel* now = after_.FindKernel(old.name);
      if (now == nullptr) {
        Gone(old);
      } else {
        CompareKernel(old, *now);
      }
    }
    for (const MonitorKernel& now : after_.kernels) {
      if (before_.FindKernel(now.name) != nullptr) continue;
      // A candidate decides nothing. Any other kernel may serve, or say what is true.
      list_.Add(Change{ChangeKind::kNew, now.role != KernelRole::kCandidate, "kernel " + now.name,
                       "added as " + std::string(Name(now.role))});
    }
    for (size_t role = 0; role < kKernelRoleWords.size(); ++role) {
      CompareOrder(static_cast<KernelRole>(role));
    }
  }

  // Without a guard, a fallback or an audit less can be done or seen; without an infer kernel,
  // less can go wrong.
  void Gone(const MonitorKernel& kernel) {
    const std::string where = "kernel " + kernel.name;
    const std::string what = "no longer there, was " + std::string(Name(kernel.role));
    switch (kernel.role) {
      case KernelRole::kInfer:
        return list_.Add(false, where, what);
      case KernelRole::kCandidate:
        return list_.Note(where, what);
      case KernelRole::kGuard:
      case KernelRole::kFallback:
      case KernelRole::kAudit:
        break;
    }
    list_.Add(Change{ChangeKind::kGone, true, where, what});
  }

  void CompareKernel(const MonitorKernel& a, const MonitorKernel& b) {
    const std::string where = "kernel " + a.name;
    if (a.role != b.role) {
      list_.Add(true, where,
                "role changed " + FromTo(Name(a.role), Name(b.role)) + std::string(kNotComparable));
    }
    if (a.fingerprint == b.fingerprint) return;
    const auto text = [](const std::string& fingerprint) {
      return fingerprint.empty() ? std::string("any") : YamlScalar(fingerprint);
    };
    list_.Add(!a.fingerprint.empty(), where,
              "fingerprint changed " + FromTo(text(a.fingerprint), text(b.fingerprint)));
  }

  // Of the kernels that have the role in both, since the first is asked first.
  void CompareOrder(KernelRole role) {
    const auto kept = [&](const MonitorPolicy& policy, const MonitorPolicy& other) {
      std::vector<std::string_view> names;
      for (const MonitorKernel& kernel : policy.kernels) {
        const MonitorKernel* same = other.FindKernel(kernel.name);
        if (kernel.role == role && same != nullptr && same->role == role) {
          names.push_back(kernel.name);
        }
      }
      return names;
    };
    const std::vector<std::string_view> a = kept(before_, after_);
    const std::vector<std::string_view> b = kept(after_, before_);
    if (a == b) return;
    const std::string what = "the order of role " + std::string(Name(role)) + " changed " +
                             FromTo(JoinWords(a), JoinWords(b));
    if (role == KernelRole::kCandidate) return list_.Note("kernels", what);
    list_.Add(true, "kernels", what + std::string(kNotComparable));
  }

  const MonitorPolicy& before_;
  const MonitorPolicy& after_;
  ChangeList list_;
};

}  // namespace

std::vector<Change> DiffMonitorPolicies(const MonitorPolicy& before, const MonitorPolicy& after) {
  return MonitorDiff(before, after).Run();
}

}  // namespace kcc
