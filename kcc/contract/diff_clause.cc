// Each comparison below is one axis along which "the new clause is satisfied" implies "the old one
// is"; implications compose, so a clause is at least as tight if none of its axes loosens. An axis
// without a provable order is called looser, with "not comparable" in its words.
#include "kcc/contract/diff_clause.h"

#include <algorithm>
#include <set>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

constexpr std::string_view kNotComparable = "; not comparable, so it counts as looser";

template <class T>
std::set<T> SetOf(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class T>
std::vector<T> Missing(const std::vector<T>& wanted, const std::vector<T>& from) {
  const std::set<T> wanted_set = SetOf(wanted);
  const std::set<T> from_set = SetOf(from);
  std::vector<T> missing;
  std::set_difference(wanted_set.begin(), wanted_set.end(), from_set.begin(), from_set.end(),
                      std::back_inserter(missing));
  return missing;
}

// "on slice all", "on slices all and long-context".
std::string OnSlices(const Clause& clause) {
  const std::vector<std::string_view> names(clause.slices.begin(), clause.slices.end());
  return (names.size() == 1 ? "on slice " : "on slices ") + JoinWords(names);
}

class ClauseDiff {
 public:
  ClauseDiff(const ClauseInContract& before, const ClauseInContract& after)
      : before_(before), after_(after), a_(before.clause), b_(after.clause) {}

  std::vector<Change> Run() {
    Family();
    Metric();
    Threshold();
    Exceedance();
    Slices();
    Response();
    Evidence();
    Stages();
    Fields();
    if (a_.holdout != b_.holdout) {
      Add(a_.holdout, a_.holdout ? "no longer held out: it may be used as a training signal"
                                 : "held out: never to be used as a training signal");
    }
    if (a_.why != b_.why) Note("why changed");
    return std::move(changes_);
  }

 private:
  std::string Where() const { return "clause " + a_.id; }
  void Add(bool looser, std::string what) {
    changes_.push_back(MakeChange(looser, Where(), std::move(what)));
  }
  void Note(std::string what) { changes_.push_back(MakeNote(Where(), std::move(what))); }

  // The family decides only what an override orders, which Response() compares.
  void Family() {
    if (a_.family != b_.family) Note("moved " + FromTo(Name(a_.family), Name(b_.family)));
  }

  void Metric() {
    if (a_.metric == b_.metric) return;
    // One name with another definition: said once, with the metric.
    if (MetricName(a_.metric) == MetricName(b_.metric)) return;
    const std::string what =
        "metric changed " + FromTo(MetricName(a_.metric), MetricName(b_.metric));
    // A bound from above on a higher percentile of the same values holds on the lower one; a bound
    // from below the other way round. Not where the old metric is the extreme on the easy side (a
    // smallest value atMost): a certificate for a percentile is none for it.
    const int before_ppm = PercentilePpm(a_.metric.aggregate);
    const int after_ppm = PercentilePpm(b_.metric.aggregate);
    const bool percentiles = a_.metric.quantity == b_.metric.quantity &&
                             a_.metric.side == b_.metric.side && before_ppm >= 0 && after_ppm >= 0;
    const bool at_most = b_.bound == BoundKind::kAtMost;
    const Aggregate easiest = at_most ? Aggregate::kMin : Aggregate::kMax;
    const bool tighter = percentiles && a_.metric.aggregate != easiest &&
                         (at_most ? after_ppm > before_ppm : after_ppm < before_ppm);
    Add(!tighter, percentiles ? what : what + std::string(kNotComparable));
  }

  void Threshold() {
    const std::string metric = MetricName(b_.metric);
    if (a_.bound != b_.bound) {
      Add(true, "bound of " + metric + " " + OnSlices(b_) + " turned from " +
                    std::string(Name(a_.bound)) + " " + ShortestNumber(a_.threshold) + " to " +
                    std::string(Name(b_.bound)) + " " + ShortestNumber(b_.threshold) +
                    std::string(kNotComparable));
      return;
    }
    if (a_.threshold == b_.threshold) return;
    const bool raised = b_.threshold > a_.threshold;
    Add(raised == (b_.bound == BoundKind::kAtMost),
        std::string(b_.bound == BoundKind::kAtMost ? "upper" : "lower") + " threshold of " +
            metric + " " + OnSlices(b_) + (raised ? " raised " : " lowered ") +
            FromTo(ShortestNumber(a_.threshold), ShortestNumber(b_.threshold)));
  }

  void Exceedance() {
    if (a_.hard() && b_.hard()) return;
    if (a_.hard()) {
      Add(true, "hard clause became soft: " + PercentText(b_.exceedance) + " of windows (" +
                    WindowText(b_.window) + ") may break the threshold of " +
                    MetricName(b_.metric));
      return;
    }
    if (b_.hard()) return BecameHard();
    if (a_.exceedance != b_.exceedance) {
      const bool raised = b_.exceedance > a_.exceedance;
      Add(raised, "exceedance budget of " + MetricName(b_.metric) + " " + OnSlices(b_) +
                      (raised ? " raised " : " lowered ") +
                      FromTo(PercentText(a_.exceedance), PercentText(b_.exceedance)));
    }
    if (a_.window != b_.window) {
      Add(true, "window of " + MetricName(b_.metric) + " changed " +
                    FromTo(WindowText(a_.window), WindowText(b_.window)) +
                    std::string(kNotComparable));
    }
  }

  // Over the whole slice a metric can be good while most windows are bad: a mean hides them. Only
  // the extreme value speaks for every request; longer windows may not even be complete.
  void BecameHard() {
    const Aggregate extreme = b_.bound == BoundKind::kAtMost ? Aggregate::kMax : Aggregate::kMin;
    const bool tighter = b_.metric.aggregate == extreme && a_.window.kind == Window::Kind::kRequest;
    std::string what = "soft clause (" + PercentText(a_.exceedance) + " of windows, " +
                       WindowText(a_.window) + ") became hard on " + MetricName(b_.metric) +
                       " over the whole slice";
    Add(!tighter, tighter ? what : what + std::string(kNotComparable));
  }

  // A slice of the same name is compared on its own; under a new name it must mean the same.
  void Slices() {
    const std::string metric = MetricName(b_.metric);
    for (const std::string& name : Missing(a_.slices, b_.slices)) {
      if (const std::string* twin = Twin(name, before_.contract, after_)) {
        Note("slice " + name + " of " + metric + " is now " + *twin + ", the same requests");
      } else {
        Add(true, metric + " is no longer bounded on slice " + name);
      }
    }
    for (const std::string& name : Missing(b_.slices, a_.slices)) {
      if (Twin(name, after_.contract, before_) == nullptr) {
        Add(false, metric + " is now bounded on slice " + name + " too");
      }
    }
  }

  // The name under which the other clause has the same slice.
  static const std::string* Twin(const std::string& name, const Contract& contract,
                                 const ClauseInContract& other) {
    const Slice* slice = contract.FindSlice(name);
    if (slice == nullptr) return nullptr;
    for (const std::string& candidate : other.clause.slices) {
      const Slice* found = other.contract.FindSlice(candidate);
      if (found != nullptr && SliceMeaning(*found) == SliceMeaning(*slice)) return &candidate;
    }
    return nullptr;
  }

  void Response() {
    if (a_.level != b_.level) {
      const bool lowered = b_.level < a_.level;
      Add(lowered, std::string(lowered ? "level lowered " : "level raised ") +
                       FromTo(Name(a_.level), Name(b_.level)));
    }
    const bool inherited = !a_.action && !b_.action;
    if (inherited && a_.level == b_.level && a_.family == b_.family) return;
    const Action before = ActionOf(before_.contract.escalation, a_);
    const Action after = ActionOf(after_.contract.escalation, b_);
    if (before == after) return;
    Add(after < before, std::string("action on a violation ") +
                            (after < before ? "weakened " : "strengthened ") +
                            FromTo(Name(before), Name(after)));
  }

  void Least(std::string_view unit, int64_t before, int64_t after) {
    if (before == after) return;
    Add(after < before, "least evidence " + std::string(after < before ? "lowered " : "raised ") +
                            FromTo(std::to_string(before), std::to_string(after)) + " " +
                            std::string(unit));
  }

  void Evidence() {
    Least("requests", a_.min_samples.requests, b_.min_samples.requests);
    Least("tokens", a_.min_samples.tokens, b_.min_samples.tokens);
    if (!a_.confidence && !b_.confidence) return;
    const double before = a_.confidence.value_or(before_.contract.decision.confidence);
    const double after = b_.confidence.value_or(after_.contract.decision.confidence);
    if (before == after) return;
    Add(after < before, std::string("confidence ") + (after < before ? "lowered " : "raised ") +
                            FromTo(ShortestNumber(before), ShortestNumber(after)));
  }

  void Stages() {
    for (const Stage stage : Missing(a_.stages, b_.stages)) {
      Add(true, "no longer judged in stage " + std::string(Name(stage)));
    }
    for (const Stage stage : Missing(b_.stages, a_.stages)) {
      Add(false, "now judged in stage " + std::string(Name(stage)) + " too");
    }
  }

  void Fields() {
    for (const std::string& field : Missing(a_.fields, b_.fields)) {
      Add(true, MetricName(b_.metric) + " no longer asks for field " + field);
    }
    for (const std::string& field : Missing(b_.fields, a_.fields)) {
      Add(false, MetricName(b_.metric) + " now asks for field " + field);
    }
  }

  const ClauseInContract& before_;
  const ClauseInContract& after_;
  const Clause& a_;
  const Clause& b_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> DiffClause(const ClauseInContract& before, const ClauseInContract& after) {
  return ClauseDiff(before, after).Run();
}

std::string SliceMeaning(const Slice& slice) {
  return slice.where ? slice.where->Canonical() : std::string();
}

Change MakeChange(bool looser, std::string where, std::string what) {
  return {.kind = looser ? ChangeKind::kLooser : ChangeKind::kTighter,
          .loosens = looser,
          .where = std::move(where),
          .what = std::move(what)};
}

Change MakeNote(std::string where, std::string what) {
  return {.kind = ChangeKind::kOther,
          .loosens = false,
          .where = std::move(where),
          .what = std::move(what)};
}

std::string FromTo(std::string_view before, std::string_view after) {
  return "from " + std::string(before) + " to " + std::string(after);
}

}  // namespace kcc
