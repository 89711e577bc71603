// The order in which verdicts outweigh each other is the judge's: violated, error, inconclusive,
// satisfied. Nothing here turns one into another; a hard clause that no sample certifies stays
// inconclusive, and is called held by the policy's own rule, with the rate that this excludes.
#include "kcc/promotion/assess.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

bool Contains(const std::vector<std::string>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Six digits: what libraries may compute differently lies beyond them, and states must not differ.
double SixDigits(double value) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.6g", value);
  return ParseNumber(text).value_or(value);
}

std::string ClauseText(const ClauseFinding& finding) {
  return finding.id + " (" + std::string(Name(finding.level)) + ")";
}

std::string ViolationText(const ClauseFinding& finding) {
  std::string text = ClauseText(finding) + " is violated";
  if (!finding.reason.empty()) text += ": " + finding.reason;
  // The same evidence, so what both fail is not what the candidate changed.
  if (finding.incumbent == Verdict::kViolated) text += " (the incumbent violates it too)";
  if (finding.incumbent == Verdict::kSatisfied) text += " (the incumbent satisfies it)";
  return text;
}

// Violations are taken from the evaluation as it is, whatever the contract asked for: an L3 that
// nobody expected is an L3. What is missing is taken from what the contract asked for, so that an
// evaluation of fewer clauses is not a better one.
class Assessor {
 public:
  Assessor(const PromotionPolicy& policy, const PromotionState& state, const Evaluation& evaluation,
           bool live)
      : policy_(policy),
        state_(state),
        evaluation_(evaluation),
        stage_(evaluation.stage),
        live_(live) {}

  Assessment Run() {
    for (const ClauseFinding& finding : evaluation_.clauses) {
      if (!by_id_.emplace(finding.id, &finding).second) {
        found_.errors.push_back("the evaluation has two verdicts on " + finding.id);
      }
      if (finding.hard && finding.exceeding > 0) found_.exceeded.push_back(finding.id);
      if (finding.verdict == Verdict::kViolated) Violated(finding);
    }
    bool any = false;
    for (const AskedClause& asked : state_.asked) {
      if (!Counts(asked)) continue;
      any = true;
      Ask(asked);
    }
    if (!any)
      found_.missing.emplace_back("no clause counts in this stage, so nothing can be shown");
    if (!state_.asked_old.empty()) UnderOld();
    return std::move(found_);
  }

 private:
  bool Counts(const AskedClause& asked) const {
    const bool judged =
        std::find(asked.stages.begin(), asked.stages.end(), stage_) != asked.stages.end();
    return judged && CountsIn(policy_, stage_, asked.id, asked.level);
  }

  void Violated(const ClauseFinding& finding) {
    const Enforce mode = policy_.EnforceOf(finding.id);
    if (mode == Enforce::kOff) return;
    if (mode == Enforce::kShadow) return found_.watched.push_back(finding.id);
    const bool counts = CountsIn(policy_, stage_, finding.id, finding.level);
    // The level is the least that follows; the contract may order more.
    if (finding.level == ViolationLevel::kL3 || finding.action >= Action::kFallback ||
        (!live_ && counts)) {
      found_.ends.push_back(ViolationText(finding));
    } else if (finding.action == Action::kFreeze) {
      found_.freezes.push_back(ViolationText(finding));
    } else if (live_ &&
               (finding.level == ViolationLevel::kL2 || finding.action == Action::kGuard)) {
      found_.guards.push_back(ViolationText(finding));
    } else if (counts) {
      found_.missing.push_back(ViolationText(finding));
      found_.spoiled.push_back(ViolationText(finding));
    } else {
      found_.watched.push_back(finding.id);
    }
  }

  // One clause that must be satisfied before the stage is left.
  void Ask(const AskedClause& asked) {
    const auto found = by_id_.find(asked.id);
    if (found == by_id_.end()) {
      return found_.missing.push_back("there is no verdict on " + asked.id);
    }
    const ClauseFinding& finding = *found->second;
    // Then it is a verdict about another contract, whatever its digest says.
    if (finding.level != asked.level || finding.hard != asked.hard) {
      return found_.errors.push_back("the evaluation calls " + ClauseText(finding) +
                                     (finding.hard ? " hard" : " soft") + ", the contract has it " +
                                     std::string(Name(asked.level)) +
                                     (asked.hard ? " and hard" : " and soft"));
    }
    switch (finding.verdict) {
      case Verdict::kSatisfied:
      case Verdict::kViolated:  // said above
        return;
      case Verdict::kError:
        return found_.errors.push_back(ClauseText(finding) + " could not be judged" +
                                       (finding.reason.empty() ? "" : ": " + finding.reason));
      case Verdict::kInconclusive:
        break;
    }
    if (asked.hard && !asked.never.empty()) return Clean(asked, finding);
    found_.missing.push_back(ClauseText(finding) + " is inconclusive" +
                             (finding.reason.empty() ? "" : ": " + finding.reason));
  }

  // An exceedance is remembered for the step: n clean requests after a bad one are what one finds
  // by waiting long enough, and exclude no rate.
  void Clean(const AskedClause& asked, const ClauseFinding& finding) {
    const std::optional<int64_t> clean = policy_.stage(stage_).clean;
    const std::string who = ClauseText(finding);
    if (!clean) {
      found_.missing.push_back(who + " cannot be certified from samples (" + asked.never +
                               "), and the policy names no number of clean requests");
    } else if (Contains(state_.progress.exceeded, asked.id) || finding.exceeding > 0) {
      found_.missing.push_back(who + " was exceeded by a request, so clean ones do not hold it");
      found_.spoiled.push_back(found_.missing.back());
    } else if (finding.audited < *clean) {
      found_.missing.push_back(who + " has " + std::to_string(finding.audited) + " of " +
                               std::to_string(*clean) + " clean audited requests");
    } else {
      found_.held.push_back({asked.id, finding.audited,
                             SixDigits(ExcludedRate(finding.audited, policy_.confidence))});
    }
  }

