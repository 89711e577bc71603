#include "kcc/contract/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "kcc/base/strings.h"
#include "kcc/contract/certifiable.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

bool ShareStage(const Clause& a, const Clause& b) {
  return std::any_of(a.stages.begin(), a.stages.end(), [&](Stage stage) {
    return std::find(b.stages.begin(), b.stages.end(), stage) != b.stages.end();
  });
}

// True if whatever satisfies `tight` satisfies `loose`, both of one metric, window and bound.
bool Implies(const Clause& tight, const Clause& loose) {
  const bool threshold = tight.bound == BoundKind::kAtMost ? tight.threshold <= loose.threshold
                                                           : tight.threshold >= loose.threshold;
  return threshold && tight.exceedance <= loose.exceedance &&
         std::includes(tight.stages.begin(), tight.stages.end(), loose.stages.begin(),
                       loose.stages.end());
}

// What one (metric, window, slice) has been asked for so far: the tightest clause per bound and
// level.
struct Asked {
  std::array<std::array<const ClauseDraft*, 3>, 2> tightest{};
};

class PairChecker {
 public:
  PairChecker(const SliceIndex& slices, Problems* problems)
      : slices_(slices), problems_(*problems) {}

  void Add(const ClauseDraft& draft) {
    bool subsumption_said = false;
    bool contradiction_said = false;
    const Clause& clause = draft.clause;
    for (const uint32_t row : draft.slice_rows) {
      Asked& asked = asked_[row];
      contradiction_said = contradiction_said || Contradicts(draft, asked, row);
      const ClauseDraft*& cell =
          asked.tightest[static_cast<size_t>(clause.bound)][static_cast<size_t>(clause.level)];
      if (cell == nullptr) {
        cell = &draft;
      } else if (Implies(cell->clause, clause)) {
        if (!subsumption_said) ReportSubsumed(draft, *cell, row);
        subsumption_said = true;
      } else if (Implies(clause, cell->clause)) {
        if (!subsumption_said) ReportSubsumed(*cell, draft, row);
        subsumption_said = true;
        cell = &draft;
      }
    }
  }

 private:
  std::string SliceName(uint32_t row) const {
    const YamlNode* node = slices_.rows[row].node;
    return node == nullptr ? "all" : std::string(node->text);
  }

  bool Contradicts(const ClauseDraft& draft, const Asked& asked, uint32_t row) {
    const Clause& clause = draft.clause;
    for (const ClauseDraft* other : asked.tightest[clause.bound == BoundKind::kAtMost ? 1 : 0]) {
      if (other == nullptr) continue;
      const bool most = clause.bound == BoundKind::kAtMost;
      const double upper = most ? clause.threshold : other->clause.threshold;
      const double lower = most ? other->clause.threshold : clause.threshold;
      // A window breaks one of the two, so the budgets would have to cover all windows.
      if (lower <= upper || clause.exceedance + other->clause.exceedance >= 1 ||
          !ShareStage(clause, other->clause)) {
        continue;
      }
      problems_.Error(*draft.threshold, "contradiction",
                      "clauses " + Quoted(other->clause.id) + " and " + Quoted(clause.id) +
                          " cannot both hold on slice " + Quoted(SliceName(row)) + ": " +
                          MetricName(clause.metric) + " would be at least " +
                          ShortestNumber(lower) + " and at most " + ShortestNumber(upper),
                      "the other one is on line " + std::to_string(other->clause.mark.line));
      return true;
    }
    return false;
  }

  void ReportSubsumed(const ClauseDraft& loose, const ClauseDraft& tight, uint32_t row) {
    problems_.Warning(*loose.threshold, "subsumed",
                      "clause " + Quoted(loose.clause.id) + " never decides on slice " +
                          Quoted(SliceName(row)) + ": " + Quoted(tight.clause.id) +
                          " asks at least as much at the same level",
                      "remove one, or give them different levels");
  }

  const SliceIndex& slices_;
  Problems& problems_;
  std::unordered_map<uint32_t, Asked> asked_;
};

