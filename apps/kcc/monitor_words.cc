#include "apps/kcc/monitor_words.h"

#include <string>

#include "apps/kcc/console.h"
#include "kcc/base/strings.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/values.h"

namespace kcc::cli {
namespace {

std::string Requests(int64_t count) { return Counted(static_cast<size_t>(count), "request"); }

// The budget as it is stated, and what it bounds.
void AddBudget(const FalseAlarmBudget& budget, std::vector<PlanSentence>* rows) {
  std::string text = "at most " + FalseAlarmsText(budget) + " while nothing is wrong";
  if (budget.rate_per_sec) {
    text += ", which is " + ShortestNumber(budget.alarms) + " per " + Requests(budget.requests) +
            " at " + RateText(*budget.rate_per_sec);
  }
  rows->push_back({"false alarms", text + "; over all clauses and slices together"});
  const double each = budget.alarms / static_cast<double>(budget.requests);
  rows->push_back({"", "the chance of one within T audited requests is at most " +
                           ReadableNumber(each) + " T"});
}

std::string DetectorWords(const MonitorPolicy& policy) {
  std::string text =
      policy.detector == DetectorWord::kShiryaevRoberts
          ? "e-SR, which sees small shifts soonest"
          : "e-CUSUM, which keeps well within the budget and sees small shifts later";
  if (policy.shifts.empty()) return text + "; bets for shifts of every size";
  std::vector<std::string> factors;
  for (const double shift : policy.shifts) factors.push_back(ShortestNumber(shift));
  const std::vector<std::string_view> names(factors.begin(), factors.end());
  return text + "; bets for shifts to " + JoinWords(names) + " times a clause's budget";
}

DocumentPart AlarmsPart(const MonitorPolicy& policy) {
  DocumentPart part{"alarms", {}};
  AddBudget(policy.false_alarms, &part.sentences);
  part.sentences.push_back({"detector", DetectorWords(policy)});
  part.sentences.push_back(
      {"proof", "one exceedance of a hard clause is a violation at once, without a detector"});
  part.sentences.push_back({"populations",
                            "metrics that only a population has are taken over "
                            "blocks of " +
                                Requests(policy.block_requests)});
  part.sentences.push_back({"shown", "health and rates, over the last audited " +
                                         Requests(policy.window_requests) +
                                         "; no action comes from them"});
  return part;
}

DocumentPart AuditPart(const AuditPolicy& audit) {
  DocumentPart part{"audit", {}};
  part.sentences.push_back({"looks at", audit.rate == 0
                                            ? std::string("nothing: no request is audited")
                                            : PercentText(audit.rate) + " of requests"});
  part.sentences.push_back(
      {"probes", audit.probe_rate == 0
                     ? std::string("none, so a guarded kernel never comes back")
                     : PercentText(audit.probe_rate) +
                           " of requests are shown to a guarded kernel too; nobody gets its "
                           "answers"});
  part.sentences.push_back(
      {"sessions",
       audit.once_per_session
           ? "at most one audited request of a session key in " +
                 DurationText(audit.session_epoch_ms) + ", remembered in " +
                 SizeText(audit.session_filter_bits / 8) +
                 "; a key that is taken for another costs an audit and admits none"
           : std::string("any number of audited requests; where those of one session are alike, "
                         "the budget of false alarms does not hold")});
  return part;
}

std::string_view RoleMeaning(KernelRole role) {
  switch (role) {
    case KernelRole::kInfer:
      return "serves while all is well";
    case KernelRole::kGuard:
      return "serves in place of a guarded kernel";
    case KernelRole::kFallback:
      return "serves after a fallback, and until a rollback is carried out";
    case KernelRole::kCandidate:
      return "is watched, and never serves";
    case KernelRole::kAudit:
      break;
  }
  return "says what is true, and never serves";
}

// "a numerical violation of level L2".
std::string ViolationWords(const RouteOverride& route) {
  std::string text = "a violation";
  if (route.family) {
    text = (route.family == Family::kObservability ? "an " : "a ") +
           std::string(Name(*route.family)) + " violation";
  }
  if (route.level) text += " of level " + std::string(Name(*route.level));
  return text;
}

std::string RouteWords(const MonitorPolicy& policy, const RouteOverride& route) {
  std::string text = ViolationWords(route) + " orders ";
  text += route.action ? std::string(Name(*route.action)) : "what the contract says";
  if (!route.target.empty()) return text + ", to " + route.target;
  const auto role = route.action ? RoleFor(*route.action) : std::nullopt;
  const MonitorKernel* first = role ? policy.FirstOf(*role) : nullptr;
  return first == nullptr ? text : text + ", to " + first->name;
}

std::string_view PanicWords(PanicRule rule) {
  switch (rule) {
    case PanicRule::kServeSafest:
      return "serve-safest: where every kernel that could serve is bad, the least bad of them does";
    case PanicRule::kFailClosed:
      return "fail-closed: where every kernel that could serve is bad, requests are refused";
    case PanicRule::kFailOpen:
      break;
  }
  return "fail-open: where every kernel that could serve is bad, the first serves as if none were";
}

DocumentPart RoutesPart(const MonitorPolicy& policy) {
  DocumentPart part{"routes", {}};
  for (const MonitorKernel& kernel : policy.kernels) {
    std::string text = kernel.name + ", " + std::string(Name(kernel.role)) + ": " +
                       std::string(RoleMeaning(kernel.role));
    if (!kernel.fingerprint.empty()) text += "; its answers carry " + kernel.fingerprint;
    part.sentences.push_back({&kernel == &policy.kernels.front() ? "kernels" : "", text});
  }
  for (const RouteOverride& route : policy.overrides) {
    part.sentences.push_back(
        {&route == &policy.overrides.front() ? "overrides" : "", RouteWords(policy, route)});
  }
  part.sentences.push_back({policy.overrides.empty() ? "violations" : "",
                            policy.overrides.empty() ? "order what the contract says"
                                                     : "any other orders what the contract says"});
  part.sentences.push_back({"panic", std::string(PanicWords(policy.panic))});
  return part;
}

DocumentPart ReleasePart(const ReleasePolicy& release) {
  DocumentPart part{"release", {}};
  part.sentences.push_back(
      {"rule",
       "pass: every clause that alarmed holds on the probes since the last alarm, by a test "
       "that holds however often one looks; time alone releases nothing"});
  std::string alpha =
      "a kernel that is still bad passes with a chance of at most " + PercentText(release.alpha);
  if (release.strikes_max > 0) {
    alpha += "; half of that after every alarm that follows a release, up to " +
             Counted(static_cast<size_t>(release.strikes_max), "time");
  }
  part.sentences.push_back({"error", alpha});
  part.sentences.push_back(
      {"hard clauses", "by " + std::to_string(release.clean) + " probes without one exceedance"});
  part.sentences.push_back({"probation", release.probation == 0
                                             ? std::string("none")
                                             : "every request is audited until " +
                                                   Requests(release.probation) + " were"});
  return part;
}

}  // namespace

std::vector<DocumentPart> MonitorParts(const MonitorPolicy& policy) {
  return {AlarmsPart(policy), AuditPart(policy.audit), RoutesPart(policy),
          ReleasePart(policy.release)};
}

}  // namespace kcc::cli