  // A looser contract may be what is wanted, but never without anybody knowing: what the old one
  // does not grant is listed, and then a person must agree (machine.cc).
  void UnderOld() {
    if (evaluation_.old_contract != state_.incumbent.contract) {
      found_.missing.emplace_back("the evidence was not judged under the incumbent's contract too");
      return;
    }
    for (const AskedClause& asked : state_.asked_old) {
      if (!Counts(asked)) continue;
      const auto finding =
          std::find_if(evaluation_.under_old.begin(), evaluation_.under_old.end(),
                       [&](const ClauseFinding& row) { return row.id == asked.id; });
      if (finding == evaluation_.under_old.end()) {
        found_.missing.push_back("there is no verdict on " + asked.id + " of the old contract");
      } else if (finding->verdict != Verdict::kSatisfied) {
        found_.loosened.push_back(asked.id);
      }
    }
  }

  const PromotionPolicy& policy_;
  const PromotionState& state_;
  const Evaluation& evaluation_;
  Stage stage_;
  bool live_;
  std::map<std::string_view, const ClauseFinding*> by_id_;
  Assessment found_;
};

// A verdict by a test for one look counts where the policy planned that look, and once.
std::string WhyNotThisLook(const StagePolicy& stage, const Evaluation& evaluation, int64_t* looks) {
  for (size_t i = static_cast<size_t>(*looks); i < stage.looks.size(); ++i) {
    const Look& look = stage.looks[i];
    if (look.requests != evaluation.requests) continue;
    if (evaluation.alpha <= 0 || evaluation.alpha > look.alpha) {
      return "the look at " + std::to_string(look.requests) + " requests may spend " +
             ReadableNumber(look.alpha) + ", and its test was made at " +
             ReadableNumber(evaluation.alpha);
    }
    *looks = static_cast<int64_t>(i) + 1;
    return {};
  }
  return "a test for one look at " + std::to_string(evaluation.requests) +
         " requests is not among the looks that the policy planned and that are left";
}

std::string WhyNotThisTest(const PromotionPolicy& policy, const Evaluation& evaluation,
                           int64_t* looks) {
  if (evaluation.test == TestKind::kAnytime) return {};
  if (evaluation.stage == Stage::kOffline) {
    if (evaluation.test == TestKind::kExact) return {};
    if ((*looks)++ == 0) return {};
    return "a test for one look was used in this stage already";
  }
  if (evaluation.test == TestKind::kExact) {
    return "it states a fact about the evidence it has, not about traffic";
  }
  return WhyNotThisLook(policy.stage(evaluation.stage), evaluation, looks);
}

}  // namespace

std::optional<Stage> StageOf(Phase phase) {
  switch (phase) {
    case Phase::kOffline:
      return Stage::kOffline;
    case Phase::kShadow:
      return Stage::kShadow;
    case Phase::kCanary:
      return Stage::kCanary;
    case Phase::kFull:
      return Stage::kFull;
    case Phase::kProposed:
    case Phase::kRejected:
    case Phase::kRolledBack:
    case Phase::kFrozen:
    case Phase::kSuperseded:
      break;
  }
  return {};
}

bool OnlyGrows(const PromotionPolicy& policy, const Evaluation& evaluation) {
  return evaluation.test == TestKind::kAnytime && !policy.stage(evaluation.stage).looks.empty();
}

Assessment Assess(const PromotionPolicy& policy, const PromotionState& state,
                  const Evaluation& evaluation, bool live) {
  return Assessor(policy, state, evaluation, live).Run();
}

// Every look of a step must be at one growing body of evidence: a test that holds at any time errs
// with probability alpha for the whole of it, and a fresh start would be another chance to err.
std::string WhyNotCounted(const PromotionPolicy& policy, const PromotionState& state,
                          const Evaluation& evaluation, int64_t* looks) {
  const StepProgress& progress = state.progress;
  if (!IsSha256(evaluation.evidence)) return "its evidence has no digest";
  if (Contains(state.counted, evaluation.evidence) || evaluation.evidence == progress.evidence) {
    return "its evidence was counted before";
  }
  for (const PassedStep& passed : state.passed) {
    if (passed.evidence == evaluation.evidence) {
      return "its evidence is that of " + std::string(Name(passed.stage));
    }
  }
  // A fact about a fixed set errs never, so another set may be looked at.
  const bool exact = evaluation.test == TestKind::kExact && evaluation.stage == Stage::kOffline;
  if (!exact && evaluation.continues != progress.evidence) {
    // Whoever knows why it continues nothing says so in place of a digest.
    const bool said = !evaluation.continues.empty() && !IsSha256(evaluation.continues);
    const std::string why = said ? ": it " + evaluation.continues : "";
    return progress.evidence.empty()
               ? "it continues evidence that this step does not have" + why
               : "it does not continue the evidence of the look before it, and a fresh start would "
                 "be another chance to err" +
                     why;
  }
  if (!exact && !progress.evidence.empty() && evaluation.requests <= progress.requests) {
    return "it has no more requests than the look before it";
  }
  return WhyNotThisTest(policy, evaluation, looks);
}

}  // namespace kcc