void CheckPairs(const std::vector<ClauseDraft>& clauses, const SliceIndex& slices,
                Problems* problems) {
  using Key = std::tuple<std::string_view, Aggregate, Side, bool, Window::Kind, int64_t,
                         std::vector<std::string>>;
  std::map<Key, std::vector<const ClauseDraft*>> groups;
  for (const ClauseDraft& draft : clauses) {
    const Clause& clause = draft.clause;
    std::vector<std::string> fields = clause.fields;
    std::sort(fields.begin(), fields.end());
    groups[{clause.metric.quantity->id, clause.metric.aggregate, clause.metric.side, clause.hard(),
            clause.window.kind, clause.window.size, std::move(fields)}]
        .push_back(&draft);
  }
  for (const auto& [key, group] : groups) {
    if (group.size() < 2) continue;
    PairChecker checker(slices, problems);
    for (const ClauseDraft* draft : group) checker.Add(*draft);
  }
}

void CheckFamily(const ClauseDraft& draft, Problems* problems) {
  const FamilySet natural = draft.clause.metric.quantity->families;
  if (natural.empty() || natural.contains(draft.clause.family)) return;
  std::vector<std::string_view> names;
  for (const Family family :
       {Family::kNumerical, Family::kStatistical, Family::kRuntime, Family::kObservability}) {
    if (natural.contains(family)) names.push_back(Name(family));
  }
  problems->Warning(*draft.metric, "family",
                    "a clause on " + Quoted(draft.clause.metric.quantity->id) + " stands under " +
                        std::string(Name(draft.clause.family)),
                    "readers look for it under " + JoinWords(names, "or"));
}

// docs/math.md B.4 and W12: a sample refutes such a clause, and never certifies it.
void CheckCertifiable(const ClauseDraft& draft, const Assumptions& assumptions,
                      Problems* problems) {
  const Clause& clause = draft.clause;
  const Certifiable certifiable = CertifiableForTraffic(clause, assumptions);
  const Aggregate aggregate = clause.metric.aggregate;
  const bool most = clause.bound == BoundKind::kAtMost;
  const std::string name = MetricName(clause.metric);
  const auto with = [&](Aggregate other) {
    return MetricName({clause.metric.quantity, other, clause.metric.side});
  };
  if (certifiable == Certifiable::kNotExtreme) {
    std::string hint = "add 'exceedance: 0.1%' with a window";
    if (aggregate != Aggregate::kNone) {
      hint = "write 'metric: " + with(most ? Aggregate::kP999 : Aggregate::kP001) +
             "', or add 'exceedance: 0.1%'";
    }
    problems->Warning(
        *draft.metric, "not-certifiable",
        "no sample of traffic can show " + Quoted(name) + ": the next request may be the worst",
        std::move(hint));
  } else if (certifiable == Certifiable::kNotUnboundedMean) {
    std::string hint;
    switch (clause.metric.quantity->bounded_by) {
      case BoundedBy::kOwnRange:
        hint = "write 'metric: " + with(most ? Aggregate::kP99 : Aggregate::kP01) +
               "', or add 'exceedance: 1%'";
        if (clause.metric.quantity->own != nullptr) {
          hint += most ? ", or declare its min and max in spec.metrics"
                       : ", or declare its min in spec.metrics";
        }
        break;
      case BoundedBy::kRewardMax:
        hint = "set assumptions.rewardMax";
        break;
      case BoundedBy::kTokensMax:
        hint = "set assumptions.tokensMax";
        break;
    }
    problems->Warning(*draft.metric, "not-certifiable",
                      "no sample of traffic can show " + Quoted(name) +
                          ": the mean of an unbounded quantity has no upper confidence bound",
                      std::move(hint));
  }
}

// docs/math.md C.3b: the ratio test over requests needs the most tokens a request can have.
bool IsTokenRate(const Clause& clause) {
  const Aggregate aggregate = clause.metric.aggregate;
  const bool share = aggregate == Aggregate::kRate || PercentilePpm(aggregate) >= 0 ||
                     (aggregate == Aggregate::kMean && std::isfinite(MetricMax(clause.metric)));
  const bool extreme = aggregate == Aggregate::kMax || aggregate == Aggregate::kMin;
  const bool token = clause.metric.quantity->level == QuantityLevel::kToken && share && !extreme;
  return clause.hard() && (token || clause.metric.quantity->form == TestForm::kTokenShare);
}

void CheckTraffic(const Contract& contract, const std::vector<ClauseDraft>& clauses,
                  Problems* problems) {
  if (contract.decision.about != Population::kTraffic) return;
  const ClauseDraft* token_rate = nullptr;
  size_t token_rates = 0;
  for (const ClauseDraft& draft : clauses) {
    CheckCertifiable(draft, contract.assumptions, problems);
    if (!IsTokenRate(draft.clause)) continue;
    if (token_rates++ == 0) token_rate = &draft;
  }
  if (token_rate == nullptr || contract.assumptions.tokens_max) return;
  std::string message = "clause " + Quoted(token_rate->clause.id);
  if (token_rates > 1) message += " and " + std::to_string(token_rates - 1) + " more";
  problems->Warning(*token_rate->metric, "needs-tokens-max",
                    message +
                        " bound a share of tokens; about traffic that needs the most tokens "
                        "a request can have",
                    "set assumptions.tokensMax");
}

void CheckQuantileOfQuantiles(const ClauseDraft& draft, Problems* problems) {
  const Clause& clause = draft.clause;
  const Aggregate aggregate = clause.metric.aggregate;
  const int ppm = PercentilePpm(aggregate);
  const bool percentile = ppm > 0 && ppm < 1'000'000;
  if (clause.hard() || (!percentile && aggregate != Aggregate::kRate)) return;
  problems->Warning(*draft.exceedance, "quantile-of-quantiles",
                    Quoted(MetricName(clause.metric)) +
                        " is itself a share, so this bounds the share of windows in which a share "
                        "is exceeded",
                    "drop the exceedance, or use the mean or max of each window");
}

void CheckSlicesUsed(const Contract& contract, const SliceIndex& slices, Problems* problems) {
  for (size_t i = 1; i < slices.rows.size(); ++i) {
    if (slices.rows[i].used) continue;
    problems->Warning(*slices.rows[i].node, "unused-slice",
                      "no clause names slice " + Quoted(contract.slices[i].name),
                      "name it in a clause's slices, or remove it");
  }
}

// Only where nothing else is wrong: a misspelt metric would make its victim look unused.
void CheckMetricsUsed(const Contract& contract, const std::vector<ClauseDraft>& clauses,
                      const std::vector<const YamlNode*>& names, Problems* problems) {
  if (problems->any_error()) return;
  for (size_t i = 0; i < names.size(); ++i) {
    const OwnDefinition& definition = contract.metrics[i];
    const bool used = std::any_of(clauses.begin(), clauses.end(), [&](const ClauseDraft& draft) {
      return draft.clause.metric.quantity == definition.row;
    });
    if (used) continue;
    problems->Warning(
        *names[i], "unused-metric", "no clause uses metric " + Quoted(definition.row->id),
        "use it in a clause, as in mean_" + std::string(definition.row->id) + ", or remove it");
  }
}

}  // namespace

void CheckContract(const Contract& contract, const std::vector<ClauseDraft>& clauses,
                   const SliceIndex& slices, const std::vector<const YamlNode*>& own_names,
                   Problems* problems) {
  CheckPairs(clauses, slices, problems);
  for (const ClauseDraft& draft : clauses) {
    CheckFamily(draft, problems);
    CheckQuantileOfQuantiles(draft, problems);
  }
  CheckTraffic(contract, clauses, problems);
  CheckSlicesUsed(contract, slices, problems);
  CheckMetricsUsed(contract, clauses, own_names, problems);
}

}  // namespace kcc
